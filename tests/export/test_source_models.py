"""Models that are no Transformers export as Transformers do."""

import pytest

from keras_transformer import ConvolutionalSeq2Seq, RecurrentSeq2Seq
from keras_transformer.decoding import SearchSettings
from keras_transformer.export import TrainedModel, export_model
from keras_transformer.export.manifest import read_manifest
from keras_transformer.export.saved_model_file import read_meta_graph
from keras_transformer.export.signatures import check_signatures
from keras_transformer.text import ByteTokenizer

COPYING = {"copies": True, "coverage_weight": 1.0}
COVERING = {"attention": "additive", "coverage_attention": True, **COPYING}


@pytest.mark.parametrize(
    ("model_class", "settings", "xla"),
    [
        (RecurrentSeq2Seq, {}, False),
        (RecurrentSeq2Seq, COVERING, False),
        (RecurrentSeq2Seq, COVERING, True),
        (ConvolutionalSeq2Seq, {}, False),
        (ConvolutionalSeq2Seq, COPYING, False),
    ],
    ids=[
        "recurrent",
        "recurrent-copying",
        "recurrent-copying-xla",
        "convolutional",
        "convolutional-copying",
    ],
)
def test_a_clean_process_gives_the_same_answers(model_class, settings, xla, tmp_path):
    """`export_model` asks one before there is a directory."""
    sizes = {"hidden_dim": 16, "num_encoder_layers": 1, "num_decoder_layers": 2, "max_length": 16}
    model = model_class.from_preset("tiny", vocabulary_size=260, **sizes, **settings)
    trained = TrainedModel(model, ByteTokenizer())
    search = SearchSettings(beams=2, max_length=6)
    path = export_model(trained, tmp_path / "small", search=search, xla=xla, portable=True)
    kind = read_manifest(path)["kind"]
    assert kind == model_class.__name__
    assert len(check_signatures(path, read_meta_graph(path), kind)) == 6
