"""The quick start's model and dateparser on the same strings.

    make quickstart
    make compare-dateparser

dateparser is written by hand and knows some 200 languages, times, relative dates ("two days ago")
and much else. The model has seen nothing but absolute dates in the formats of Babel's calendar
data, and is judged on those. So this compares them where the model is at home. dateparser is called
without a hint about the language, as the model has none either.
"""

import argparse
import time

import dateparser

from keras_transformer._utils.errors import UserError
from keras_transformer.data import make_dates
from keras_transformer.export import open_text_model
from keras_transformer.inference import translate_lines
from keras_transformer.trainer import load_recipe


def by_dateparser(texts):
    """ISO dates of texts; "" where dateparser finds none."""
    found = [dateparser.parse(text) for text in texts]
    return [moment.date().isoformat() if moment else "" for moment in found]


def by_model(model, texts):
    return [translation.text for translation in translate_lines(model, texts)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", nargs="?", default="saved_models/dates", help="an export")
    arguments = parser.parse_args()
    try:
        model = open_text_model(arguments.model)
    except UserError as error:
        parser.exit(2, f"{error} `make quickstart` makes one.\n")
    dates = make_dates(training_pairs=load_recipe("quickstart").data.builtin_pairs)
    tests = {"unseen dates": dates.test, "unseen languages": dates.held_out}
    ways = {
        "model": lambda texts: by_model(model, texts),
        f"dateparser {dateparser.__version__}": by_dateparser,
    }
    print(f"{'exact matches':<18}" + "".join(f"{way:>20}" for way in ways))
    seconds = dict.fromkeys(ways, 0.0)
    for name, pairs in tests.items():
        sources, references = zip(*pairs, strict=True)
        row = f"{name:<18}"
        for way, translate in ways.items():
            start = time.perf_counter()
            answers = translate(sources)
            seconds[way] += time.perf_counter() - start
            right = sum(map(str.__eq__, answers, references))
            row += f"{right / len(references):>20.1%}"
        print(row, flush=True)
    total = sum(len(pairs) for pairs in tests.values())
    print(f"{'dates a second':<18}" + "".join(f"{total / seconds[way]:>20,.0f}" for way in ways))


if __name__ == "__main__":
    main()
