"""The results page: kinds of mistakes, tables and pictures, from made-up runs."""

import collections
import doctest
import importlib
import io
import pathlib

import matplotlib.image
import pytest
from matplotlib.figure import Figure

import keras_transformer
from keras_transformer._utils.errors import UserError
from keras_transformer.analysis.compare.runs import quality_by_length
from keras_transformer.inference import (
    PoorSentence,
    evaluate_translations,
    load,
    translate_lines,
)
from keras_transformer.trainer.run_directory import RunDirectory
from tests.phrases import make_pairs
from tests.training_scripts.made_up_runs import write_run

SCRIPTS = pathlib.Path(keras_transformer.__file__).parents[1] / "training" / "results"

SOURCES = ["a dog runs .", "two cats sleep .", "a child on a swing .", "a red car ."]
REFERENCES = [
    "ein hund rennt .",
    "zwei katzen schlafen .",
    "ein kind schaukelt .",
    "ein rotes auto .",
]
# An exact match, an unseen word, something added, one word.
HYPOTHESES = [
    "ein hund rennt .",
    "zwei hunde schlafen .",
    "ein kind auf einer schaukel .",
    "ein auto rotes !",
]
TRAINING = [
    "ein hund rennt .",
    "ein kind schaukelt",
    "zwei hunde schlafen auf einer schaukel",
    "rotes auto",
]


@pytest.fixture(autouse=True)
def scripts_can_be_imported(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPTS))


def kind_name(reference, hypothesis, known=None, chrf=20.0):
    """Returns the kind of a mistake. By default all words of the reference are known."""
    from mistake_kinds import kind_of

    known = set(reference.split() if known is None else known.split())
    return kind_of(PoorSentence(1, "", reference, hypothesis, chrf), known).name


def read_groups(*paths):
    from finished_run import group_by_recipe, read_run

    return group_by_recipe([read_run(path) for path in paths])


@pytest.mark.parametrize("path", sorted(SCRIPTS.glob("*.py")), ids=lambda path: path.stem)
def test_examples_in_docstrings(path):
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    module = importlib.import_module(path.stem)
    assert doctest.testmod(module, optionflags=flags).failed == 0


@pytest.mark.parametrize(
    ("reference", "hypothesis", "name"),
    [
        ("Ein Hund , der rennt .", "ein hund der  rennt !", "only form"),
        ("a b c d e", "a b c d", "one word"),  # exactly 80 %: not left out
        ("a b c d e f", "a b c d", "left out"),
        ("a b c d", "", "left out"),
        ("a b c d", "a b c d x", "one word"),  # exactly 125 %: not added
        ("a b c", "a b c d", "added"),
        ("", "a", "added"),
        ("a b c d", "a c b d", "other order"),
        ("a a b", "a b b", "one word"),  # one a is missing, one b is added
        ("a b c d", "d c x a", "one word"),  # in any order
        ("a b c d", "a b x y", "far off"),
        ("a", "x", "far off"),  # no word is shared
    ],
)
def test_mistake_belongs_to_the_first_kind_that_fits(reference, hypothesis, name):
    assert kind_name(reference, hypothesis) == name


def test_other_wording_needs_a_chrf_of_50():
    assert kind_name("a b c d", "a b x y", chrf=50.0) == "other wording"
    assert kind_name("a b c d", "a b x y", chrf=49.99) == "far off"


def test_unseen_word_needs_a_letter_and_must_be_missing():
    # Later kinds would fit as well: one word, left out.
    assert kind_name("ein welpe rennt", "ein hund rennt", known="ein hund rennt") == "unseen word"
    assert kind_name("ein welpe rennt", "ein", known="ein hund rennt") == "unseen word"
    # An earlier kind fits.
    assert kind_name("ein Welpe .", "ein welpe .", known="ein") == "only form"
    # The unseen word was translated; another word is wrong.
    assert kind_name("ein welpe rennt", "ein welpe geht", known="ein rennt geht") == "one word"
    # One of two unseen words was translated.
    assert kind_name("welpe und welpe", "welpe und hund", known="und hund") == "unseen word"
    # Numbers and punctuation do not count.
    assert kind_name("am 17.5. um 3", "am 18.5. um 3", known="am um") == "one word"
    # Letters of all scripts.
    assert kind_name("два щенка", "два кота", known="два кота") == "unseen word"


def test_sentences_of_each_kind_are_sorted_by_chrf():
    from mistake_kinds import KINDS, sort_by_kind

    texts = {1: "a b x y", 2: "b a c d", 3: "a c b d", 4: "d c b a", 5: "a b x z"}
    chrf = {1: 10.0, 2: 40.0, 3: 30.0, 4: 30.0, 5: 60.0}
    sentences = [PoorSentence(line, "", "a b c d", texts[line], chrf[line]) for line in texts]
    kinds = sort_by_kind(sentences, set("abcd"))
    assert [kind for kind, _ in kinds] == list(KINDS)
    lines = {kind.name: [each.line for each in sentences] for kind, sentences in kinds}
    assert {name: found for name, found in lines.items() if found} == {
        "other order": [3, 4, 2],  # of a tie, the first line first
        "other wording": [5],
        "far off": [1],
    }


def test_finished_run_has_curves(tmp_path):
    from finished_run import read_run

    run = read_run(write_run(tmp_path / "run", seed=3, steps=200))
    assert run.seed == 3
    assert run.result.steps == 200
    steps, losses = run.curve("validation", "loss")
    assert steps == [100, 200]
    assert losses[0] > losses[1]
    assert run.curve("train", "loss")[0] == [50, 100, 150, 200]
    assert run.curve("train", "bleu") == ([], [])


def test_unusable_run_is_refused(tmp_path):
    from finished_run import read_run

    with pytest.raises(UserError, match=r"nothing: .*recipe\.yaml is missing"):
        read_run(tmp_path / "nothing")
    (write_run(tmp_path / "stopped") / "result.json").unlink()
    with pytest.raises(UserError, match=r"stopped: .*result\.json is missing"):
        read_run(tmp_path / "stopped")
    with pytest.raises(UserError, match=r"texts: .*language_model"):
        read_run(write_run(tmp_path / "texts", task="language_model", bleu=None))
    with (write_run(tmp_path / "torn") / "metrics.jsonl").open("a") as file:
        file.write('{"split"')
    with pytest.raises(UserError, match=r"metrics\.jsonl: damaged"):
        read_run(tmp_path / "torn")
    RunDirectory(tmp_path / "torn").seal()
    with pytest.raises(UserError, match=r"metrics\.jsonl:31: damaged"):
        read_run(tmp_path / "torn")
    (write_run(tmp_path / "half") / "metrics.jsonl").unlink()
    RunDirectory(tmp_path / "half").seal()
    with pytest.raises(UserError, match=r"metrics\.jsonl: cannot be read"):
        read_run(tmp_path / "half")


def test_runs_that_differ_in_the_seed_only_are_a_group(tmp_path):
    groups = read_groups(
        write_run(tmp_path / "one", seed=1),
        write_run(tmp_path / "other", seed=1, dropout=0.2),
        write_run(tmp_path / "two", seed=2, test={"flickr": ["test.en", "test.de"]}),
    )
    assert {name: [run.path.name for run in runs] for name, runs in groups.items()} == {
        "captions": ["one", "two"],
        "model.dropout=0.2": ["other"],
    }


def test_same_run_twice_is_refused(tmp_path):
    path = write_run(tmp_path / "one")
    with pytest.raises(UserError, match=r"one and .*one have the same recipe and the same seed"):
        read_groups(path, path)


def test_runs_without_a_common_test_set_are_refused(tmp_path):
    first = write_run(tmp_path / "one")
    raw = write_run(tmp_path / "raw", train=["raw.en", "raw.de"], bleu_tokens="13a")
    back = write_run(tmp_path / "back", train=["train.de", "train.en"])
    with pytest.raises(UserError, match=r"one and .*raw .*`evaluation\.bleu_tokens`, none and 13a"):
        read_groups(first, raw)
    with pytest.raises(UserError, match=r"one and .*back translate in opposite"):
        read_groups(first, back)
    assert len(read_groups(first, write_run(tmp_path / "more", train=["more.en", "more.de"]))) == 2


def evaluate(groups, hypotheses=HYPOTHESES):
    evaluation = evaluate_translations(SOURCES, hypotheses, REFERENCES, 9, bleu_tokens="none")
    return {run.path: evaluation for runs in groups.values() for run in runs}


def test_table_of_runs_has_means_and_deviations(tmp_path):
    from result_page import runs_section

    groups = read_groups(
        write_run(tmp_path / "one", seed=1, bleu=30.0),
        write_run(tmp_path / "two", seed=2, bleu=32.0, steps=900),
    )
    evaluations = evaluate(groups)
    test = evaluations[tmp_path / "one"]
    scores = f"{test.metrics['bleu']:.2f} | {test.metrics['chrf']:.2f}"
    assert runs_section(groups, evaluations) == [
        "## The runs",
        "",
        "| seed | parameters | steps | minutes | validation BLEU | test BLEU | test chrF |",
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        f"| 1 | 2,345,678 | 1,000 | 1.5 | 30.00 | {scores} |",
        f"| 2 | 2,345,678 | 900 | 3.0 | 32.00 | {scores} |",
        "| mean ± standard deviation | 2,345,678 | 950 ± 71 | 2.2 ± 1.1 | 31.00 ± 1.41 "
        f"| {scores} |",
        "",
        f"Test set: 4 sentences, BLEU `{test.signatures['bleu']}`, "
        f"chrF `{test.signatures['chrf']}`.",
        "Validation BLEU: at most the first 500 sentences, `tok:none`.",
        "",
    ]


def test_table_of_several_recipes_names_their_changes(tmp_path):
    from result_page import runs_section

    groups = read_groups(
        write_run(tmp_path / "one", seed=1),
        write_run(tmp_path / "two", seed=2),
        write_run(tmp_path / "other", dropout=0.2, bleu=None),
    )
    rows = [line.split(" | ") for line in runs_section(groups, evaluate(groups)) if line[:1] == "|"]
    assert [row[:2] for row in rows] == [
        ["| recipe", "seed"],
        ["| ---", "---:"],
        ["| captions", "1"],
        ["| captions", "2"],
        ["| captions", "mean ± standard deviation"],
        ["| model.dropout=0.2", "1"],  # one run has no mean
    ]
    assert rows[-1][5] == "–"  # this run does not translate in validation


def test_mistakes_are_counted_and_shown(tmp_path):
    from mistake_kinds import sort_by_kind
    from result_page import mistakes_section

    ((run,),) = read_groups(write_run(tmp_path / "one")).values()
    evaluation = evaluate_translations(SOURCES, HYPOTHESES, REFERENCES, 9)
    kinds = sort_by_kind(evaluation.worst, set(" ".join(TRAINING).split()))
    lines = mistakes_section(run, evaluation, kinds, training_pairs=29_000)
    text = "\n".join(lines)
    assert "the run of captions with seed 1" in text
    assert "29,000 pairs" in text
    counts = {line.split(" | ")[0][2:]: line.split(" | ")[2:] for line in lines if "%" in line[-6:]}
    assert counts.pop("exact match") == counts.pop("unseen word") == ["1", "25.0% |"]
    assert counts.pop("added") == counts.pop("one word") == ["1", "25.0% |"]
    assert set(map(tuple, counts.values())) == {("0", "0.0% |")}
    assert [line for line in lines if line.startswith("### ")] == [
        "### Unseen word",
        "### Added",
        "### One word",
    ]
    start = lines.index("### Unseen word")
    assert lines[start + 2] == "```text"
    assert lines[start + 3].startswith("line 2, chrF ")
    assert lines[start + 4 : start + 8] == [
        "  source:     two cats sleep .",
        "  reference:  zwei katzen schlafen .",
        "  hypothesis: zwei hunde schlafen .",
        "```",
    ]


def test_at_most_three_examples_of_a_kind_are_shown(tmp_path):
    from mistake_kinds import sort_by_kind
    from result_page import mistakes_section

    ((run,),) = read_groups(write_run(tmp_path / "one")).values()
    texts = [["a b c d"] * 5, ["x y z"] * 5, ["a b c d"] * 5]
    evaluation = evaluate_translations(*texts, worst=5)
    lines = mistakes_section(run, evaluation, sort_by_kind(evaluation.worst, set("abcd")), 1)
    examples = [line.partition(",")[0] for line in lines if line.startswith("line ")]
    assert examples == ["line 1", "line 2", "line 3"]


BLUE, VERMILION, GREEN = (0, 114, 178), (213, 94, 0), (0, 158, 115)


def colors(content):
    """Returns the colors of lines in a picture, of the first three."""
    picture = matplotlib.image.imread(io.BytesIO(content), format="png")
    pixels = (picture[..., :3] * 255).round().astype(int)
    return {color for color in (BLUE, VERMILION, GREEN) if (pixels == color).all(axis=-1).any()}


def test_learning_curves_color_seeds_or_recipes(tmp_path):
    from result_pictures import draw_learning_curves

    one, two, three = (write_run(tmp_path / f"{n}", seed=n, bleu=30 + n) for n in (1, 2, 3))
    other = write_run(tmp_path / "other", dropout=0.2)
    assert colors(draw_learning_curves(read_groups(one))) == {BLUE}
    # One recipe has a color for each seed; several have a color each.
    assert colors(draw_learning_curves(read_groups(one, two, three))) == {BLUE, VERMILION, GREEN}
    groups = read_groups(one, two, three, other)
    assert colors(draw_learning_curves(groups)) == {BLUE, VERMILION}


def test_learning_curves_without_translations_show_losses_only(tmp_path):
    from result_pictures import draw_learning_curves

    content = draw_learning_curves(read_groups(write_run(tmp_path / "one", bleu=None)))
    assert colors(content) == {BLUE}


def test_limits_of_axes_include_all_runs(tmp_path):
    from result_pictures import draw_bleu, draw_losses

    paths = [write_run(tmp_path / f"{bleu}", seed=bleu, bleu=bleu) for bleu in (10, 40, 20)]
    (runs,) = read_groups(*paths).values()
    losses, bleu = Figure().subplots(1, 2)
    draw_losses(losses, [(run, "black") for run in runs])
    draw_bleu(bleu, [(run, "black") for run in runs])
    lowest = min(value for run in runs for value in run.curve("validation", "bleu")[1])
    assert 0 < bleu.get_ylim()[0] < lowest
    assert bleu.get_ylim()[1] > 40
    highest = max(loss for run in runs for loss in run.curve("validation", "loss")[1])
    # The limit includes all validation losses, but not the first training losses.
    assert losses.get_ylim()[1] == pytest.approx(1.1 * highest)


def test_bleu_by_length_has_a_color_for_each_recipe():
    from result_pictures import draw_bleu_by_length

    lengths = [len(source.split()) for source in SOURCES]
    runs = [
        quality_by_length(lengths, SOURCES, hypotheses, REFERENCES, "none")
        for hypotheses in (HYPOTHESES, REFERENCES)
    ]
    assert colors(draw_bleu_by_length({"captions": runs})) == {BLUE}
    two_recipes = {"captions": runs, "model.dropout=0.2": runs[:1]}
    assert colors(draw_bleu_by_length(two_recipes)) == {BLUE, VERMILION}


@pytest.fixture
def files(tmp_path):
    """Paths of test and training files by name."""
    texts = {"test.en": SOURCES, "test.de": REFERENCES, "train.en": TRAINING, "train.de": TRAINING}
    for name, lines in texts.items():
        (tmp_path / name).write_text("".join(line + "\n" for line in lines))
    return {name: str(tmp_path / name) for name in texts}


def arguments_of(files, output, *runs):
    return [
        *["--runs", *map(str, runs)],
        *["--test", files["test.en"], files["test.de"]],
        *["--train", files["train.en"], files["train.de"]],
        *["--output", str(output)],
    ]


def test_page_and_pictures_are_made_from_two_runs(tmp_path, files, monkeypatch, capsys):
    import make_results

    translated = collections.Counter()

    def translate(run, sources):
        translated[run.path.name] += 1
        assert sources == SOURCES
        return HYPOTHESES if run.seed == 1 else REFERENCES

    monkeypatch.setattr(make_results, "translate", translate)
    runs = [write_run(tmp_path / f"run_{seed}", seed=seed) for seed in (1, 2)]
    output = tmp_path / "new" / "captions"
    assert make_results.main(arguments_of(files, output, *runs)) == 0
    assert translated == {"run_1": 1, "run_2": 1}
    assert {path.name for path in output.iterdir()} == {"learning_curves.png", "bleu_by_length.png"}
    page = capsys.readouterr().out
    assert page.startswith("    python training/results/make_results.py \\\n        --runs ")
    assert "tok:none" in page  # as in the recipe
    assert "| 100.00 | 100.00 |" in page
    assert "| exact match | is the reference | 1 | 25.0% |" in page  # of the first run
    assert "4 pairs" in page
    for name in ("learning_curves.png", "bleu_by_length.png"):
        assert f"](captions/{name})" in page
    assert make_results.main([*arguments_of(files, output, *runs), "--bleu-tokens", "char"]) == 0
    assert "tok:char" in capsys.readouterr().out


def test_mistakes_are_reported_before_any_translation(tmp_path, files, monkeypatch, capsys):
    import make_results

    monkeypatch.setattr(make_results, "translate", None)
    run = write_run(tmp_path / "run")
    assert make_results.main(arguments_of(files, files["test.en"], run)) == 2
    assert "test.en: cannot be created as a directory" in capsys.readouterr().err
    with open(files["train.de"], "a", encoding="utf-8") as file:
        file.write("one more\n")
    assert make_results.main(arguments_of(files, tmp_path / "output", run)) == 2
    assert "line count 4, but" in capsys.readouterr().err


def test_run_translates_with_the_search_of_its_recipe(tmp_path, phrases_run):
    import make_results
    from finished_run import read_run

    search = {"beams": 2, "max_length": 3}
    run = read_run(write_run(tmp_path / "run", search=search))
    (run.path / "model").symlink_to(phrases_run / "model", target_is_directory=True)
    sources = [source for source, _ in make_pairs()[-3:]]
    found, model = make_results.translate(run, sources), load(phrases_run)
    expected, others = (
        [each.text for each in translate_lines(model.with_search(**settings), sources)]
        for settings in (search, {})
    )
    assert found == expected
    assert found != others
