"""Seals: sha256 sums that fit damaged files, as an adversary computes them.

The sums are computed here by the documented format and not by the package's own functions, because
an adversary has only the format. A test makes sure that the package accepts these seals.
"""

import hashlib
import json
import pathlib
from typing import Any

MANIFEST = "assets.extra/manifest.json"


def seal_export(directory: pathlib.Path) -> None:
    """Makes the manifest of an export fit its present files, if it is still a JSON object."""
    path = directory / MANIFEST
    try:
        manifest = json.loads(path.read_bytes())
    except (ValueError, OSError, RecursionError):
        return
    if not isinstance(manifest, dict):
        return
    files = sorted(entry for entry in directory.rglob("*") if entry.is_file() and entry != path)
    manifest["files"] = {
        entry.relative_to(directory).as_posix(): {
            "sha256": hashlib.sha256(entry.read_bytes()).hexdigest(),
            "bytes": entry.stat().st_size,
        }
        for entry in files
    }
    manifest["sha256"] = digest_of(manifest)
    path.write_text(json.dumps(manifest), encoding="utf-8")


def digest_of(manifest: dict[str, Any]) -> str:
    """Returns the sha256 of a manifest without its key "sha256"."""
    rest = {key: value for key, value in manifest.items() if key != "sha256"}
    canonical = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def seal_text(text: bytes) -> bytes:
    """Returns the text of a JSON object with the key "sha256" that fits it, added at its end.

    Other text is returned unchanged. The object itself is not written again: duplicate keys, NaN
    and white space stay as they are.

    >>> seal_text(b'{"a": 1}').partition(b",")[0]
    b'{"a": 1'
    """
    try:
        content = json.loads(text)
        if not isinstance(content, dict) or not content:
            return text
        digest = digest_of(content)
    except (ValueError, RecursionError):
        return text
    end = text.rindex(b"}")
    return b'%s,"sha256":"%s"%s' % (text[:end], digest.encode(), text[end:])
