"""Every command of the guide from training to production, on a small export in place of dates."""

import json
import pathlib
import re
import shlex
import shutil
import subprocess

import pytest
import tensorflow as tf

from keras_transformer.cli.main import main, make_parser
from keras_transformer.export.formats.saved_model import write_warmup_requests
from keras_transformer.export.golden import make_golden_pair
from keras_transformer.export.manifest import write_manifest
from keras_transformer.serving import find_models, read_model_config
from tests.browser import chromium, page  # noqa: F401
from tests.export.small_export import (
    NAMES,
    TEXTS,
    SmallModel,
    golden_pairs,
    manifest_content,
    save_module,
    write_export,
)
from tests.serving.running import RunningServer
from tests.serving.test_streaming import StreamingModel

ROOT = pathlib.Path(__file__).parent.parent.parent
PATH = ROOT / "docs" / "guides" / "production.md"
GUIDE = PATH.read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", GUIDE, re.DOTALL | re.MULTILINE)


class DatesModel(SmallModel):
    """A model that knows one date."""

    @tf.function(input_signature=[TEXTS])
    def serving_default(self, text):
        found = super().n_best(text)
        return {"text": self.date_of(text), "score": found["score"][:, 0]}

    @tf.function(input_signature=[TEXTS])
    def n_best(self, text):
        found = super().n_best(text)
        return {**found, "text": tf.stack([self.date_of(text), text], axis=1)}

    def date_of(self, text):
        return tf.where(text == "7 mars 2025", "2025-03-07", tf.strings.upper(text))


def blocks(language):
    return [content for name, content in BLOCKS if name == language]


def block_with(language, text):
    """Returns the only block of a language that contains a text."""
    (found,) = (content for content in blocks(language) if text in content)
    return found


def commands(program):
    """Returns the commands of all blocks that start with a program."""
    lines = "".join(blocks("sh")).replace("\\\n", " ").splitlines()
    # Code in the sentences, as far as it is a whole command.
    lines += re.findall(rf"`({re.escape(program)} [^`]*)`", GUIDE)
    return [line for line in lines if line.startswith(f"{program} ")]


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    directory = tmp_path_factory.mktemp("production")
    write_export(DatesModel(), directory / "saved_models" / "dates" / "1")
    stories = directory / "saved_models" / "stories" / "1"
    model, names = StreamingModel(), [*NAMES, "next_tokens"]
    save_module(model, stories, {name: getattr(model, name) for name in names})
    write_warmup_requests(stories, [])
    inputs = {"text": tf.constant(["abc"]), "state": tf.constant([], tf.string)}
    inputs |= {"temperature": tf.constant(0.0), "seed": tf.constant(1), "steps": tf.constant(2)}
    pair = make_golden_pair("next_tokens", inputs, model.next_tokens(**inputs))
    golden = [*golden_pairs(model, NAMES), pair]
    write_manifest(stories, manifest_content(golden, kind="LanguageModel"))
    return directory


@pytest.fixture(scope="module")
def running(directory):
    with RunningServer(find_models(directory / "saved_models")) as running:
        yield running


@pytest.fixture
def run(directory, running):
    """Runs a shell command of the guide against the server, and returns its output."""

    def run(command):
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", with_ports(command, running)],
            cwd=directory,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout

    return run


def with_ports(text, running):
    text = text.replace("localhost:8501", f"127.0.0.1:{running.server.port}")
    return text.replace("localhost:8500", f"127.0.0.1:{running.server.grpc_port}")


def test_every_block_has_a_test():
    tested = ["make", "pip", "keras-transformer", "curl", "mv", "openssl"]
    for line in "".join(blocks("sh")).replace("\\\n", " ").splitlines():
        assert line.split()[0] in tested
    assert {language for language, _ in BLOCKS} == {"sh", "json", "python", "js", "yaml", ""}


def test_commands_of_the_package_and_their_options_exist():
    found = commands("keras-transformer")
    assert len(found) >= 6
    for command in found:
        arguments = shlex.split(command)[1:]
        if arguments[-1] == "--help" or arguments == ["serve", "--key"]:
            arguments = [arguments[0], "--help"]
        if arguments[-1] != "--help":
            make_parser().parse_args(arguments)
            continue
        with pytest.raises(SystemExit) as ended:
            make_parser().parse_args(arguments)
        assert ended.value.code == 0


def test_options_in_sentences_exist(capsys):
    with pytest.raises(SystemExit):
        make_parser().parse_args(["serve", "--help"])
    known = capsys.readouterr().out
    for option in re.findall(r"`(?:serve )?(--[\w-]+)", GUIDE):
        assert option in known, option


def test_quick_start_exports_what_the_guide_serves():
    (command,) = commands("make")
    printed = subprocess.run(
        [*shlex.split(command), "--dry-run"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert "verify saved_models/dates" in printed


def test_extra_of_the_guide_exists():
    (command,) = commands("pip")
    extra = re.search(r"\[(\w+)\]", command).group(1)
    assert f"\n{extra} =\n" in (ROOT / "setup.cfg").read_text()


def test_requests_with_curl_are_answered(run):
    for command in commands("curl"):
        if "signature" in command and "|" not in command:
            outputs = json.loads(run(command))["outputs"]
            assert "text" in outputs
    answer = json.loads(run(next(each for each in commands("curl") if "instances" in each)))
    (shown,) = (json.loads(block) for block in blocks("json"))
    assert answer["predictions"][0].keys() == shown["predictions"][0].keys()
    assert answer["predictions"][0]["text"] == shown["predictions"][0]["text"]


def test_server_is_ready_and_describes_its_model(run):
    assert run(next(each for each in commands("curl") if "readyz" in each)) == "ready\n"
    metadata = json.loads(run(next(each for each in commands("curl") if "metadata" in each)))
    assert metadata["model_spec"]["name"] == "dates"


def test_streams_give_the_text_token_by_token(run, running, capsys):
    events = run(next(each for each in commands("curl") if ":stream" in each)).split("\n\n")
    deltas = [json.loads(each.removeprefix("data: "))["delta"] for each in events[:-2]]
    assert "".join(deltas) == "ONCE UPON A TIME"
    assert events[-2].startswith("event: done\ndata: ")
    (command,) = commands("keras-transformer stream")
    assert main(shlex.split(with_ports(command, running))[1:]) == 0
    assert capsys.readouterr().out == "ONCE UPON A TIME\n"
    example = with_ports(block_with("python", ".stream("), running)
    content = {"__name__": "guide"}
    exec(compile(example, "guide", "exec"), content)
    assert content["written"] == "ONCE UPON A TIME"


@pytest.mark.parametrize("library", ["client.translate", "import grpc", "import ovmsclient"])
def test_python_client_prints_the_date(running, library, capsys):
    example = with_ports(block_with("python", library), running)
    exec(compile(example, "guide", "exec"), {"__name__": "guide"})
    assert "2025-03-07" in capsys.readouterr().out.splitlines()[0]


def test_javascript_prints_the_date(page, running):  # noqa: F811
    page.goto(f"http://127.0.0.1:{running.server.port}/")
    (example,) = blocks("js")
    printed = []
    page.on("console", lambda message: printed.append(message.text))
    page.evaluate(f"async () => {{ {with_ports(example, running)} }}")
    assert printed == ["2025-03-07"]


def test_metrics_of_the_guide_exist(run):
    run('curl -s http://localhost:8501/v1/models/dates:predict -d \'{"instances": ["a"]}\'')
    printed = run(next(each for each in commands("curl") if "request_count" in each))
    (shown,) = (content for name, content in BLOCKS if name == "" and "request_count" in content)
    assert shown.rpartition(" ")[0] in printed
    everything = run("curl -s http://localhost:8501/metrics")
    for name in re.findall(r"^\| `([\w:]+)`", GUIDE, re.MULTILINE):
        assert name in everything, name


def test_prometheus_reads_the_default_path(run):
    from ruamel.yaml import YAML

    (block,) = blocks("yaml")
    (job,) = YAML(typ="safe").load(block)["scrape_configs"]
    (target,) = job["static_configs"][0]["targets"]
    # Without a metrics_path, Prometheus reads /metrics.
    assert "metrics_path" not in job
    assert "process_cpu_seconds_total" in run(f"curl -s http://{target}/metrics")


def test_new_version_is_served_and_withdrawn(run, running, directory):
    (export,) = (each for each in commands("keras-transformer") if each.startswith(EXPORT))
    models = directory / make_parser().parse_args(shlex.split(export)[1:]).to
    (status,) = (each for each in commands("curl") if each.endswith("/v1/models/dates"))
    shutil.copytree(models / "1", models / "2")  # as the command would write it
    running.update()
    found = states(run(status))
    assert found["2"] == "AVAILABLE"
    assert found["1"] in ("UNLOADING", "END")  # unloading follows the swap
    (move,) = commands("mv")
    run(move)
    running.update()
    assert states(run(status))["1"] == "AVAILABLE"
    assert not (models / "2").exists()


EXPORT = "keras-transformer export runs/dates"


def states(status):
    return {each["version"]: each["state"] for each in json.loads(status)["model_version_status"]}


def test_configuration_file_names_versions_and_labels(tmp_path):
    (config,) = (content for name, content in BLOCKS if "model_config_list" in content)
    (tmp_path / "models.config").write_text(config)
    (source,) = read_model_config(tmp_path / "models.config")
    assert source.directory == tmp_path / "saved_models" / "dates"
    assert (source.only, source.labels) == ((1, 2), {"stable": 1, "canary": 2})


def test_key_of_the_guide_is_long_enough(run, directory):
    (command,) = commands("openssl")
    run(command)
    assert len((directory / "key.txt").read_text().strip()) >= 16


def test_links_of_the_guide_exist():
    for link in re.findall(r"\]\(([\w./-]+)\)", GUIDE):
        assert (PATH.parent / link).exists(), link
