"""Signs an export or a run, so that others can accept only files that your key has signed.

  keras-transformer sign --new-key release.pem
  keras-transformer sign saved_models/dates --key release.pem
  keras-transformer verify saved_models/dates --key release.pem.pub
  keras-transformer translate saved_models/dates --key release.pem.pub

The first command writes a private key, release.pem, which only you should be able to read, and the
public key release.pem.pub, which you give to others. The signature, 64 bytes of Ed25519 beside the
manifest, covers the sha256 of every file of an export, or of the model of a run. A file with public
keys may have several, one after the other. Existing keys of `openssl genpkey -algorithm ed25519`
work, too, with or without a password.

A checksum detects damage; a signature tells who wrote the files. Neither says that a model is good,
and an older version that you have signed stays valid.
"""

import argparse
import os
import pathlib

from keras_transformer._utils.console import shown
from keras_transformer._utils.errors import UserError
from keras_transformer.cli.shared import run_with_tensorflow

SUMMARY = "sign an export or a run with a private key"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("directory", nargs="?", metavar="DIR", help="an export, or the directory of a run")
    add("--key", metavar="PRIVATE", help="file of the private key")
    add("--new-key", metavar="FILE", help="write a private key to FILE, the public key to FILE.pub")


def run(arguments: argparse.Namespace) -> None:
    if arguments.new_key is not None:
        if arguments.directory is not None or arguments.key is not None:
            raise UserError("--new-key only makes a key.", fix="Give it alone.")
        run_with_tensorflow(make_key, arguments)
    elif arguments.directory is None or arguments.key is None:
        missing = "DIR" if arguments.directory is None else "--key"
        fix = "Give DIR and --key, or --new-key FILE to make a pair of keys."
        raise UserError(f"{missing} is missing.", fix=fix)
    else:
        run_with_tensorflow(sign, arguments)


def make_key(arguments: argparse.Namespace) -> None:
    """Writes a pair of keys, and prints their names."""
    from keras_transformer._utils.errors import named_file_errors
    from keras_transformer.export.signing import write_keys

    with named_file_errors(arguments.new_key):
        public = write_keys(arguments.new_key)
    print(f"Private key (keep it secret): {shown(arguments.new_key)}")
    print(f"Public key (for everybody):   {shown(os.fspath(public))}")


def sign(arguments: argparse.Namespace) -> None:
    """Signs the manifest of an export or of a trained model whose files are unchanged."""
    from keras_transformer._utils.errors import named_file_errors
    from keras_transformer.export.manifest import MANIFEST, SIGNATURE, check_files, read_manifest
    from keras_transformer.export.run_manifest import RUN_MANIFEST, RUN_SIGNATURE
    from keras_transformer.export.signing import sign_file
    from keras_transformer.export.trained_model import (
        check_trained_model,
        is_trained_model,
        model_directory,
    )
    from keras_transformer.export.versions import resolve_version

    key = ask_for_key(arguments.key)
    names = (RUN_MANIFEST, RUN_SIGNATURE)
    if is_trained_model(arguments.directory):
        directory = model_directory(pathlib.Path(arguments.directory))
        check_trained_model(directory)
    else:
        names = (MANIFEST, SIGNATURE)
        directory = resolve_version(arguments.directory)
        check_files(directory, read_manifest(directory))
    with named_file_errors(directory):
        signature = sign_file(directory, *names, key)
    print(f"Signed: {shown(os.fspath(signature))}")


def ask_for_key(path: str) -> "object":
    """Returns a private key; asks for the password of an encrypted one on the terminal."""
    import getpass

    from keras_transformer.export.signing import EncryptedKeyError, read_private_key

    try:
        return read_private_key(path)
    except EncryptedKeyError:
        password = getpass.getpass(f"Password of {shown(path)}: ")
        return read_private_key(path, password.encode())
