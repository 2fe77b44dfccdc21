"""What a page about results needs, from finished runs of one recipe with several seeds.

  python training/results/make_results.py \\
      --runs runs/multi30k_seed1 runs/multi30k_seed2 runs/multi30k_seed3 \\
      --test multi30k/tok/test_2016_flickr.en multi30k/tok/test_2016_flickr.de \\
      --train multi30k/tok/train.en multi30k/tok/train.de \\
      --output training/results/multi30k

Each run translates the test set with its final weights and the search of its recipe. Standard
output gets Markdown: a table of the runs with means and standard deviations, and what the first run
still gets wrong, sorted by kind. The output folder gets two pictures: learning_curves.png and
bleu_by_length.png, by the number of words of the source. Put the page beside that folder.

Runs whose recipes differ in more than the seed may follow: they get means and a color of their
own, by the name of what was changed. Words are what stands between white space, so give files that
are cut into tokens, as the training's were.
"""

import argparse
import dataclasses
import os
import pathlib
import shlex
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from finished_run import group_by_recipe, read_run
from mistake_kinds import sort_by_kind
from result_page import mistakes_section, pictures_section, runs_section
from result_pictures import draw_bleu_by_length, draw_learning_curves

from keras_transformer._utils.errors import UserError
from keras_transformer.analysis.compare.results import quality_by_length
from keras_transformer.export import open_text_model
from keras_transformer.inference import (
    BLEU_TOKENS,
    LineReader,
    evaluate_translations,
    translate_lines,
)
from keras_transformer.inference.readers import require_parallel


def main(arguments=None):
    """Returns the exit code."""
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


def make_parser():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    pair = {"nargs": 2, "required": True, "metavar": ("SOURCE", "TARGET")}
    parser.add_argument("--runs", nargs="+", required=True, metavar="RUN", help="their directories")
    parser.add_argument("--test", **pair, help="files to translate, and to compare with")
    parser.add_argument("--train", **pair, help="files that the runs have learned from")
    parser.add_argument("--output", required=True, metavar="DIR", help="where the pictures go")
    parser.add_argument(
        "--bleu-tokens",
        choices=BLEU_TOKENS,
        help="what BLEU counts; none is for texts that are cut into tokens already (default: what "
        "the first run's recipe says)",
    )
    return parser


def make_results(paths, test, train, output, bleu_tokens=None):
    """Draws the pictures and returns the lines of the page.

    Args:
        paths: of the runs' directories. What is got wrong is told of the first one.
        test: the files of source and target that are translated.
        train: those of the training, of whose target the words are counted as known.
        output: the directory for the pictures.
        bleu_tokens: what BLEU counts, see `evaluate_translations`; by default what the first run's
            recipe says.
    """
    runs = [read_run(path) for path in paths]
    groups = group_by_recipe(runs)
    sources, references = read_pairs(test)
    training_pairs, known_words = read_target_words(train)
    output = make_directory(output)
    bleu_tokens = bleu_tokens or runs[0].recipe.evaluation.bleu_tokens
    (output / "learning_curves.png").write_bytes(draw_learning_curves(groups))
    lengths = [len(source.split()) for source in sources]
    evaluations, by_length = {}, {}
    for run in runs:
        print(f"{run.path}: translating {len(sources):,} sentences …", file=sys.stderr, flush=True)
        texts = sources, translate(run, sources), references
        by_length[run.path] = quality_by_length(lengths, *texts, bleu_tokens)
        evaluations[run.path] = evaluate_translations(
            *texts, worst=len(sources), bleu_tokens=bleu_tokens
        )
    (output / "bleu_by_length.png").write_bytes(
        draw_bleu_by_length(
            {name: [by_length[run.path] for run in group] for name, group in groups.items()}
        )
    )
    first = evaluations[runs[0].path]
    kinds = sort_by_kind(first.worst, known_words)
    return [
        *runs_section(groups, evaluations),
        *pictures_section(output.name),
        *mistakes_section(runs[0], first, kinds, training_pairs),
    ]


def translate(run, sources):
    """Returns what a run's final model makes of sources, found by its recipe's own search."""
    search = dataclasses.asdict(run.recipe.evaluation.search_settings())
    translations = translate_lines(open_text_model(run.path, **search), sources)
    return [translation.text for translation in translations]


def read_pairs(paths):
    """Returns the lines of two files, of which there are as many."""
    require_parallel(paths)
    texts = []
    for path in paths:
        with LineReader(path) as lines:
            texts.append(list(lines))
    return texts


def read_target_words(paths):
    """Returns how many pairs two files have, and the set of the words of the second."""
    pairs = require_parallel(paths)
    with LineReader(paths[1]) as lines:
        return pairs, {word for line in lines for word in line.split()}


def make_directory(path):
    """Returns the path of a directory that is there now; what is in it stays."""
    path = pathlib.Path(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"{path}: cannot be made a directory: {error.strerror}. Name another with --output."
        ) from error
    return path


def command_lines(arguments):
    """Returns the command as a block of Markdown, an option a line: who reads a page can repeat it.

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
