"""Status and metadata of models as the messages of TensorFlow Serving."""

from collections.abc import Iterable
from typing import Any

from google.protobuf import json_format

from keras_transformer.serving.manager import STATES, Version
from keras_transformer.serving.messages import get_model_metadata_pb2, get_model_status_pb2

#: The only field of metadata that there is.
SIGNATURE_DEF = "signature_def"


def status_message(versions: Iterable[Version]) -> Any:
    """Returns the `GetModelStatusResponse` of versions of a model."""
    response = get_model_status_pb2.GetModelStatusResponse()
    for version in versions:
        status = response.model_version_status.add()
        status.version = version.number
        status.state = STATES[version.state]
        if version.error is not None:
            status.status.error_code = int(version.error.code)
            status.status.error_message = version.error.message
        else:
            status.status.SetInParent()
    return response


def metadata_message(version: Version) -> Any:
    """Returns the `GetModelMetadataResponse` of a version: its signatures."""
    response = get_model_metadata_pb2.GetModelMetadataResponse()
    response.model_spec.name = version.model
    response.model_spec.version.value = version.number
    response.metadata[SIGNATURE_DEF].Pack(_signature_defs(version))
    return response


def status_json(versions: Iterable[Version]) -> bytes:
    """Returns the status of versions as JSON."""
    return _json(status_message(versions)).encode()


def metadata_json(version: Version) -> bytes:
    """Returns the metadata of a version as JSON."""
    spec = _json(metadata_message(version).model_spec)
    signatures = _json(_signature_defs(version))
    text = f'{{\n"model_spec": {spec},\n"metadata": {{"signature_def": {signatures}}}\n}}\n'
    return text.encode()


def _signature_defs(version: Version) -> Any:
    message = get_model_metadata_pb2.SignatureDefMap()
    if version.loaded is not None:
        for name, each in version.loaded.signature_defs.items():
            message.signature_def[name].CopyFrom(each)
    return message


def _json(message: Any) -> str:
    options: dict[str, Any] = {"always_print_fields_with_no_presence": True}
    return json_format.MessageToJson(message, preserving_proto_field_name=True, **options)
