"""What stands in a manifest: the keys, and what each may hold."""

from keras_transformer.export.signatures import CONTRACTS

_KINDS = {
    "name": str,
    "version": int,
    "created_with": dict,
    "kind": str,
    "model": object,
    "recipe": object,
    "tokenizers": object,
    "search": object,
    "weights": object,
    "xla": bool,
    "limits": object,
    "ops": dict,
    "quality": object,
    "golden": list,
}


def require_content(content):
    """Checks the content of a manifest, as written or as read; a `ValueError` says what is wrong.

    - name, version: of the export.
    - created_with: the versions of keras_transformer, tensorflow, keras, and of tensorflow_text or
      None if the graph needs none of its ops.
    - kind: the class of the model, which decides the signatures.
    - model, recipe, tokenizers, search, weights, limits, quality: free; None if there is nothing.
    - xla: whether the graph has parts that XLA must compile.
    - ops: {"outside_core": the names of ops that core TensorFlow does not have}.
    - golden: what the model in memory answered, a list of {"signature", "inputs", "outputs"}.
    """
    for key, kind in _KINDS.items():
        if not isinstance(content.get(key), kind) or key not in content:
            raise ValueError(f"{key!r} is missing or wrong")
    if content["kind"] not in CONTRACTS:
        known = ", ".join(CONTRACTS)
        raise ValueError(f"'kind' must be one of {known}; got {content['kind']!r}")
    for package in ("keras_transformer", "tensorflow", "keras", "tensorflow_text"):
        version = content["created_with"].get(package)
        may_be_none = package == "tensorflow_text" and version is None
        if not isinstance(version, str) and not may_be_none:
            raise ValueError(f"no version of {package} in 'created_with'")
    outside_core = content["ops"].get("outside_core")
    if not isinstance(outside_core, list) or not all(isinstance(op, str) for op in outside_core):
        raise ValueError("no list 'outside_core' in 'ops'")
    if not content["golden"] or not all(map(_is_golden_pair, content["golden"])):
        raise ValueError("no golden pairs, or one that is not whole")


def _is_golden_pair(pair):
    return (
        isinstance(pair, dict)
        and isinstance(pair.get("signature"), str)
        and isinstance(pair.get("inputs"), dict)
        and isinstance(pair.get("outputs"), dict)
        and bool(pair["outputs"])
    )
