"""Versions that appear, disappear and are damaged while the server answers."""

import shutil
import threading

import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.cli.main import main
from keras_transformer.export.signing import write_keys
from keras_transformer.serving import ModelSource, find_models, read_model_config
from tests.export.small_export import write_small_export
from tests.serving.running import RunningServer


def states(running, model="small"):
    content = running.get(f"/v1/models/{model}").json["model_version_status"]
    return {int(each["version"]): each["state"] for each in content}


def served_version(running):
    content = running.get("/v1/models/small/metadata").json
    return int(content["model_spec"]["version"])


def add_version(models, number):
    """Adds a copy of version 1, as an export appears: complete, by a rename."""
    temporary = models / "small" / f".{number}"
    shutil.copytree(models / "small" / "1", temporary)
    temporary.rename(models / "small" / str(number))
    return models / "small" / str(number)


@pytest.fixture
def running(models):
    with RunningServer(find_models(models)) as running:
        yield running


def test_new_version_replaces_the_old_one_under_load_without_a_failed_request(models, running):
    ends, wrong = threading.Event(), []
    answered = [0] * 8

    def ask(number):
        while not ends.is_set():
            word = f"client {number} {answered[number]}"
            answer = running.predict({"instances": [word]})
            if answer.status != 200 or answer.json["predictions"][0]["text"] != word.upper():
                wrong.append(answer.body)
            answered[number] += 1

    clients = [threading.Thread(target=ask, args=[number]) for number in range(8)]
    for client in clients:
        client.start()
    try:
        for version in (2, 3):
            add_version(models, version)
            running.update()
            assert served_version(running) == version
    finally:
        ends.set()
        for client in clients:
            client.join()
    assert not wrong
    assert min(answered) > 0
    running.update()
    assert states(running) == {1: "END", 2: "END", 3: "AVAILABLE"}
    workers = running.server.manager.workers
    assert len(workers._servables) == 1


def damage(directory, kind):
    graph, vocabulary = directory / "saved_model.pb", b"guten"
    if kind == "missing graph":
        graph.unlink()
    elif kind == "empty graph":
        graph.write_bytes(b"")
    elif kind == "truncated graph":
        graph.write_bytes(graph.read_bytes()[:1000])
    elif kind == "changed vocabulary":
        content = graph.read_bytes()
        assert vocabulary in content
        graph.write_bytes(content.replace(vocabulary, b"gutem"))
    elif kind == "truncated weights":
        weights = directory / "variables" / "variables.data-00000-of-00001"
        weights.write_bytes(weights.read_bytes()[:-1])
    elif kind == "missing weights":
        shutil.rmtree(directory / "variables")
    elif kind == "missing manifest":
        (directory / "assets.extra" / "manifest.json").unlink()
    elif kind == "another file":
        (directory / "assets.extra" / "more").write_bytes(b"x")
    elif kind == "empty directory":
        shutil.rmtree(directory)
        directory.mkdir()


@pytest.mark.parametrize(
    "kind",
    [
        "missing graph",
        "empty graph",
        "truncated graph",
        "changed vocabulary",
        "truncated weights",
        "missing weights",
        "missing manifest",
        "another file",
        "empty directory",
    ],
)
def test_damaged_version_never_replaces_a_good_one(written_export, server, kind):
    # The directory of the shared server: the damaged version is gone after the test.
    directory = written_export.parent / "2"
    temporary = written_export.parent / ".2"
    shutil.copytree(written_export, temporary)
    damage(temporary, kind)
    temporary.rename(directory)
    try:
        server.update()
        assert states(server) == {1: "AVAILABLE", 2: "END"}
        (status,) = server.get("/v1/models/small/versions/2").json["model_version_status"]
        assert status["status"]["error_code"] == "FAILED_PRECONDITION"
        assert str(directory) in status["status"]["error_message"]
        assert (
            server.post("/v1/models/small/versions/2:predict", {"instances": ["a"]}).status == 404
        )
        assert server.predict({"instances": ["a"]}).json["predictions"][0]["text"] == "A"
        assert server.get("/readyz").status == 200
    finally:
        shutil.rmtree(directory)
        server.update()
        server.server.manager.models["small"].versions.pop(2)


def test_version_that_runs_forbidden_operations_is_refused(tmp_path):
    import tensorflow as tf

    from keras_transformer.export.manifest import write_manifest
    from tests.export.small_export import NAMES, SmallModel, golden_pairs, manifest_content

    secret = tmp_path / "secret"

    class Writer(SmallModel):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
        def serving_default(self, text):
            with tf.control_dependencies([tf.io.write_file(str(secret), "stolen")]):
                return {"text": tf.identity(text), "score": tf.zeros(tf.shape(text))}

    model, directory = Writer(), tmp_path / "models" / "small" / "1"
    pairs = golden_pairs(model, NAMES[1:])
    tf.saved_model.save(model, str(directory), {name: getattr(model, name) for name in NAMES})
    write_manifest(directory, manifest_content(pairs))
    with RunningServer(find_models(tmp_path / "models"), grpc_port=None) as running:
        assert states(running) == {1: "END"}
        assert running.get("/readyz").status == 503
        assert running.predict({"instances": ["a"]}).status == 404
    assert not secret.exists()


def test_half_copied_version_is_loaded_when_it_is_complete(models, running):
    source, target = models / "small" / "1", models / "small" / "2"
    (target / "assets.extra").mkdir(parents=True)
    shutil.copy(source / "saved_model.pb", target)
    running.update()
    assert states(running) == {1: "AVAILABLE", 2: "END"}
    running.update()  # nothing has changed: it is not tried again
    version = running.server.manager.models["small"].versions[2]
    running.update()
    assert running.server.manager.models["small"].versions[2] is version
    shutil.copytree(source, target, dirs_exist_ok=True)
    running.update()
    assert served_version(running) == 2
    assert states(running)[1] in ("UNLOADING", "END")


def test_highest_version_that_can_be_loaded_is_served_from_the_start(models):
    damage(add_version(models, 2), "empty graph")
    with RunningServer(find_models(models)) as running:
        assert states(running) == {1: "AVAILABLE", 2: "END"}
        assert served_version(running) == 1


def test_only_numbers_are_versions_and_equal_ones_are_reported(models, caplog):
    for name in ("latest", "1a", "-2", "3.0", "\u0665"):
        shutil.copytree(models / "small" / "1", models / "small" / name)
    shutil.copytree(models / "small" / "1", models / "small" / "01")
    with RunningServer(find_models(models), grpc_port=None) as running:
        assert states(running) == {1: "AVAILABLE"}
    assert any("01 and 1" in record.getMessage() for record in caplog.records)


def test_deleted_version_is_unloaded_and_a_lower_one_takes_over(models, running):
    directory = add_version(models, 2)
    running.update()
    assert served_version(running) == 2
    shutil.rmtree(directory)
    running.update()
    assert served_version(running) == 1


def test_directory_that_is_gone_for_a_moment_changes_nothing(models, running):
    (models / "small").rename(models / "moved")
    running.update()
    assert running.predict({"instances": ["a"]}).status == 200


def test_failing_warm_up_request_keeps_a_version_from_being_served(models, running):
    from keras_transformer.export.formats.saved_model import write_warmup_requests
    from keras_transformer.export.manifest import MANIFEST, read_manifest, write_manifest

    directory = models / "small" / ".2"
    shutil.copytree(models / "small" / "1", directory)
    content = read_manifest(directory)
    (directory / MANIFEST).unlink()
    write_warmup_requests(directory, [("score", {"source": ["a", "b"], "target": ["a"]})])
    write_manifest(directory, {k: v for k, v in content.items() if k not in ("files", "sha256")})
    directory.rename(models / "small" / "2")
    running.update()
    assert states(running) == {1: "AVAILABLE", 2: "END"}
    (status,) = running.get("/v1/models/small/versions/2").json["model_version_status"]
    assert "arm-up" in status["status"]["error_message"]


def test_only_signed_versions_are_served_with_a_key(models, tmp_path):
    private = tmp_path / "release.pem"
    public = write_keys(private)
    with RunningServer(find_models(models), key=str(public), grpc_port=None) as running:
        assert states(running) == {1: "END"}
        assert main(["sign", str(models / "small" / "1"), "--key", str(private)]) == 0
        running.update()
        assert states(running) == {1: "AVAILABLE"}


def test_config_file_chooses_versions_and_labels(models, tmp_path):
    add_version(models, 2)
    write_small_export(models / "other" / "7")
    config = tmp_path / "models.config"
    config.write_text(
        """
        model_config_list {
          config {
            name: "first" base_path: "models/small" model_platform: "tensorflow"
            model_version_policy { specific { versions: 1 versions: 2 } }
            version_labels { key: "stable" value: 1 }
            version_labels { key: "canary" value: 2 }
          }
          config { name: "second" base_path: "%s" }
        }
        """
        % (models / "other")
    )
    with RunningServer(read_model_config(config)) as running:
        assert states(running, "first") == {1: "AVAILABLE", 2: "AVAILABLE"}
        assert states(running, "second") == {7: "AVAILABLE"}
        for label, number in (("stable", 1), ("canary", 2)):
            content = running.get(f"/v1/models/first/labels/{label}/metadata").json
            assert content["model_spec"]["version"] == str(number)
            path = f"/v1/models/first/labels/{label}:predict"
            assert running.post(path, {"instances": ["a"]}).status == 200
        (status,) = running.get("/v1/models/first/labels/stable").json["model_version_status"]
        assert status["version"] == "1"


@pytest.mark.parametrize(
    ("content", "fact"),
    [
        ("", "names no model"),
        ("model_config_list { config { name: 'a' } }", "base_path"),
        ("model_config_list { config { nam: 'a' } }", "nam"),
        ("model_config_list { config {", ":1:"),
        ("model_config_list { config { name: 'a' base_path: 'b' model_platform: 'x' } }", "'x'"),
        ("model_config_list {" + "config { name: 'a' base_path: 'b' } " * 2 + "}", "twice"),
    ],
)
def test_wrong_config_file_is_a_mistake_with_its_place(tmp_path, content, fact):
    path = tmp_path / "models.config"
    path.write_text(content)
    with pytest.raises(UserError) as caught:
        read_model_config(path)
    assert str(caught.value).startswith(str(path))
    assert fact in str(caught.value)


def test_models_are_found_in_all_forms_of_a_directory(written_export, tmp_path):
    small = written_export.parent
    assert find_models(small.parent) == [ModelSource("small", small)]
    assert find_models(small) == [ModelSource("small", small)]
    assert find_models(written_export) == [ModelSource("small", small, only=(1,))]
    archive, keras_file = tmp_path / "model.zip", tmp_path / "model.keras"
    for path in (archive, keras_file):
        path.write_bytes(b"PK\x03\x04")
    for wrong in (small / "nowhere", small / "1" / "variables", archive, keras_file):
        with pytest.raises(UserError):
            find_models(wrong)


def test_policies_choose_among_versions(tmp_path):
    numbers = [1, 5, 3]
    assert ModelSource("m", tmp_path).wanted(numbers) == [5]
    assert ModelSource("m", tmp_path, latest=2).wanted(numbers) == [5, 3]
    assert ModelSource("m", tmp_path, latest=None).wanted(numbers) == [5, 3, 1]
    assert ModelSource("m", tmp_path, only=(1, 9)).wanted(numbers) == [1]
