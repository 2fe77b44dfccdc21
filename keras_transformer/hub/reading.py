"""Strict reading of a checkpoint: every key of its config and every tensor must be used."""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import keras
import numpy as np

from keras_transformer._utils.errors import UserError
from keras_transformer.hub.checkpoint import CONFIG, Checkpoint, unused_of

_Value = TypeVar("_Value")

#: Keys of `config.json` that never change what a model computes.
HARMLESS_KEYS = frozenset(
    {
        *("_name_or_path", "architectures", "model_type", "transformers_version"),
        *("dtype", "torch_dtype", "use_cache", "return_dict", "return_dict_in_generate"),
        *("output_attentions", "output_hidden_states", "output_past", "torchscript"),
        *("gradient_checkpointing", "initializer_range", "init_std", "initializer_factor"),
        *("id2label", "label2id", "num_labels", "_num_labels", "problem_type", "finetuning_task"),
        *("tokenizer_class", "prefix", "task_specific_params", "is_encoder_decoder"),
        *("use_bfloat16", "tf_legacy_loss", "chunk_size_feed_forward", "auto_map", "model_id"),
        *("classif_dropout", "classifier_dropout", "hidden_dropout", "layerdrop"),
        *("num_hidden_layers_", "sep_token_id", "remove_invalid_values", "bos_token_id"),
    }
)
#: Keys that Hugging Face reads from `config.json` if there is no `generation_config.json`.
GENERATION_KEYS = frozenset(
    {
        *("max_length", "max_new_tokens", "min_length", "min_new_tokens", "do_sample"),
        *("early_stopping", "num_beams", "num_beam_groups", "diversity_penalty", "temperature"),
        *("top_k", "top_p", "typical_p", "epsilon_cutoff", "eta_cutoff", "length_penalty"),
        *("repetition_penalty", "no_repeat_ngram_size", "encoder_no_repeat_ngram_size"),
        *("bad_words_ids", "num_return_sequences", "forced_bos_token_id", "forced_eos_token_id"),
        *("suppress_tokens", "begin_suppress_tokens", "exponential_decay_length_penalty"),
        *("forced_decoder_ids", "renormalize_logits", "output_scores"),
    }
)
# Keys whose other values are not supported.
_FIXED: dict[str, tuple[Any, ...]] = {
    "add_cross_attention": (False,),
    "cross_attention_hidden_size": (None,),
    "is_decoder": (False,),
    "pruned_heads": ({}, None),
    "tie_encoder_decoder": (False,),
    "quantization_config": (None,),
}


class ConfigReader:
    """Reader of a config that knows which keys have been read.

    A key that a family neither reads nor knows to be harmless is refused, because keys such as a
    rope scaling change what a model computes without changing any tensor.

    Args:
        values: Content of `config.json`.
        where: The directory, for messages.

    >>> config = ConfigReader({"model_type": "marian", "d_model": 16}, "opus")
    >>> config.integer("d_model")
    16
    >>> config.finish("marian")
    """

    def __init__(self, values: Mapping[str, Any], where: Any) -> None:
        self.where = where
        self._values = dict(values)
        self._unread = set(self._values)

    def get(self, key: str, default: Any = None) -> Any:
        """Returns the value of a key, or the default if it is missing."""
        self._unread.discard(key)
        return self._values.get(key, default)

    def integer(self, key: str, default: int | None = None) -> int:
        """Returns a whole number of at least 0; without a default, the key is required."""
        return self._typed(key, default, "a whole number of at least 0", _is_integer)

    def number(self, key: str, default: float | None = None) -> float:
        """Returns a finite number; without a default, the key is required."""
        return float(self._typed(key, default, "a finite number", _is_number))

    def boolean(self, key: str, default: bool | None = None) -> bool:
        """Returns a boolean; without a default, the key is required."""
        return self._typed(key, default, "true or false", lambda value: isinstance(value, bool))

    def text(self, key: str, default: str | None = None) -> str:
        """Returns a text; without a default, the key is required."""
        return self._typed(key, default, "a text", lambda value: isinstance(value, str))

    def choice(self, key: str, choices: Mapping[str, _Value], default: str | None = None) -> _Value:
        """Returns what one of the choices means."""
        value = self.text(key, default)
        if value not in choices:
            raise self.refuse(key, f"one of {', '.join(choices)}")
        return choices[value]

    def expect(self, key: str, *allowed: Any) -> None:
        """Raises a `UserError` if the key has a value other than those allowed."""
        if key in self._values and not any(_equal(self.get(key), each) for each in allowed):
            raise self.refuse(key, " or ".join(map(_as_json, allowed)))

    def ignore(self, *keys: str) -> None:
        """Marks keys that have no effect in this family as read."""
        self._unread.difference_update(keys)

    def refuse(self, key: str, expected: str) -> UserError:
        """Returns the error for a key that must have another value."""
        return UserError(
            f"must be {expected} for this import; it is {_as_json(self._values.get(key))}.",
            where=f"{self.where}/{CONFIG}",
            argument=key,
        )

    def finish(self, family: str) -> None:
        """Raises a `UserError` if a key was not read and is not known to be harmless."""
        for key, allowed in _FIXED.items():
            self.expect(key, *allowed)
        unknown = self._unread - HARMLESS_KEYS - GENERATION_KEYS
        if unknown:
            raise UserError(
                f"has keys that the family {family!r} does not know: {unused_of(unknown)}. They "
                "may change what the model computes.",
                where=f"{self.where}/{CONFIG}",
                fix="If you know that they do not, remove them from a copy of the file.",
            )

    def _typed(self, key: str, default: Any, expected: str, is_valid: Callable[[Any], bool]) -> Any:
        value = self.get(key, default)
        if not is_valid(value):
            raise self.refuse(key, expected)
        return value


class WeightLoader:
    """Assigns the tensors of a checkpoint to the weights of a model, each exactly once.

    Args:
        checkpoint: The `Checkpoint`.
        model: The model, whose weights are all to be assigned.
        prefixes: Prefixes that names of tensors may have, such as "model."; the first one that
            matches is added to each name. Default: none.
    """

    def __init__(
        self, checkpoint: Checkpoint, model: keras.Model, prefixes: Iterable[str] = ()
    ) -> None:
        self._checkpoint = checkpoint
        self._model = model
        self._unused = set(checkpoint.tensors)
        self._missing = {id(weight): weight for weight in model.weights}
        self._prefixes = ("", *prefixes)

    def find(self, name: str) -> str | None:
        """Returns the stored name of a tensor, with its prefix; None if there is none."""
        stored = self._checkpoint.tensors
        return next((p + name for p in self._prefixes if p + name in stored), None)

    def shape(self, name: str) -> tuple[int, ...]:
        """Returns the shape of a tensor."""
        return self._checkpoint.tensors[self._require(name)].shape

    def read(self, name: str) -> np.ndarray:
        """Returns a tensor, which counts as used."""
        stored = self._require(name)
        self._unused.discard(stored)
        return self._checkpoint.read(stored)

    def assign(
        self,
        variable: keras.Variable,
        name: str,
        transform: Callable[[np.ndarray], np.ndarray] | None = None,
    ) -> None:
        """Sets a variable to a tensor.

        Args:
            variable: A weight of the model.
            name: Name of the tensor, without prefix.
            transform: Function from the tensor to the values of the variable. Default: none.
        """
        values = self.read(name)
        stored = (self.find(name), values.shape)
        self.set(variable, values if transform is None else transform(values), stored)

    def set(
        self,
        variable: keras.Variable,
        values: np.ndarray,
        stored: tuple[str | None, tuple[int, ...]] | None = None,
    ) -> None:
        """Sets a variable to values, which must have its shape.

        Args:
            variable: A weight of the model.
            values: The values.
            stored: Name and shape of the tensor that they come from, for messages.
        """
        needed = tuple(variable.shape)
        if tuple(values.shape) != needed:
            name, shape = stored or ("(computed)", values.shape)
            raise UserError(
                f"the tensor {name!r} has the shape {list(shape)}, which gives "
                f"{list(values.shape)}; by {CONFIG}, {variable.path} has {list(needed)}.",
                where=self._checkpoint.directory,
            )
        variable.assign(values)
        self._missing.pop(id(variable), None)

    def dense(self, layer: keras.layers.Dense, name: str, rows: slice | None = None) -> None:
        """Sets a dense layer to a linear layer of torch, `name.weight` `[out, in]` and its bias.

        A layer with a bias, for which there is no tensor, gets zeros.

        Args:
            layer: The dense layer.
            name: Name of the linear layer.
            rows: Outputs to take of a linear layer that computes several things. Default: all.
        """
        rows = slice(None) if rows is None else rows
        self.assign(layer.kernel, f"{name}.weight", lambda values: values[rows].T)
        if layer.bias is not None:
            if self.find(f"{name}.bias") is None:
                self.set(layer.bias, np.zeros(layer.bias.shape, np.float32))
            else:
                self.assign(layer.bias, f"{name}.bias", lambda values: values[rows])

    def norm(self, layer: Any, name: str, offset: float = 0.0) -> None:
        """Sets a layer or RMS normalization; `offset` is added to its scale."""
        scale = layer.gamma if hasattr(layer, "gamma") else layer.scale
        self.assign(scale, f"{name}.weight", lambda values: values + np.float32(offset))
        if getattr(layer, "beta", None) is not None:
            self.assign(layer.beta, f"{name}.bias")

    def same(self, name: str, values: Any, tolerance: float = 1e-5) -> None:
        """Checks a tensor that must equal others, such as a tied output layer, if it is stored.

        Args:
            name: Name of the tensor.
            values: The expected values: an array or a variable of the model.
            tolerance: Largest difference. Default 1e-5.
        """
        stored = self.find(name)
        if stored is None or stored not in self._unused:
            return
        found, expected = self.read(name), keras.ops.convert_to_numpy(values)
        if found.shape != expected.shape or not np.allclose(found, expected, 0, tolerance):
            raise UserError(
                f"the tensor {stored!r} contradicts the config: it must equal the tensor that it "
                "is tied to, or the values that the config implies.",
                where=self._checkpoint.directory,
            )

    def skip(self, *names: str) -> None:
        """Marks tensors that our models do not need as used, if they are stored."""
        for name in names:
            stored = self.find(name)
            self._unused.discard(stored or "")

    def skip_matching(self, is_harmless: Callable[[str], bool]) -> None:
        """Marks all tensors whose stored name satisfies a condition as used."""
        self._unused = {name for name in self._unused if not is_harmless(name)}

    def finish(self, family: str) -> None:
        """Raises a `UserError` if a tensor was not used or a weight not assigned."""
        where = self._checkpoint.directory
        if self._unused:
            raise UserError(
                f"has tensors that the family {family!r} does not use: {unused_of(self._unused)}.",
                where=where,
                fix="The tensors belong to a different model than the config.",
            )
        if self._missing:
            names = unused_of(weight.path for weight in self._missing.values())
            raise UserError(f"no tensors for {names}.", where=where)

    def _require(self, name: str) -> str:
        stored = self.find(name)
        if stored is None:
            raise UserError(
                f"has no tensor {name!r}.",
                where=self._checkpoint.directory,
                fix="The tensors belong to a different model than the config, or are incomplete.",
            )
        return stored


def _is_integer(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _equal(value: Any, other: Any) -> bool:
    """Returns whether two JSON values are equal; 1 and true are not."""
    return value == other and isinstance(value, bool) == isinstance(other, bool)


def _as_json(value: Any) -> str:
    names = {None: "null", True: "true", False: "false"}
    return names[value] if value is None or isinstance(value, bool) else repr(value)
