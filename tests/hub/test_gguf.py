"""GGUF files as checkpoints."""

import json
import pathlib
import struct

import gguf
import numpy as np
import pytest

from keras_transformer.hub import Checkpoint, load_model, load_pretrained
from keras_transformer.hub.gguf import GGUFCheckpoint
from keras_transformer.hub.tokenizers import load_tokenizer
from keras_transformer.text.byte_pair_model import BYTE_CHARACTERS

SOURCE = pathlib.Path(__file__).parents[1] / "fixtures" / "checkpoints" / "llama"
HEADS = 4
NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
METADATA = {
    "block_count": 2,
    "context_length": 64,
    "embedding_length": 16,
    "feed_forward_length": 24,
    "attention.head_count": HEADS,
    "attention.head_count_kv": HEADS,
    "vocab_size": 61,
    "rope.dimension_count": 4,
}


def name_in_gguf(name):
    name = name.removesuffix(".weight")
    if name.startswith("model.layers."):
        _, _, index, rest = name.split(".", 3)
        return f"blk.{index}.{NAMES[rest]}.weight"
    return f"{NAMES[name]}.weight"


def interleaved(values):
    """Returns rows of a projection as llama.cpp stores them: rotated pairs are neighbors."""
    halves = values.reshape(HEADS, 2, -1, values.shape[1])
    return np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(values.shape)


def write(path, kind=None, metadata=(), tensors=(), tokens=(), merges=(), pre="gpt-2"):
    """Writes the small Llama model as a GGUF file; `kind` is a type of quantized tensors."""
    writer = gguf.GGUFWriter(path, "llama")
    for key, value in {**METADATA, **dict(metadata)}.items():
        writer.add_uint32(f"llama.{key}", value)
    writer.add_float32("llama.attention.layer_norm_rms_epsilon", 1e-6)
    writer.add_uint32("tokenizer.ggml.bos_token_id", 1)
    writer.add_uint32("tokenizer.ggml.eos_token_id", 2)
    if tokens:
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre(pre)
        writer.add_token_list(tokens)
        writer.add_token_types([3] * 3 + [1] * (len(tokens) - 3))
        writer.add_token_merges(merges)
    checkpoint = Checkpoint.open(SOURCE)
    for name in checkpoint.tensors:
        values = checkpoint.read(name)
        if "q_proj" in name or "k_proj" in name:
            values = interleaved(values)
        if kind is not None and values.ndim == 2:
            stored = np.pad(values, ((0, 0), (0, -values.shape[1] % 32)))
            writer.add_tensor(
                name_in_gguf(name), gguf.quants.quantize(stored, kind), raw_dtype=kind
            )
        else:
            writer.add_tensor(name_in_gguf(name), values)
    for name, values in dict(tensors).items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_model_of_a_file_has_the_logits_of_hugging_face(tmp_path):
    model = load_model(write(tmp_path / "small.gguf"))
    with np.load(SOURCE / "expected.npz") as expected:
        target, logits = expected["target"], expected["logits"]
    is_token = target != model.special_ids.padding
    found = model({"target": target}).numpy()[is_token][:, :61]
    np.testing.assert_allclose(found, logits[is_token], atol=1e-4 * np.abs(logits).max())


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q5_0", "Q8_0"])
def test_quantized_tensors_are_close_to_those_that_were_stored(tmp_path, kind):
    path = write(tmp_path / "small.gguf", getattr(gguf.GGMLQuantizationType, kind))
    checkpoint, source = GGUFCheckpoint.open(path), Checkpoint.open(SOURCE)
    for name in source.tensors:
        expected = source.read(name)
        found = checkpoint.read(name)[..., : expected.shape[-1]]
        step = np.ptp(expected) / (2 ** int(kind[1]) - 1)
        np.testing.assert_allclose(found, expected, atol=step)


def test_tokenizer_of_a_file_splits_by_its_merges(tmp_path):
    tokens = ["<|end|>", "<|start|>", "<|pad|>", *BYTE_CHARACTERS, "th", "the", "Ġthe"]
    merges = ["t h", "th e", "Ġ the"]
    checkpoint = Checkpoint.open(write(tmp_path / "small.gguf", tokens=tokens, merges=merges))
    config = {**checkpoint.config, "vocab_size": len(tokens)}
    with checkpoint.tokenizer_directory() as directory:
        tokenizer = load_tokenizer(directory, config).target
    ids = tokenizer.tokenize(["the the é<|end|>"]).to_list()[0]
    assert [tokens[number] for number in ids[:3]] == ["the", "Ġthe", "Ġ"]
    assert 0 not in ids
    assert tokenizer.detokenize(tokenizer.tokenize(["the the é<|end|>"])).numpy()[0].decode() == (
        "the the é<|end|>"
    )
    assert (tokenizer.special_ids.start, tokenizer.special_ids.end) == (1, 2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"metadata": {"expert_count": 8}}, "llama.expert_count.*8"),
        ({"metadata": {"rope.dimension_count": 2}}, "llama.rope.dimension_count"),
        ({"metadata": {"attention.head_count": 0}}, "0 attention heads"),
        ({"tensors": {"rope_freqs.weight": np.ones(2, np.float32)}}, "rope_freqs.weight"),
        ({"tensors": {"output_norm.bias": np.ones(16, np.float32)}}, "model.norm.bias"),
    ],
)
def test_what_may_change_the_computation_is_refused_by_name(tmp_path, changes, message):
    with pytest.raises(ValueError, match=message):
        load_model(write(tmp_path / "small.gguf", **changes))


def test_other_tokenizers_are_refused_by_name(tmp_path):
    path = write(tmp_path / "small.gguf", tokens=["a", "b", "c"], pre="deepseek-llm")
    with (
        pytest.raises(ValueError, match=r"tokenizer\.ggml\.pre.*'deepseek-llm'"),
        Checkpoint.open(path).tokenizer_directory(),
    ):
        pass


def test_errors_of_a_tokenizer_name_the_file(tmp_path):
    path = write(tmp_path / "small.gguf", tokens=["a", "b", "c"], merges=["a b"])
    with pytest.raises(ValueError, match=r"small\.gguf"):
        load_pretrained(path)


def damaged(content, place, form, value):
    data = bytearray(content)
    struct.pack_into(form, data, place, value)
    return bytes(data)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: b"GGML" + content[4:], "not a GGUF file"),
        (lambda content: damaged(content, 4, "<I", 9), "version 9"),
        (lambda content: damaged(content, 8, "<Q", 1 << 60), "tensors and"),
        (lambda content: damaged(content, 16, "<Q", 1 << 60), "tensors and"),
        (lambda content: damaged(content, 24, "<Q", 1 << 63), "ends within its metadata"),
        (lambda content: content[:200], "ends within its metadata"),
        (lambda content: content[:-2000], "ends before the tensor"),
    ],
)
def test_damaged_files_are_refused(tmp_path, change, message):
    path = write(tmp_path / "small.gguf")
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(ValueError, match=message):
        Checkpoint.open(path)


def test_values_that_are_not_finite_are_refused(tmp_path):
    path = write(tmp_path / "small.gguf")
    name = "model.norm.weight"
    stored = GGUFCheckpoint.open(path).tensors[name]
    path.write_bytes(damaged(path.read_bytes(), stored.offset, "<f", float("nan")))
    with pytest.raises(ValueError, match=f"{name}.*NaN or infinite"):
        load_model(path)


def test_symbolic_links_are_refused(tmp_path):
    link = tmp_path / "link.gguf"
    link.symlink_to(write(tmp_path / "small.gguf"))
    with pytest.raises(ValueError, match="symbolic link"):
        Checkpoint.open(link)


def test_config_is_that_of_hugging_face(tmp_path):
    config = Checkpoint.open(write(tmp_path / "small.gguf")).config
    expected = json.loads((SOURCE / "config.json").read_text())
    same = ["model_type", "hidden_size", "num_hidden_layers", "num_key_value_heads", "vocab_size"]
    assert {key: config[key] for key in same} == {key: expected[key] for key in same}
