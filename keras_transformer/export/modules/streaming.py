"""The optional signature that writes texts token by token."""

from typing import Any

import tensorflow as tf

from keras_transformer.decoding.constraints import LogitsProcessor
from keras_transformer.decoding.search import SearchStart
from keras_transformer.export.modules.base import Tensors

#: Most tokens that one call adds.
MAXIMUM_STEPS = 256


def write_tokens(
    module: Any,
    search: Any,
    text: tf.Tensor,
    state: tf.Tensor,
    seed: tf.Tensor,
    steps: tf.Tensor,
) -> Tensors:
    """Returns the texts after some more tokens of a sampling search.

    The state is everything that the search's loop knows, each tensor as a string. No memory remains
    between two calls, so that any server can answer the next one.

    Args:
        module: a `GenerationModule`.
        search: its `SamplingSearch`.
        text: string `[B]`, the texts to read if there is no state.
        state: string `[L]`, the state that the last call returned; empty for the first call.
        seed: int32 scalar, the seed of the draws.
        steps: int32 scalar, number of tokens to add.
    """
    begun: list[Any] = []

    def begin() -> list[tf.Tensor]:
        columns = module.read(text)
        inputs = module.model_inputs(columns)
        name = module.input_name
        read = {"source": None, "prefix": None}
        read[name] = inputs if len(inputs) > 1 else inputs[name]
        start = search.prepare(module.model, **read)
        loop = search.begin(start)
        # Kernels are weights in another layout. They are not a part of the state.
        loop["state"] = {key: part for key, part in loop["state"].items() if key != "kernels"}
        processor = start.processor
        rows = {
            "minima": processor.minima,
            "maxima": processor.maxima,
            "prefix_lengths": processor.prefix_lengths,
        }
        if processor.prefix is not None:
            rows["prefix"] = processor.prefix
        part = {
            key: columns[key].to_tensor("") if key == "spellings" else columns[key]
            for key in ("is_blank", "spellings")
            if key in columns
        }
        begun.append({"loop": loop, "rows": rows, "capacity": start.capacity, "part": part})
        return tf.nest.flatten(begun[0])

    def resume() -> list[tf.Tensor]:
        return [
            tf.ensure_shape(tf.io.parse_tensor(state[number], leaf.dtype), leaf.shape)
            for number, leaf in enumerate(tf.nest.flatten(begun[0]))
        ]

    leaves: Any = tf.cond(tf.equal(tf.size(state), 0), begin, resume)
    carried: Any = tf.nest.pack_sequence_as(begun[0], leaves)
    rows, loop = carried["rows"], carried["loop"]
    start = SearchStart(
        step=search.step_function(module.model),
        state=loop["state"],
        processor=LogitsProcessor(
            search.constraints,
            rows["minima"],
            rows["maxima"],
            rows.get("prefix"),
            rows["prefix_lengths"],
            module.special_ids,
        ),
        special_ids=module.special_ids,
        batch_size=tf.shape(loop["ids"])[0],
        capacity=carried["capacity"],
        source_mask=None,
    )
    # The tokens of a prompt are read in the first call, in addition to the steps.
    prompt = tf.reduce_max(tf.concat([[0], rows["prefix_lengths"]], axis=0))
    until = tf.maximum(loop["length"], prompt) + tf.clip_by_value(steps, 0, MAXIMUM_STEPS)
    until = tf.minimum(until, carried["capacity"])
    numbers = tf.range(start.batch_size)
    loop = search.advance(start, loop, until, (tf.cast(seed, tf.int64), numbers))
    part = dict(carried["part"])
    if "spellings" in part:
        part["spellings"] = tf.RaggedTensor.from_tensor(part["spellings"])
    found = search.finish(start, loop)
    is_done = loop["is_done"] | (loop["length"] >= carried["capacity"])
    if "is_blank" in part:
        is_done |= part["is_blank"]
    parts = tf.nest.flatten({**carried, "loop": loop})
    return {
        "text": module.answers(found, part)["text"][:, 0],
        "done": is_done,
        "state": tf.stack([tf.io.serialize_tensor(each) for each in parts]),
    }
