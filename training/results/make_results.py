"""Makes the parts of a results page from finished runs of a recipe with several seeds.

  python training/results/make_results.py \\
      --runs runs/multi30k_seed1 runs/multi30k_seed2 runs/multi30k_seed3 \\
      --test multi30k/tok/test_2016_flickr.en multi30k/tok/test_2016_flickr.de \\
      --train multi30k/tok/train.en multi30k/tok/train.de \\
      --output training/results/multi30k

Each run translates the test set with its final weights and the search of its recipe. Standard
output gets Markdown: a table of the runs with means and standard deviations, and the mistakes of
the first run, sorted by kind. The output directory gets two pictures: learning_curves.png, and
bleu_by_length.png with BLEU by the number of words of the source. Save the page in the parent of
that directory.

Runs whose recipes differ in more than the seed may follow: they get means and a color of their own,
and are named after the changes. Words are separated by white space, so give tokenized files, as for
the training.
"""

import argparse
import dataclasses
import os
import pathlib
import shlex
import sys
from collections.abc import Sequence

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from finished_run import FinishedRun, group_by_recipe, read_run
from mistake_kinds import sort_by_kind
from result_page import mistakes_section, pictures_section, runs_section
from result_pictures import draw_bleu_by_length, draw_learning_curves

from keras_transformer._utils.errors import UserError
from keras_transformer.analysis.compare.runs import quality_by_length
from keras_transformer.inference import (
    BLEU_TOKENS,
    LineReader,
    evaluate_translations,
    load,
    translate_lines,
)
from keras_transformer.inference.readers import require_parallel


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the page and returns the exit code.

    Args:
        arguments: Arguments of the command. Default: those of this process.
    """
    options = make_parser().parse_args(arguments)
    try:
        lines = make_results(
            options.runs, options.test, options.train, options.output, options.bleu_tokens
        )
    except UserError as error:
        print(f"make_results.py: {error}", file=sys.stderr)
        return 2
    print("\n".join([*command_lines(sys.argv[1:] if arguments is None else arguments), *lines]))
    return 0


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser of the command's options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    pair = {"nargs": 2, "required": True, "metavar": ("SOURCE", "TARGET")}
    parser.add_argument("--runs", nargs="+", required=True, metavar="RUN", help="run directories")
    parser.add_argument("--test", **pair, help="files to translate and to compare with")
    parser.add_argument("--train", **pair, help="files of the training")
    parser.add_argument("--output", required=True, metavar="DIR", help="directory of the pictures")
    parser.add_argument(
        "--bleu-tokens",
        choices=BLEU_TOKENS,
        help="tokenization of BLEU; none is for tokenized texts (default: as in the first run's "
        "recipe)",
    )
    return parser


def make_results(
    paths: Sequence[str],
    test: Sequence[str],
    train: Sequence[str],
    output: str,
    bleu_tokens: str | None = None,
) -> list[str]:
    """Draws the pictures and returns the lines of the page.

    Args:
        paths: Run directories. The mistakes of the first run are shown.
        test: Files of source and target to translate.
        train: Files of source and target of the training, with the known words.
        output: Directory of the pictures.
        bleu_tokens: Tokenization of BLEU, see `evaluate_translations`. Default: as in the first
            run's recipe.
    """
    runs = [read_run(path) for path in paths]
    groups = group_by_recipe(runs)
    sources, references = read_pairs(test)
    training_pairs, known_words = read_target_words(train)
    directory = make_directory(output)
    bleu_tokens = bleu_tokens or runs[0].recipe.evaluation.bleu_tokens
    (directory / "learning_curves.png").write_bytes(draw_learning_curves(groups))
    lengths = [len(source.split()) for source in sources]
    evaluations, by_length = {}, {}
    for run in runs:
        print(f"{run.path}: translating {len(sources):,} sentences …", file=sys.stderr, flush=True)
        texts = sources, translate(run, sources), references
        by_length[run.path] = quality_by_length(lengths, *texts, bleu_tokens)
        evaluations[run.path] = evaluate_translations(
            *texts, worst=len(sources), bleu_tokens=bleu_tokens
        )
    (directory / "bleu_by_length.png").write_bytes(
        draw_bleu_by_length(
            {name: [by_length[run.path] for run in group] for name, group in groups.items()}
        )
    )
    first = evaluations[runs[0].path]
    kinds = sort_by_kind(first.worst, known_words)
    return [
        *runs_section(groups, evaluations),
        *pictures_section(directory.name),
        *mistakes_section(runs[0], first, kinds, training_pairs),
    ]


def translate(run: FinishedRun, sources: Sequence[str]) -> list[str]:
    """Returns the translations of a run's final model with the search of its recipe."""
    search = dataclasses.asdict(run.recipe.evaluation.search_settings())
    translations = translate_lines(load(run.path).with_search(**search), sources)
    return [translation.text for translation in translations]


def read_pairs(paths: Sequence[str]) -> list[list[str]]:
    """Returns the lines of two parallel files."""
    require_parallel(paths)
    texts = []
    for path in paths:
        with LineReader(path) as lines:
            texts.append(list(lines))
    return texts


def read_target_words(paths: Sequence[str]) -> tuple[int, set[str]]:
    """Returns the number of pairs in two parallel files, and the words of the second one."""
    pairs = require_parallel(paths)
    with LineReader(paths[1]) as lines:
        return pairs, {word for line in lines for word in line.split()}


def make_directory(path: str) -> pathlib.Path:
    """Returns a directory, which is created if it does not exist."""
    directory = pathlib.Path(path)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"cannot be created as a directory ({error.strerror}).",
            where=path,
            fix="Choose another one with --output.",
        ) from error
    return directory


def command_lines(arguments: Sequence[str]) -> list[str]:
    """Returns the command as a block of Markdown with one option per line.

    >>> print("\\n".join(command_lines(["--runs", "runs/a", "runs/b", "--output", "of a"])))
        python training/results/make_results.py \\
            --runs runs/a runs/b \\
            --output 'of a'
    <BLANKLINE>
    """
    lines = ["    python training/results/make_results.py"]
    for argument in map(shlex.quote, arguments):
        if argument.startswith("--"):
            lines[-1] += " \\"
            lines.append(f"        {argument}")
        else:
            lines[-1] += f" {argument}"
    return [*lines, ""]


if __name__ == "__main__":
    sys.exit(main())
