"""Alignments: from a model, as a picture, as a page, and as files."""

import html.parser
import io
import warnings

import numpy as np
import pytest
from matplotlib import image

from keras_transformer._utils.errors import UserError
from keras_transformer.inference import (
    Alignment,
    align,
    draw_attention,
    make_attention_page,
    translate_lines,
)
from keras_transformer.inference.attention_maps import most_sentences, save_attention
from tests.inference.shouting_model import ShoutingModel

ODD_TOKENS = (
    *("▁今日", "नमस्ते", "▁مرحبا", "שלום", "한국어", "กำ", "😀"),
    *("\u202e", "a\nb", "\t", "\0", "\x1b[31m", "x" * 300),
    *("$x$", "^_{", r"\frac", "%", "<b>", "&amp;", '"', "'"),
    *("##ing", "▁", "▁▁", "<0xC3>", "<end>"),
)


def make_alignment(source_tokens, target_tokens, seed=7):
    weights = np.random.default_rng(seed).random((len(target_tokens), len(source_tokens)))
    weights /= weights.sum(axis=1, keepdims=True)
    texts = " ".join(source_tokens), " ".join(target_tokens)
    return Alignment(*texts, tuple(source_tokens), tuple(target_tokens), weights)


# From a model.


def test_align_removes_the_padding_of_each_row():
    sources, targets = ["ein Haus am See", "ja", ""], ["A HOUSE", "YES INDEED YES", ""]
    first, second, third = align(ShoutingModel(), sources, targets)
    assert (first.source, first.target) == ("ein Haus am See", "A HOUSE")
    assert first.source_tokens == ("ein", "Haus", "am", "See", "<end>")
    assert first.target_tokens == ("A", "HOUSE", "<end>")
    np.testing.assert_array_equal(first.weights, np.eye(3, 5))
    np.testing.assert_array_equal(second.weights, [[1, 0], [0, 1], [0, 1], [0, 1]])
    assert (third.source_tokens, third.weights.shape) == (("<end>",), (1, 1))


def test_alignment_with_weights_of_another_shape_raises_an_error():
    message = r"`weights` must have shape \[target tokens, source tokens\] = \(1, 2\); got \(2, 1\)"
    with pytest.raises(ValueError, match=message):
        Alignment("a b", "c", ("a", "b"), ("c",), np.zeros((2, 1)))


# As a picture.


def pixels(alignment):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        content = draw_attention(alignment)
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    return image.imread(io.BytesIO(content))


@pytest.mark.filterwarnings("error")
def test_draw_attention_of_odd_tokens_prints_nothing(caplog):
    picture = pixels(make_alignment(ODD_TOKENS, ODD_TOKENS[::-1]))
    assert picture.shape[0] > 30 * len(ODD_TOKENS)
    assert not caplog.records


def test_draw_attention_darkens_cells_by_weight():
    weights = np.eye(8)[[0, 2, 1, 3, 4, 7, 6, 5]]
    tokens = ("a",) * 8
    is_dark = pixels(Alignment("", "", tokens, tokens, weights))[..., :3].mean(axis=2) < 0.35
    # Letters and the scale are much narrower than a cell.
    wide = [(y, span) for y, row in enumerate(is_dark) for span in spans(row) if np.ptp(span) >= 25]
    rows, columns = zip(*wide, strict=True)
    square = is_dark[min(rows) : max(rows) + 1, np.min(columns) : np.max(columns)]
    assert abs(square.shape[0] - square.shape[1]) <= 2
    middles = [int((place + 0.5) * len(square) / 8) for place in range(8)]
    np.testing.assert_array_equal(square[np.ix_(middles, middles)], weights)


def spans(row):
    """Start and end of each run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], row, [0]])))
    return list(zip(edges[::2], edges[1::2], strict=True))


def test_draw_attention_of_a_long_sentence_is_larger_within_bounds():
    small, large = (pixels(make_alignment(["▁wort"] * n, ["▁word"] * 3)) for n in (10, 300))
    assert large.shape[1] > 10 * small.shape[1]
    assert large.shape[1] < 9000


@pytest.mark.parametrize("shape", [(0, 0), (1, 1), (3, 0), (0, 3)])
def test_draw_attention_of_few_tokens(shape):
    rows, columns = shape
    alignment = Alignment("", "", ("s",) * columns, ("t",) * rows, np.zeros(shape))
    assert pixels(alignment).shape[0] > 20
    assert "Strongest color: 1.000" in make_attention_page([alignment])


# As a page.


class PageReader(html.parser.HTMLParser):
    """Reads what a browser would show, and checks that what is opened is closed."""

    VOID = ("meta", "br", "link", "img")

    def __init__(self, page):
        super().__init__()
        self.open = []
        self.tags = []
        self.cells = []
        self.headings = []
        self.attributes = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes
        if tag not in self.VOID:
            self.open.append(tag)
        if tag == "td":
            self.cells.append(dict(attributes))
        if tag == "th":
            self.headings.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "th" in self.open:
            self.headings[-1] += data


def test_attention_page_shows_tokens_and_weights():
    weights = np.array([[0.75, 0.25], [0.0, 0.5]])
    alignment = Alignment("Haus", "house", ("▁Haus", "<end>"), ("▁house", "##s"), weights)
    page = make_attention_page([alignment], "Attention of <b>")
    read = PageReader(page)
    assert read.open == []
    assert read.headings == ["", "␣Haus", "<end>", "␣house", "##s"]
    assert "<title>Attention of &lt;b&gt;</title>" in page
    assert [cell["style"] for cell in read.cells] == [
        "--weight:1.00", "--weight:0.33", "--weight:0.00", "--weight:0.67",
    ]  # fmt: skip
    titles = [cell["title"].replace("\u2068", "").replace("\u2069", "") for cell in read.cells]
    assert titles == [
        "␣house ← ␣Haus: 0.750",
        "␣house ← <end>: 0.250",
        "##s ← ␣Haus: 0.000",
        "##s ← <end>: 0.500",
    ]


def test_attention_page_loads_nothing_and_runs_nothing():
    hostile = ("<script>alert(1)</script>", '"onmouseover="alert(1)', "</style>", "javascript:")
    page = make_attention_page([make_alignment((*hostile, *ODD_TOKENS), hostile)], hostile[0])
    read = PageReader(page)
    assert read.open == []
    assert not {"script", "link", "img", "iframe", "object", "base"} & set(read.tags)
    names = {name for name, _ in read.attributes}
    assert names <= {"lang", "charset", "name", "content", "style", "title", "class", "dir"}
    assert "url(" not in page
    assert "http" not in page
    assert page.encode().decode() == page


def test_attention_page_has_a_section_for_each_sentence():
    alignments = [make_alignment(("a", "b"), ("c",) * n) for n in (1, 2, 3)]
    read = PageReader(make_attention_page(alignments))
    assert read.tags.count("section") == 3
    assert len(read.cells) == 2 * (1 + 2 + 3)


def test_attention_page_escapes_invisible_characters():
    page = make_attention_page([make_alignment(("a\nb", "\x1b", "\u202e"), ("x",))])
    assert "<th>a\\nb</th><th>\\x1b</th><th>\\u202e</th>" in page
    assert "\x1b" not in page


def test_save_attention_draws_many_into_a_page_and_one_into_a_picture(tmp_path):
    model = ShoutingModel(name="<shouting>")
    translations = list(translate_lines(model, [f"Satz {n}" for n in range(60)]))
    save_attention(tmp_path / "page.HTML", model, translations)
    page = (tmp_path / "page.HTML").read_text(encoding="utf-8")
    assert page.count("<section>") == 50
    assert "<h1>Attention of &lt;shouting&gt;</h1>" in page
    save_attention(tmp_path / "picture.png", model, translations)
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
    assert [rows for name, rows in model.calls if name == "attention"] == [50, 1]


@pytest.mark.parametrize("name", ["attention.svg", "attention", "html"])
def test_most_sentences_of_other_files_raises_an_error(name):
    with pytest.raises(UserError) as caught:
        most_sentences(name)
    assert str(caught.value).startswith(f"{name}: ")
    assert ".html or .png" in str(caught.value)
