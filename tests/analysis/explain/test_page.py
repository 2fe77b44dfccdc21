"""The page of an explanation: complete, safe, and self-contained."""

import base64
import io
import json
import re

import numpy as np
from matplotlib import image

from keras_transformer.analysis.explain import make_explanation_page
from keras_transformer.analysis.explain.page import heat_map
from tests.analysis.explain.small_pair import make_explanation
from tests.inference.test_attention_maps import ODD_TOKENS, PageReader

HOSTILE = (
    *("<script>alert(1)</script>", '"onmouseover="alert(1)', "</style>", "]]>"),
    *("{tokens}", "{{ tokens }}", "{% raw %}"),
)


def read_page(page):
    read = PageReader(page)
    assert read.open == []
    return read


def test_page_has_all_parts():
    page = make_explanation_page(make_explanation())
    read = read_page(page)
    # Four measures, and two heads of each of three kinds.
    assert read.tags.count("figure") == 4 + 3 * 2
    assert read.tags.count("details") == 2 + 3
    assert [cell["style"] for cell in read.cells[:4]] == ["--bar:100%"] * 4
    assert "gradient × input and erasure</th><td>1.00</td><td>± 0.00</td>" in page
    assert "<td>1.00</td><td>1.00</td><td>2 of 2</td></tr>" in page
    assert '<th scope="row">shuffled</th><td>all</td><td>40% (40%–40%)</td><td>0.20</td>' in page
    assert '<div class="verdict fair">' in page
    assert re.findall("<h2>(.*?)</h2>", page) == [
        "Which source tokens matter",
        "Token by token",
        "Do they agree?",
        "Does the model need its weights?",
        "Every head",
        "Papers",
    ]


def test_bars_have_sizes_and_signs():
    explanation = make_explanation(gradient=np.array([-2.0, 1.0, 0.0, 0.5]))
    cells = read_page(make_explanation_page(explanation)).cells
    gradients = cells[2:16:4]
    assert [cell["style"] for cell in gradients] == [
        f"--bar:{share}" for share in ("100%", "50%", "0%", "25%")
    ]
    assert [cell.get("class") for cell in gradients] == ["below", None, None, None]


def test_hostile_tokens_are_escaped():
    tokens = (*HOSTILE, *ODD_TOKENS)
    page = make_explanation_page(make_explanation(tokens, tokens[::-1]))
    read = read_page(page)
    assert read.tags.count("script") == 2
    assert not {"link", "img", "iframe", "object", "base"} & set(read.tags)
    assert not [name for name, _ in read.attributes if name.startswith("on")]
    for token in HOSTILE[:2]:
        assert token not in page
    listed = json.loads(page.split('id="tokens">')[1].split("</script>")[0])
    assert listed["source"][: len(HOSTILE)] == list(HOSTILE)
    assert page.encode().decode() == page


def test_page_loads_nothing():
    page = make_explanation_page(make_explanation())
    assert "http" not in page.replace("http-equiv", "")
    assert "url(" not in page
    addresses = [value for name, value in read_page(page).attributes if name in ("href", "src")]
    assert len(addresses) == 2 * 10
    assert all(re.match("#labels-|data:image/png;base64,", address) for address in addresses)
    assert "default-src 'none'" in page


def test_page_says_that_weights_cannot_be_changed():
    page = make_explanation_page(make_explanation(moved=None))
    read_page(page)
    assert "Not measured" in page


def test_heat_map_is_a_picture_of_its_values():
    address = heat_map(np.array([[0.5, -1.0, 0.0], [0.25, 0.0, 1.0]]))
    kind, content = address.split(",")
    assert kind == "data:image/png;base64"
    dots = image.imread(io.BytesIO(base64.b64decode(content)))
    np.testing.assert_allclose(dots[..., 3], [[0.5, 1, 0], [0.25, 0, 1]], atol=0.003)
    is_orange = dots[..., 0] > dots[..., 2]
    np.testing.assert_array_equal(is_orange, [[False, True, False], [False, False, False]])
