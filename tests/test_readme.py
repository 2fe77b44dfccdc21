"""Code and names in the README."""

import pathlib
import re
import runpy

import pytest

ROOT = pathlib.Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", README, re.DOTALL)

(TRAINING_EXAMPLE,) = (example for example in EXAMPLES if "backwards" in example)
(FIRST_EXAMPLE,) = (example for example in EXAMPLES if 'kt.train("quickstart"' in example)
# Stands for the recipe of the quick start, which takes minutes.
SMALL_RECIPE = """
name: dates
task: translation
data: {builtin: dates, builtin_pairs: 200}
text: {tokenizer: bytes}
model: {size: tiny, hidden_dim: 16, intermediate_dim: 32, num_heads: 2, max_length: 64,
  num_encoder_layers: 1, num_decoder_layers: 1}
batches: {tokens: 512, max_length: 64}
training: {steps: 2, warmup_steps: 2, deterministic: false}
evaluation: {sentences: 2, show: 2, search: {beams: 3, max_length: 8}}
tensorboard: {attention: 0, projector: false}
export: {enabled: false}
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs code in a folder of its own, as a script; returns its variables."""
    monkeypatch.chdir(tmp_path)

    def run(code, name="example.py"):
        pathlib.Path(name).write_text(code, encoding="utf-8")
        return runpy.run_path(name, run_name="__main__")

    return run


def test_first_example_runs_with_a_small_recipe(run):
    pathlib.Path("small.yaml").write_text(SMALL_RECIPE, encoding="utf-8")
    run(FIRST_EXAMPLE.replace('"quickstart"', '"small.yaml"'))


def test_training_example_learns_to_reverse_digits(run, capsys):
    assert TRAINING_EXAMPLE.count("\n") <= 25
    run(TRAINING_EXAMPLE)
    assert pathlib.Path("backwards.keras").exists()
    last = re.findall(r"val_token_accuracy: ([\d.]+)", capsys.readouterr().out)[-1]
    assert float(last) > 0.95


PYTHON_GUIDE = (ROOT / "docs/guides/python_training.md").read_text(encoding="utf-8")
OTHER_EXAMPLES = [each for each in EXAMPLES if each not in (TRAINING_EXAMPLE, FIRST_EXAMPLE)]
OTHER_EXAMPLES += [
    pytest.param(example, marks=pytest.mark.slow)  # trains and exports
    for example in re.findall(r"```python\n(.*?)```", PYTHON_GUIDE, re.DOTALL)
]


@pytest.mark.parametrize("example", OTHER_EXAMPLES, ids=range(len(OTHER_EXAMPLES)))
def test_other_example_runs(run, example):
    run(example)


def test_make_targets_of_readme_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make (\w+)", README, re.MULTILINE):
        assert f"\n{target}:" in makefile


def test_paths_of_readme_exist():
    for path in re.findall(r"`((?:keras_transformer|tests|training)/[\w/.]*)`", README):
        assert (ROOT / path).exists(), path


def anchor(heading):
    """Returns the anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


PAGES = [
    page
    for pattern in ("*.md", "docs/**/*.md", "saved_models/*.md", "training/**/*.md")
    for page in sorted(ROOT.glob(pattern))
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_page_lead_to_files_and_headings(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if link.startswith(("https://", "http://", "mailto:")):
            continue
        path, _, fragment = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if fragment:
            headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            assert fragment in map(anchor, headings), link


def test_readme_has_at_most_250_lines():
    assert README.count("\n") <= 250
