"""Signatures of exports and runs: made, accepted, and refused."""

import base64
import pathlib
import shutil
import stat

import pytest

from keras_transformer import load
from keras_transformer._utils.errors import UserError
from keras_transformer.cli.main import main
from keras_transformer.export import verify_export
from keras_transformer.export.manifest import MANIFEST, SIGNATURE, check_files, read_manifest
from keras_transformer.export.run_manifest import RunManifest
from keras_transformer.export.signing import (
    MAXIMUM_KEY_BYTES,
    EncryptedKeyError,
    read_private_key,
    read_public_keys,
    require_signature,
    write_keys,
)
from training.reliability.sealing import seal_export


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """Private and public key of the author, and the public key of somebody else."""
    directory = tmp_path_factory.mktemp("keys")
    public = write_keys(directory / "release.pem")
    return directory / "release.pem", public, write_keys(directory / "other.pem")


@pytest.fixture
def signed_export(export, keys):
    assert main(["sign", str(export), "--key", str(keys[0])]) == 0
    return export


@pytest.fixture
def signed_run(phrases_run, tmp_path, keys):
    run = shutil.copytree(phrases_run, tmp_path / "run")
    assert main(["sign", str(run), "--key", str(keys[0])]) == 0
    return run


def public_pem(raw):
    header = bytes.fromhex("302a300506032b6570032100")  # RFC 8410, section 4
    text = base64.b64encode(header + raw)
    return b"-----BEGIN PUBLIC KEY-----\n%s\n-----END PUBLIC KEY-----\n" % text


def test_signature_is_ed25519_as_in_rfc_8032(tmp_path):
    """Section 7.1, test 2: a message of one byte."""
    public = "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"
    signature = (
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
        "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
    )
    (tmp_path / "key.pem").write_bytes(public_pem(bytes.fromhex(public)))
    (tmp_path / "sig").write_bytes(bytes.fromhex(signature))
    require_signature(tmp_path, b"\x72", "sig", tmp_path / "key.pem")
    with pytest.raises(UserError, match="does not match"):
        require_signature(tmp_path, b"\x73", "sig", tmp_path / "key.pem")


def test_signed_export_is_accepted_with_and_without_the_key(signed_export, keys, capsys):
    assert len((signed_export / SIGNATURE).read_bytes()) == 64
    verification = verify_export(signed_export, keys[1])
    assert verification.directory == signed_export
    assert "signature" in [check.name for check in verification.checks]
    assert main(["verify", str(signed_export)]) == 0
    assert load(signed_export.parent, keys[1]).kind == "Transformer"


def test_signed_run_translates_with_the_key_and_not_with_another(signed_run, keys, tmp_path):
    (tmp_path / "in.de").write_text("zwei rote Hunde\n")
    command = ["translate", str(signed_run), "--input", str(tmp_path / "in.de")]
    assert main([*command, "--output", str(tmp_path / "out"), "--key", str(keys[1])]) == 0
    assert (tmp_path / "out").read_text() == "two red dogs\n"
    assert main([*command, "--output", str(tmp_path / "no"), "--key", str(keys[2])]) == 2
    assert not (tmp_path / "no").exists()


def test_unsigned_export_and_run_are_refused_if_a_key_is_given(export, phrases_run, keys):
    for path in (export, phrases_run):
        with pytest.raises(UserError, match="not signed"):
            load(path, keys[1])
    with pytest.raises(UserError, match="not signed"):
        verify_export(export, keys[1])


def test_export_that_was_changed_and_sealed_is_refused_by_its_signature(signed_export, keys):
    """The checksums fit again, as an adversary makes them fit; the signature does not."""
    warmup = signed_export / "assets.extra" / "tf_serving_warmup_requests"
    warmup.write_bytes(warmup.read_bytes() + b"\0")
    signature = (signed_export / SIGNATURE).read_bytes()
    (signed_export / SIGNATURE).unlink()
    seal_export(signed_export)
    (signed_export / SIGNATURE).write_bytes(signature)
    check_files(signed_export, read_manifest(signed_export))
    for use in (load, verify_export):
        with pytest.raises(UserError, match=r"manifest\.sig: .* does not match"):
            use(signed_export, keys[1])


@pytest.mark.parametrize("name", [SIGNATURE, MANIFEST])
def test_every_flipped_bit_in_signature_or_manifest_is_found(signed_export, keys, name):
    path = signed_export / name
    content = path.read_bytes()
    for place in range(0, len(content), max(1, len(content) // 64)):
        damaged = bytearray(content)
        damaged[place] ^= 1 << place % 8
        path.write_bytes(damaged)
        with pytest.raises(UserError, match="does not match"):
            read_manifest(signed_export, keys[1])


@pytest.mark.parametrize("size", [0, 63, 65, 1 << 20])
def test_signature_of_a_wrong_size_is_refused(signed_export, keys, size):
    (signed_export / SIGNATURE).write_bytes(bytes(size))
    with pytest.raises(UserError, match=r"manifest\.sig"):
        read_manifest(signed_export, keys[1])


def test_signature_of_another_export_is_refused(signed_export, other_export, keys, tmp_path):
    other = shutil.copytree(other_export, tmp_path / "other")
    shutil.copy(signed_export / SIGNATURE, other / SIGNATURE)
    with pytest.raises(UserError, match="does not match"):
        verify_export(other, keys[1])


def test_damaged_export_and_run_are_not_signed(export, phrases_run, keys, tmp_path, capsys):
    run = shutil.copytree(phrases_run, tmp_path / "run")
    for path, name in ((export, "fingerprint.pb"), (run, "model/model.json")):
        (path / name).write_bytes((path / name).read_bytes() + b" ")
        assert main(["sign", str(path), "--key", str(keys[0])]) == 2
        assert pathlib.Path(name).name in capsys.readouterr().err
        assert not list(path.rglob("manifest.sig"))


def test_one_of_several_public_keys_is_enough(signed_export, keys, tmp_path):
    together = tmp_path / "keys.pem"
    together.write_bytes(b"# 2026\n" + keys[2].read_bytes() + b"# 2027\n" + keys[1].read_bytes())
    assert len(read_public_keys(together)) == 2
    assert load(signed_export, together)


def test_sealing_a_signed_run_ends_its_signature(signed_run, keys):
    RunManifest.read(signed_run / "model", keys[1]).add_all()
    manifest = RunManifest.read(signed_run / "model", keys[1])  # nothing has changed
    (signed_run / "model" / "model.json").open("a").write(" ")
    manifest.add_all()
    with pytest.raises(UserError, match="does not match"):
        load(signed_run, keys[1])


def test_private_key_is_for_its_owner_only_and_never_replaced(keys, tmp_path, capsys):
    assert stat.S_IMODE(keys[0].stat().st_mode) == 0o600
    before = keys[0].read_bytes()
    assert main(["sign", "--new-key", str(keys[0])]) == 2
    assert "exists already" in capsys.readouterr().err
    assert keys[0].read_bytes() == before
    (tmp_path / "new.pem.pub").touch()
    assert main(["sign", "--new-key", str(tmp_path / "new.pem")]) == 2
    assert not (tmp_path / "new.pem").exists()
    assert main(["sign", "--new-key", str(tmp_path / "fresh.pem")]) == 0
    assert capsys.readouterr().out.count("fresh.pem") == 2


def test_encrypted_key_asks_for_its_password(keys, export, tmp_path, monkeypatch, capsys):
    from cryptography.hazmat.primitives import serialization

    content = read_private_key(keys[0]).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    path = tmp_path / "encrypted.pem"
    path.write_bytes(content)
    with pytest.raises(EncryptedKeyError):
        read_private_key(path)
    monkeypatch.setattr("getpass.getpass", lambda prompt: "wrong")
    assert main(["sign", str(export), "--key", str(path)]) == 2
    monkeypatch.setattr("getpass.getpass", lambda prompt: "secret")
    assert main(["sign", str(export), "--key", str(path)]) == 0
    verify_export(export, keys[1])


RSA = public_pem(b"").replace(b"MCowBQYDK2VwAyEA", b"MDwwDQYJKoZIhvcNAQEBBQADKwAwKAIhAKs=")


@pytest.mark.parametrize(
    "content",
    [b"", b"\0" * 99, RSA, public_pem(b"short"), b" " * (MAXIMUM_KEY_BYTES + 1)],
    ids=["empty", "zeros", "RSA", "short", "long"],
)
def test_files_that_are_no_keys_are_refused(content, tmp_path):
    (tmp_path / "key").write_bytes(content)
    for read in (read_public_keys, read_private_key):
        with pytest.raises(UserError, match=r"not a .*key of Ed25519"):
            read(tmp_path / "key")


def test_private_key_in_place_of_a_public_one_is_refused(keys):
    with pytest.raises(UserError, match="a private key"):
        read_public_keys(keys[0])
    with pytest.raises(UserError, match="not a private key"):
        read_private_key(keys[1])


@pytest.mark.parametrize(
    "options", [[], ["--key", "a.pem"], ["there"], ["there", "--new-key", "a.pem"]]
)
def test_incomplete_commands_are_refused(options, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["sign", *options]) == 2
    assert not list(tmp_path.iterdir())


def test_missing_key_files_are_named(export, tmp_path, capsys):
    for command in ("sign", "verify"):
        assert main([command, str(export), "--key", str(tmp_path / "no.pem")]) == 2
        assert "no.pem: cannot be read" in capsys.readouterr().err
