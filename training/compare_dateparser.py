"""Compares the quick start's model with the library dateparser on the same strings.

    make quickstart
    make compare-dateparser

dateparser is written by hand and reads about 200 languages, times, relative dates ("two days ago")
and more. The model was trained only on absolute dates in the formats of Babel's calendar data, and
both are measured on such dates, which favors the model. Neither of them is given the language of a
date.
"""

import argparse
import time
from collections.abc import Sequence

import dateparser

from keras_transformer._utils.errors import UserError
from keras_transformer.data import make_dates
from keras_transformer.inference import load
from keras_transformer.trainer import load_recipe


def by_dateparser(texts: Sequence[str]) -> list[str]:
    """Returns the ISO dates that dateparser finds in texts, "" where it finds none."""
    found = [dateparser.parse(text) for text in texts]
    return [moment.date().isoformat() if moment else "" for moment in found]


def main() -> None:
    """Prints the share of exact matches and the speed of both."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("model", nargs="?", default="saved_models/dates", help="an export")
    arguments = parser.parse_args()
    try:
        model = load(arguments.model)
    except UserError as error:
        parser.exit(2, f"{error} `make quickstart` makes one.\n")
    dates = make_dates(training_pairs=load_recipe("quickstart").data.builtin_pairs)
    readers = {
        "model": model.translate,
        f"dateparser {dateparser.__version__}": by_dateparser,
    }
    print(f"{'exact matches':<18}" + "".join(f"{name:>20}" for name in readers))
    seconds = dict.fromkeys(readers, 0.0)
    for test, pairs in dates.tests.items():
        sources, references = zip(*pairs, strict=True)
        row = f"{test:<18}"
        for name, read in readers.items():
            start = time.perf_counter()
            answers = read(sources)
            seconds[name] += time.perf_counter() - start
            right = sum(map(str.__eq__, answers, references))
            row += f"{right / len(references):>20.1%}"
        print(row, flush=True)
    total = sum(len(pairs) for pairs in dates.tests.values())
    speeds = "".join(f"{total / seconds[name]:>20,.0f}" for name in readers)
    print(f"{'dates per second':<18}{speeds}")


if __name__ == "__main__":
    main()
