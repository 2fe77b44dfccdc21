"""JSON of requests and answers: the cases of TensorFlow Serving's own tests, and stricter ones."""

import json

import numpy as np
import pytest

from keras_transformer.serving.errors import Code, RequestError
from keras_transformer.serving.json_codec import format_predictions, parse_predict
from keras_transformer.serving.servable import ServedSignature, TensorSpec


def signature(side="inputs", **dtypes):
    """Returns a signature with tensors of these dtypes and any shape."""
    specs = {name: TensorSpec(dtype, None) for name, dtype in sorted(dtypes.items())}
    inputs, outputs = (specs, {}) if side == "inputs" else ({}, specs)
    return ServedSignature("serving_default", inputs, outputs)


def parse(body, **dtypes):
    if not isinstance(body, bytes):
        body = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    return parse_predict(body, lambda name: signature(**dtypes))


def inputs_of(body, **dtypes):
    return parse(body, **dtypes).inputs


def mistake_in(body, **dtypes):
    with pytest.raises(RequestError) as caught:
        parse(body, **dtypes)
    assert caught.value.http_status == 400
    return caught.value.message


def answer(by_row=True, **outputs):
    dtypes = {name: str(np.asarray(value).dtype) for name, value in outputs.items()}
    arrays = {name: np.asarray(value) for name, value in outputs.items()}
    return json.loads(format_predictions(signature("outputs", **dtypes), arrays, by_row))


def texts(*values):
    return np.array(values, object)


# Numbers.


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_whole_and_decimal_numbers_can_be_mixed(dtype):
    array = inputs_of({"instances": [1, 2.0, 3, 5.003, 0.007, 0.0]}, x=dtype)["x"]
    np.testing.assert_array_equal(array, np.array([1, 2, 3, 5.003, 0.007, 0], dtype))
    assert array.dtype == dtype


def test_number_that_float32_cannot_hold_exactly_is_rounded():
    for text in ("1435774380", "1435774380.0"):
        array = inputs_of(f'{{"instances": [{text}]}}', x="float32")["x"]
        assert array.tolist() == [np.float32(1435774380)]


def test_number_beyond_float32_is_infinite_or_zero():
    array = inputs_of('{"instances": [1.7e308, -1.7e308, 2.2e-308]}', x="float32")["x"]
    assert array.tolist() == [np.inf, -np.inf, 0.0]


def test_names_of_numbers_that_json_lacks_are_accepted_as_numbers():
    array = inputs_of('{"instances": [NaN, Infinity, -Infinity, 2.0]}', x="float64")["x"]
    np.testing.assert_array_equal(array, [np.nan, np.inf, -np.inf, 2.0])


@pytest.mark.parametrize("value", ["1.5", "true", '"1"', "null", "2147483648", "-2147483649"])
def test_value_that_is_no_int32_is_refused(value):
    assert "is not of expected type" in mistake_in(f'{{"instances": [{value}]}}', x="int32")


@pytest.mark.parametrize(
    ("dtype", "smallest", "largest"),
    [("int32", -(2**31), 2**31 - 1), ("int64", -(2**63), 2**63 - 1), ("uint64", 0, 2**64 - 1)],
)
def test_integers_keep_all_digits(dtype, smallest, largest):
    assert inputs_of({"inputs": [smallest, largest]}, x=dtype)["x"].tolist() == [smallest, largest]


@pytest.mark.parametrize("digits", [30, 400, 5000])
def test_huge_integer_is_refused_or_infinite_but_never_a_crash(digits):
    body = f'{{"inputs": [{"9" * digits}]}}'
    mistake_in(body, x="int64")
    mistake_in(body, x="string")


def test_booleans_are_accepted_for_booleans_only():
    assert inputs_of({"instances": [True, False]}, x="bool")["x"].tolist() == [True, False]
    assert "expected type" in mistake_in({"instances": [True]}, x="float32")
    assert "expected type" in mistake_in({"instances": [1]}, x="bool")


def test_dtype_without_json_form_is_unimplemented():
    with pytest.raises(RequestError) as caught:
        parse({"inputs": [1]}, x="complex64")
    assert caught.value.code == Code.UNIMPLEMENTED


# Texts.


def test_base64_texts_stand_for_values_in_all_forms():
    hello, world = {"b64": "aGVsbG8="}, {"b64": "d29ybGQ="}
    both = texts(b"hello", b"world")
    for body, expected in [
        ({"instances": [hello, world]}, both),
        ({"instances": [[hello], [world]]}, both.reshape(2, 1)),
        ({"instances": [{"x": [[hello], [world]]}]}, both.reshape(1, 2, 1)),
        ({"inputs": {"x": [hello, world]}}, both),
        ({"inputs": hello}, both[0]),
        ({"inputs": {"x": hello}}, both[0]),
    ]:
        array = inputs_of(body, x="string")["x"]
        assert array.shape == np.shape(expected)
        assert array.tolist() == (expected if isinstance(expected, bytes) else expected.tolist())


@pytest.mark.parametrize("value", ["aGVsbG8", "aGVsbG8="])
def test_padding_of_base64_may_be_left_out(value):
    assert inputs_of({"instances": [{"b64": value}]}, x="string")["x"].tolist() == [b"hello"]


@pytest.mark.parametrize("value", ["a", "a b=", "ä", "====a", "aGVs\nbG8="])
def test_wrong_base64_is_refused(value):
    assert "base64" in mistake_in({"inputs": [{"b64": value}]}, x="string")


@pytest.mark.parametrize("value", [{"b64": 1}, {"b64": "aGk=", "x": 1}, {"c": "aGk="}, {}])
def test_object_that_is_no_base64_is_no_text(value):
    mistake_in({"inputs": [value]}, x="string")
    mistake_in({"inputs": [["a"], [value]]}, x="string")


def test_text_where_bytes_are_not_utf8_is_refused():
    message = mistake_in(b'{"instances": ["\xff\xfe"]}', x="string")
    assert "offset: 16" in message


@pytest.mark.parametrize("value", [r"\ud800", r"\udc00", r"\ud800a", r"\ud800\ud800"])
def test_lone_surrogate_is_refused(value):
    assert "JSON Parse error" in mistake_in(f'{{"instances": ["{value}"]}}', x="string")


def test_text_keeps_nul_emoji_and_escapes():
    body = r'{"instances": ["a\u0000b", "🙂\ud83d\ude42", "\u202eabc", "\n\"\\"]}'
    expected = ["a\0b", "🙂🙂", "\u202eabc", '\n"\\']
    array = inputs_of(body, x="string")["x"]
    assert [text.decode() for text in array] == expected


# Forms of a request.


def test_several_inputs_by_row_are_stacked_by_name():
    body = """{"instances": [
      {"i": [[1, 2], [3, 4], [5, 6]], "s": ["foo", "bar"], "f": [1.0, NaN]},
      {"i": [[7, 8], [9, 0], [1, 2]], "s": ["baz", "bat"], "f": [2.0, Infinity]}]}"""
    inputs = inputs_of(body, i="int32", s="string", f="float32")
    assert inputs["i"].tolist() == [[[1, 2], [3, 4], [5, 6]], [[7, 8], [9, 0], [1, 2]]]
    assert inputs["s"].tolist() == [[b"foo", b"bar"], [b"baz", b"bat"]]
    np.testing.assert_array_equal(inputs["f"], np.array([[1, np.nan], [2, np.inf]], np.float32))


def test_several_inputs_by_column_may_have_different_shapes():
    inputs = {"i": [[[1, 2], [3, 4]]], "s": ["foo", "bar"], "b": {"b64": "aGVsbG8="}}
    found = inputs_of({"inputs": inputs}, i="int32", s="string", b="string")
    assert found["i"].shape == (1, 2, 2)
    assert found["s"].tolist() == [b"foo", b"bar"]
    assert found["b"].tolist() == b"hello"


def test_only_input_by_column_needs_no_name():
    for inputs in ([[1, 2], [3, 4]], {"x": [[1, 2], [3, 4]]}):
        assert inputs_of({"inputs": inputs}, x="int32")["x"].tolist() == [[1, 2], [3, 4]]
    assert inputs_of({"inputs": []}, x="string")["x"].shape == (0,)


def test_form_of_the_answer_is_that_of_the_request():
    assert parse({"instances": ["a"]}, x="string").by_row
    assert not parse({"inputs": ["a"]}, x="string").by_row


def test_name_of_the_signature_is_passed_on():
    names = []

    def find(name):
        names.append(name)
        return signature(x="string")

    parse_predict(b'{"instances": ["a"], "signature_name": "encode"}', find)
    parse_predict(b'{"instances": ["a"]}', find)
    assert names == ["encode", ""]


@pytest.mark.parametrize(
    ("body", "fact"),
    [
        ("", "The document is empty"),
        ("[1]", "Is not object"),
        ("5", "Is not object"),
        ("{}", "Missing 'inputs' or 'instances' key"),
        ('{"instances": [1]', "JSON Parse error"),
        ('{"instances": [1]} x', "JSON Parse error"),
        ("{'instances': [1]}", "at offset: 1"),
        ('{"signature_name": 5, "instances": [1]}', "key must be a string value"),
        ('{"signature_name": [[[]]], "instances": [1]}', "key must be a string value"),
        ('{"instances": [[1]], "inputs": [[1]]}', "Not formatted correctly expecting only one"),
        ('{"instances": 1}', "Expecting 'instances' to be an list/array"),
        ('{"instances": []}', "No values in 'instances' array"),
        ('{"instances": [[1, 2], [3, 4], [5, 6, 7]]}', "Expecting tensor size: 2 but got: 3"),
        ('{"instances": [[1, 2], [3, 4], [[5, 6]]]}', "Expecting shape [2] but got: [1,2]"),
        ('{"instances": [1, [1]]}', "Expecting shape [] but got: [1]"),
        ('{"instances": [[1, 2], ["a", "b"]]}', "not of expected type"),
        ('{"instances": [[1, [2]]]}', "unexpected level"),
        ('{"instances": [[[1], 2]]}', "found at incorrect level"),
        ('{"instances": [[[1, 2], [3]]]}', "unexpected size"),
        ('{"instances": [1, {"x": 1}]}', "Expecting value/list but got object at item 1"),
        ('{"instances": [{"x": 1}, 1]}', "Expecting object but got list at item 1"),
        ('{"instances": [{"y": 1}]}', "does not have named input: y"),
        ('{"instances": [{"x": 1, "y": 1}]}', "does not have named input: y"),
        ('{"instances": [{}]}', "keys must be equal to: x"),
        ('{"inputs": {"y": 1}}', "Missing named input: x"),
        ('{"inputs": {"x": [1], "y": 1}}', "does not have named input: y"),
    ],
)
def test_wrong_request_is_refused_with_the_texts_of_tensorflow_serving(body, fact):
    assert fact in mistake_in(body, x="int32")


@pytest.mark.parametrize(
    ("body", "fact"),
    [
        ({"instances": ["a"]}, "expecting list of objects as multiple input tensors"),
        ({"inputs": ["a"]}, "expecting an object as multiple input tensors"),
        ({"instances": [{"i": 1, "s": "a"}, {"i": [1], "s": "a"}]}, "key: i"),
        ({"instances": [{"i": 1, "s": "a"}, {"i": 1, "s": 5}]}, "element: 1 key: s"),
        ({"instances": [{"i": 1, "s": "a"}, {"i": 1}]}, "element: 1"),
    ],
)
def test_wrong_request_for_several_inputs_names_element_and_key(body, fact):
    assert fact in mistake_in(body, i="int32", s="string")


@pytest.mark.parametrize("opening", ["[", '{"a":', '[{"b": [', "[["])
def test_deep_nesting_is_refused_quickly(opening):
    for body in (opening * 100_000, f'{{"inputs": {opening * 100_000}'):
        mistake_in(body, x="int32")
    depth = 900  # less than the parser's limit, more than Python's stack allows
    mistake_in(f'{{"inputs": {"[" * depth}{"]" * depth}}}', x="int32")


# Answers.


def test_only_output_by_row_is_a_bare_value():
    assert answer(x=np.array([[1, 2], [3, 4]])) == {"predictions": [[1, 2], [3, 4]]}
    assert answer(x=texts(b"a", b"b")) == {"predictions": ["a", "b"]}


def test_several_outputs_by_row_are_objects():
    found = answer(i=np.array([1, 2]), s=np.array([[b"a"], [b"b"]], object))
    assert found == {"predictions": [{"i": 1, "s": ["a"]}, {"i": 2, "s": ["b"]}]}


def test_outputs_by_column_are_bare_or_an_object():
    assert answer(False, x=np.array([1, 2])) == {"outputs": [1, 2]}
    assert answer(False, x=np.array(5)) == {"outputs": 5}
    found = answer(False, i=np.array([1, 2]), s=texts(b"a"))
    assert found == {"outputs": {"i": [1, 2], "s": ["a"]}}


def test_output_named_bytes_is_base64():
    found = answer(x_bytes=texts(b"hello", b"\xff"))
    assert found == {"predictions": [{"b64": "aGVsbG8="}, {"b64": "/w=="}]}


def test_text_that_is_not_utf8_is_base64():
    assert answer(x=texts(b"hello", b"\xff")) == {"predictions": ["hello", {"b64": "/w=="}]}


def test_floats_have_the_digits_of_their_own_precision():
    outputs = {"x": np.array([0.2, 9000000, 0.00003, -1.5], np.float32)}
    body = format_predictions(signature("outputs", x="float32"), outputs, True)
    assert json.loads(body)["predictions"] == [0.2, 9000000.0, 0.00003, -1.5]
    assert b"9000000.0" in body


def test_numbers_that_json_lacks_are_written_as_names():
    outputs = {"x": np.array([np.nan, np.inf, -np.inf, 0.2], np.float32)}
    body = format_predictions(signature("outputs", x="float32"), outputs, True)
    assert body == b'{"predictions": [NaN, Infinity, -Infinity, 0.2]}'


def test_no_rows_give_no_predictions():
    assert answer(x=np.zeros([0, 3])) == {"predictions": []}
    assert answer(x=np.zeros([0, 3]), y=texts()) == {"predictions": []}
    assert answer(False, x=np.zeros([0])) == {"outputs": []}


@pytest.mark.parametrize(
    ("outputs", "fact"),
    [
        ({"x": np.array(5)}, "no shape information"),
        ({"x": np.zeros(2), "y": np.zeros(3)}, "inconsistent batch size: 3 expecting: 2"),
        ({"x": np.zeros(2, np.complex64)}, "complex64"),
    ],
)
def test_output_without_json_form_is_an_error(outputs, fact):
    with pytest.raises(RequestError, match=fact):
        answer(**outputs)
