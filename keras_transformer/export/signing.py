"""Signatures of exports and runs: who wrote the manifest, and with it every file.

A manifest has the sha256 of every file, which detects damage. Somebody who changes a file on
purpose can also change its checksum, but cannot sign the new manifest without the private key. A
signature is the 64 bytes of Ed25519 (RFC 8032) over the bytes of the manifest, in a file beside it.
OpenSSL verifies it, too:

  openssl pkeyutl -verify -rawin -pubin -inkey release.pem.pub \\
    -sigfile assets.extra/manifest.sig -in assets.extra/manifest.json

A signature says that the owner of the key wrote this manifest, not when: an older export with a
valid signature stays valid. Keys are PEM files, such as `openssl genpkey -algorithm ed25519` makes.
"""

import os
import pathlib
import re
from typing import Any

from keras_transformer._utils.errors import UserError
from keras_transformer._utils.files import atomic_file
from keras_transformer.export.damage import read_bounded

SIGNATURE_BYTES = 64
#: Size of the largest key file, which can have many public keys.
MAXIMUM_KEY_BYTES = 1 << 16

Path = str | os.PathLike[str]

_PUBLIC_KEY = re.compile(rb"-----BEGIN PUBLIC KEY-----.+?-----END PUBLIC KEY-----", re.S)


class EncryptedKeyError(UserError):
    """Raised for a private key that needs a password."""


def write_keys(path: Path) -> pathlib.Path:
    """Writes a new private key to a file that only its owner can read; returns the public key's.

    Args:
        path: File of the private key, which must not exist. The public key is in `<path>.pub`.
    """
    library = _import_cryptography()
    serialization = library.hazmat.primitives.serialization
    private = library.hazmat.primitives.asymmetric.ed25519.Ed25519PrivateKey.generate()
    path = pathlib.Path(path)
    public_path = path.with_name(f"{path.name}.pub")
    for each in (path, public_path):
        if os.path.lexists(each):
            fix = "Choose another name; a key is never replaced."
            raise UserError("exists already.", where=each, fix=fix)
    content = private.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    with atomic_file(public_path, "wb") as file:
        file.write(
            private.public_key().public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
        )
    return public_path


def sign_file(directory: pathlib.Path, name: str, signature: str, key: Any) -> pathlib.Path:
    """Writes the signature of a file beside it; returns its path.

    Args:
        directory: Directory of the export or model.
        name: Name of the file, the manifest.
        signature: Name of the file with the signature.
        key: A private key, from `read_private_key`.
    """
    content = (directory / name).read_bytes()
    with atomic_file(directory / signature, "wb") as file:
        file.write(key.sign(content))
    return directory / signature


def require_signature(directory: pathlib.Path, content: bytes, signature: str, key: Path) -> None:
    """Raises a `UserError` unless a signature matches the content and one of the public keys.

    Args:
        directory: Directory of the export or model.
        content: Content of its manifest.
        signature: Name of the file with the signature.
        key: File with one or more public keys.
    """
    keys = read_public_keys(key)  # a mistake in the key is reported before one in the export
    if not os.path.lexists(directory / signature):
        raise UserError(
            f"not signed, but a signature by a key in {os.fspath(key)} is required.",
            where=directory,
            fix=f"Sign it: keras-transformer sign {directory} --key PRIVATE",
        )
    found = read_bounded(directory, signature, SIGNATURE_BYTES)
    invalid = _import_cryptography().exceptions.InvalidSignature
    for public_key in keys:
        try:
            public_key.verify(found, content)
        except invalid:
            continue
        return
    raise UserError(
        f"the signature does not match {os.fspath(key)}: the manifest was changed "
        "after it was signed, or it was signed with another key.",
        where=directory / signature,
        fix="Do not use the files unless you know why. Get them again from their author.",
    )


def read_public_keys(path: Path) -> list[Any]:
    """Returns the Ed25519 public keys of a PEM file, which has one or more of them."""
    content = _read_key(path)
    if b"PRIVATE KEY-----" in content:
        fix = "Give the public key, and keep the private one where exports are signed."
        raise UserError("a private key.", where=path, fix=fix)
    library = _import_cryptography()
    load = library.hazmat.primitives.serialization.load_pem_public_key
    kind = library.hazmat.primitives.asymmetric.ed25519.Ed25519PublicKey
    keys = []
    for block in _PUBLIC_KEY.findall(content):
        try:
            key = load(block)
        except (ValueError, library.exceptions.UnsupportedAlgorithm) as error:
            raise _not_a_key(path, "public") from error
        if not isinstance(key, kind):
            raise _not_a_key(path, "public")
        keys.append(key)
    if not keys:
        raise _not_a_key(path, "public")
    return keys


def read_private_key(path: Path, password: bytes | None = None) -> Any:
    """Returns the Ed25519 private key of a PEM file.

    Args:
        path: The file.
        password: Password of an encrypted key. Default None.

    Raises:
        EncryptedKeyError: If the key needs a password, and none or a wrong one is given.
    """
    content = _read_key(path)
    library = _import_cryptography()
    load = library.hazmat.primitives.serialization.load_pem_private_key
    is_encrypted = b"ENCRYPTED" in content
    try:
        key = load(content, password if is_encrypted else None)
    except (ValueError, TypeError, library.exceptions.UnsupportedAlgorithm) as error:
        if is_encrypted:
            problem = "the key is encrypted, and this is not its password."
            raise EncryptedKeyError(problem, where=path, fix="Try again.") from error
        raise _not_a_key(path, "private") from error
    if not isinstance(key, library.hazmat.primitives.asymmetric.ed25519.Ed25519PrivateKey):
        raise _not_a_key(path, "private")
    return key


def _read_key(path: Path) -> bytes:
    try:
        # A key may come from a pipe, such as `<(vault read …)`.
        with open(path, "rb") as file:
            content = file.read(MAXIMUM_KEY_BYTES + 1)
    except OSError as error:
        fix = "Give the file of a key; `keras-transformer sign --new-key FILE` makes one."
        raise UserError(f"cannot be read ({error.strerror}).", where=path, fix=fix) from error
    if len(content) > MAXIMUM_KEY_BYTES:
        raise _not_a_key(path, "private or public")
    return content


def _not_a_key(path: Path, kind: str) -> UserError:
    fix = "Make a pair of keys: keras-transformer sign --new-key FILE"
    return UserError(f"not a {kind} key of Ed25519 in a PEM file.", where=path, fix=fix)


def _import_cryptography() -> Any:
    try:
        import cryptography.exceptions
        import cryptography.hazmat.primitives.asymmetric.ed25519
        import cryptography.hazmat.primitives.serialization
    except ImportError as error:
        raise UserError(
            f"Signatures need the package cryptography, which cannot be imported ({error}).",
            fix="Install it: pip install 'keras-transformer-tf[sign]'",
        ) from error
    return cryptography
