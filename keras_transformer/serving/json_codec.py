"""JSON bodies of predict requests and answers, as TensorFlow Serving defines them.

A request has the row format, `{"instances": [...]}`, or the column format, `{"inputs": ...}`. The
forms and error texts are those of TensorFlow Serving's `json_tensor.cc`. Two things are stricter:
nothing may follow the JSON object, and nesting is limited.
"""

import base64
import binascii
import itertools
import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import orjson
import rapidjson

from keras_transformer.serving.errors import Code, RequestError, invalid
from keras_transformer.serving.servable import Arrays, ServedSignature, TensorSpec

#: Text outputs whose name has this suffix are always written as {"b64": ...}.
BYTES_SUFFIX = "_bytes"

_SHOWN = 256
_MAXIMUM_RANK = 16
_INTEGERS = {"int8": 32, "uint8": 32, "int16": 32, "int32": 32, "int64": 64}
_UNSIGNED = {"uint32": 32, "uint64": 64}


class PredictRequest(NamedTuple):
    """A parsed predict request.

    Attributes:
        signature: the signature that it asks for.
        inputs: its inputs by name.
        by_row: whether it has the row format, which the answer will have, too.
    """

    signature: ServedSignature
    inputs: Arrays
    by_row: bool


def parse_object(body: bytes) -> dict[str, Any]:
    """Returns the JSON object of a body; raises a `RequestError` if the body is not one."""
    if not body:
        raise invalid("JSON Parse error: The document is empty")
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        document = _parse_leniently(body)
    if not isinstance(document, dict):
        raise _format_error(document, "Is not object")
    return document


def _parse_leniently(body: bytes) -> Any:
    """Parses as TensorFlow Serving does, with NaN and infinities, or raises with its texts."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        message = f"JSON Parse error: Invalid encoding in string. at offset: {error.start}"
        raise invalid(message) from error
    if _depth_exceeds(body, 1024):
        raise invalid("JSON Parse error: nested too deeply")
    try:
        document = rapidjson.loads(text, number_mode=rapidjson.NM_NAN)
    except ValueError as error:
        message = str(error)
        if "at offset" in message:
            offset, _, reason = message.removeprefix("Parse error at offset ").partition(": ")
            message = f"{reason} at offset: {offset}"
        raise invalid(f"JSON Parse error: {message[:_SHOWN]}") from error
    except RecursionError as error:
        raise invalid("JSON Parse error: nested too deeply") from error
    return document


def _depth_exceeds(body: bytes, limit: int) -> bool:
    """Returns whether brackets are nested more deeply; those inside strings count, too."""
    steps = np.zeros(256, np.int8)
    steps[[ord("["), ord("{")]] = 1
    steps[[ord("]"), ord("}")]] = -1
    depths = np.cumsum(steps[np.frombuffer(body, np.uint8)], dtype=np.int64)
    return bool(depths.size and depths.max() > limit)


def parse_predict(body: bytes, find_signature: Callable[[str], ServedSignature]) -> PredictRequest:
    """Parses the body of a predict request; a `RequestError` says what is wrong.

    Args:
        body: JSON.
        find_signature: returns the signature of a name, which is "" by default.
    """
    document = parse_object(body)
    name = document.get("signature_name", "")
    if not isinstance(name, str):
        problem = "not formatted correctly. 'signature_name' key must be a string value."
        raise _format_error(document, problem)
    signature = find_signature(name)
    if "instances" in document and "inputs" in document:
        problem = "Not formatted correctly expecting only one of 'inputs' or 'instances' keys to "
        raise _format_error(document, problem + "exist ")
    if "instances" in document:
        instances = document["instances"]
        if not isinstance(instances, list):
            raise _format_error(document, "Expecting 'instances' to be an list/array")
        if not instances:
            raise _format_error(document, "No values in 'instances' array")
        return PredictRequest(signature, _from_rows(instances, signature.inputs), True)
    if "inputs" in document:
        return PredictRequest(signature, _from_columns(document["inputs"], signature.inputs), False)
    raise invalid("Missing 'inputs' or 'instances' key")


def format_predictions(signature: ServedSignature, outputs: Arrays, by_row: bool) -> bytes:
    """Returns the body of an answer.

    Args:
        signature: the signature that gave the answer.
        outputs: its outputs by name.
        by_row: whether to write `predictions` by row, or `outputs` by column.
    """
    columns = {name: _writable(name, outputs[name]) for name in signature.outputs}
    if not by_row:
        content: Any = {"outputs": columns if len(columns) > 1 else next(iter(columns.values()))}
    elif len(columns) == 1:
        content = {"predictions": list(_rows(columns)[0])}
    else:
        names = list(columns)
        rows = zip(*_rows(columns), strict=True)
        content = {"predictions": [dict(zip(names, row, strict=True)) for row in rows]}
    numbers = [array for array in outputs.values() if array.dtype.kind == "f"]
    if all(np.isfinite(array).all() for array in numbers):
        return orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY)
    # orjson would write null for numbers that JSON lacks; TensorFlow Serving writes their names.
    return json.dumps(_plain(content), ensure_ascii=False).encode()


def format_error(message: str) -> bytes:
    """Returns the body of an answer that is an error.

    >>> format_error("Missing model name in request.")
    b'{"error":"Missing model name in request."}'
    """
    return orjson.dumps({"error": message.encode("utf-8", "replace").decode("utf-8")})


def _rows(columns: Mapping[str, Any]) -> list[Any]:
    for name, column in columns.items():
        if np.ndim(column) == 0 and not isinstance(column, list):
            raise invalid(f"Tensor name: {name} has no shape information ")
    sizes = {name: len(column) for name, column in columns.items()}
    for name, size in sizes.items():
        expected = next(iter(sizes.values()))
        if size != expected:
            problem = f"has inconsistent batch size: {size} expecting: {expected}"
            raise invalid(f"Tensor name: {name} {problem}")
    return list(columns.values())


def _writable(name: str, array: np.ndarray) -> Any:
    """Returns what orjson can write: an array of numbers, or nested lists of strings."""
    if array.dtype.kind in "OSU":
        return _texts(array.tolist(), name.endswith(BYTES_SUFFIX))
    if array.dtype.kind not in "fiub" or array.dtype == np.float16:
        raise invalid(f"Failed to write JSON value for tensor type: {array.dtype}")
    return np.ascontiguousarray(array) if array.ndim else array[()]


def _texts(value: Any, as_bytes: bool) -> Any:
    if isinstance(value, list):
        return [_texts(item, as_bytes) for item in value]
    if not as_bytes:
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            pass  # TensorFlow Serving would write invalid JSON
    return {"b64": base64.b64encode(value).decode("ascii")}


def _plain(value: Any) -> Any:
    """Returns a value for `json`, floats with the fewest digits that give the same float."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return [_plain(item) for item in value]
    if isinstance(value, np.floating):
        return float(str(value))
    return value.item() if isinstance(value, np.generic) else value


def _from_rows(instances: list[Any], specs: Mapping[str, TensorSpec]) -> Arrays:
    """Returns the inputs of the row format: values, or objects with one key an input."""
    if not isinstance(instances[0], dict) and len(specs) > 1:
        raise invalid(
            "instances is a plain list, but expecting list of objects as multiple input tensors "
            "required as per tensorinfo_map"
        )
    are_objects = _is_named(instances[0])
    columns: dict[str, list[Any]] = {name: [] for name in specs}
    for number, item in enumerate(instances):
        if _is_named(item) != are_objects:
            wanted, got = ("object", "list") if are_objects else ("value/list", "object")
            raise invalid(f"Expecting {wanted} but got {got} at item {number} of input list")
        if not are_objects:
            columns[next(iter(specs))].append(item)
            continue
        where = f"Failed to process element: {number}"
        for name in item:
            if name not in specs:
                problem = f"JSON object: does not have named input: {name}"
                raise invalid(f"{where} key: {name} of 'instances' list. Error: {problem}")
            columns[name].append(item[name])
        if item.keys() != specs.keys():
            problem = f"keys must be equal to: {','.join(sorted(specs))}"
            raise invalid(f"{where} of 'instances' list. JSON object: {_shown(item)} {problem}")
    return {
        name: _column(name, values, specs[name], are_objects) for name, values in columns.items()
    }


def _column(name: str, values: list[Any], spec: TensorSpec, is_named: bool) -> np.ndarray:
    if spec.dtype == "string" and all(type(value) is str for value in values):
        return _array_of_texts(values)
    shape = _shape(values[0])
    size = _size(shape)
    flat: list[Any] = []
    for number, value in enumerate(values):
        own = _shape(value)
        try:
            flattened = list(_flat(value, own, spec.dtype))
            if len(flattened) != size:
                raise invalid(f"Expecting tensor size: {size} but got: {len(flattened)}")
            if own != shape:
                raise invalid(f"Expecting shape {_listed(shape)} but got: {_listed(own)}")
        except RequestError as error:
            key = f" key: {name}" if is_named else ""
            where = f"Failed to process element: {number}{key} of 'instances' list."
            raise invalid(f"{where} Error: {error.message}") from error
        flat.extend(flattened)
    return _filled(flat, (len(values), *shape), spec.dtype)


def _from_columns(inputs: Any, specs: Mapping[str, TensorSpec]) -> Arrays:
    """Returns the inputs of the column format: the only input, or an object with all of them."""
    if not _is_named(inputs):
        if len(specs) > 1:
            raise invalid(
                "inputs is a plain value/list, but expecting an object as multiple input tensors "
                "required as per tensorinfo_map"
            )
        inputs = dict.fromkeys(specs, inputs)
    arrays = {}
    for name, spec in specs.items():
        if name not in inputs:
            raise invalid(f"Missing named input: {name} in 'inputs' object.")
        value = inputs[name]
        is_list = spec.dtype == "string" and type(value) is list
        if is_list and all(type(item) is str for item in value):
            arrays[name] = _array_of_texts(value)
            continue
        shape = _shape(value)
        arrays[name] = _filled(list(_flat(value, shape, spec.dtype)), shape, spec.dtype)
    # TensorFlow Serving ignores other keys, but a misspelled key should not be ignored.
    for name in inputs:
        if name not in specs:
            raise invalid(f"JSON object: does not have named input: {name}")
    return arrays


def _array_of_texts(texts: list[str]) -> np.ndarray:
    array = np.empty(len(texts), object)
    array[:] = [text.encode("utf-8") for text in texts]
    return array


def _filled(values: list[Any], shape: tuple[int, ...], dtype: str) -> np.ndarray:
    if dtype == "string":
        array = np.empty(len(values), object)
        array[:] = values
    else:
        with np.errstate(over="ignore", under="ignore"):
            array = np.array(values, np.dtype("float64" if dtype.startswith("float") else dtype))
            array = array.astype(dtype)
    return array.reshape(shape)


def _is_named(value: Any) -> bool:
    """Returns whether a value is an object that is not the base64 of a text."""
    return isinstance(value, dict) and not _is_base64(value)


def _is_base64(value: dict[str, Any]) -> bool:
    return len(value) == 1 and isinstance(value.get("b64"), str)


def _shape(value: Any) -> tuple[int, ...]:
    """Returns the shape of nested lists, by the first element of each."""
    shape: list[int] = []
    while isinstance(value, list):
        shape.append(len(value))
        if len(shape) > _MAXIMUM_RANK:
            raise invalid(f"JSON Value: lists are nested more than {_MAXIMUM_RANK} levels")
        if not value:
            break
        value = value[0]
    return tuple(shape)


def _size(shape: tuple[int, ...]) -> int:
    return int(np.prod(shape, dtype=np.int64)) if shape else 1


def _flat(value: Any, shape: tuple[int, ...], dtype: str, level: int = 0) -> Any:
    """Yields the values of nested lists of a shape, checked for the dtype."""
    if not isinstance(value, list):
        if level != len(shape):
            raise invalid(
                f"JSON Value: {_shown(value)} found at incorrect level: {level + 1} in the JSON "
                f"DOM. Expected at level: {len(shape)}"
            )
        yield _checked(value, dtype)
        return
    if level >= len(shape):
        raise invalid(f"Encountered list at unexpected level: {level} expected < {len(shape)}")
    if len(value) != shape[level]:
        raise invalid(
            f"Encountered list at unexpected size: {len(value)} at level: {level} expected size: "
            f"{shape[level]}"
        )
    yield from itertools.chain.from_iterable(_flat(item, shape, dtype, level + 1) for item in value)


def _checked(value: Any, dtype: str) -> Any:
    """Returns a value of a tensor; a `RequestError` if it has another type."""
    if isinstance(value, dict):
        if dtype != "string":
            raise _type_error(value, dtype)
        return _decoded(value)
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    if dtype == "string" and isinstance(value, str):
        return value.encode("utf-8")
    if dtype in ("float32", "float64") and (is_integer or isinstance(value, float)):
        try:
            return float(value)
        except OverflowError:
            return np.inf if value > 0 else -np.inf
    if dtype == "bool" and isinstance(value, bool):
        return value
    if is_integer and dtype in _INTEGERS:
        bits = _INTEGERS[dtype] - 1
        if -(2**bits) <= value < 2**bits and np.array(value).astype(dtype) == value:
            return value
    if is_integer and dtype in _UNSIGNED and 0 <= value < 2 ** _UNSIGNED[dtype]:
        return value
    if dtype not in ("string", "float32", "float64", "bool", *_INTEGERS, *_UNSIGNED):
        message = f"Conversion of JSON Value: {_shown(value)} to type: {dtype}"
        raise RequestError(Code.UNIMPLEMENTED, message)
    raise _type_error(value, dtype)


def _decoded(value: dict[str, Any]) -> bytes:
    if not _is_base64(value):
        raise _format_error(value, "not formatted correctly for base64 data")
    text = value["b64"].rstrip("=")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError) as error:
        raise invalid("Unable to base64 decode") from error


def _type_error(value: Any, dtype: str) -> RequestError:
    kinds = {dict: "Object", list: "Array", str: "String", int: "Number", float: "Number"}
    kind = {None: "Null", True: "True", False: "False"}.get(
        value if value is None or isinstance(value, bool) else "", kinds.get(type(value), "Number")
    )
    problem = f"Type: {kind} is not of expected type: {dtype}"
    return invalid(f"JSON Value: {_shown(value)} {problem}")


def _format_error(value: Any, problem: str) -> RequestError:
    return invalid(f"JSON Value: {_shown(value)} {problem}")


def _shown(value: Any) -> str:
    """Returns the beginning of a value as JSON."""
    try:
        return orjson.dumps(value).decode()[:_SHOWN]
    except (TypeError, RecursionError):
        return "..."


def _listed(shape: tuple[int, ...]) -> str:
    return "[" + ",".join(map(str, shape)) + "]"
