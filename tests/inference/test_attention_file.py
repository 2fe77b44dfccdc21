"""Translations drawn into files."""

import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.inference import translate_lines
from keras_transformer.inference.attention_maps import most_sentences, save_attention
from tests.inference.shouting_model import ShoutingModel


def test_a_page_holds_several_and_a_picture_one(tmp_path):
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
def test_other_files(name):
    with pytest.raises(UserError) as caught:
        most_sentences(name)
    assert str(caught.value) == f"{name}: a picture of attention must end with .html or .png."
