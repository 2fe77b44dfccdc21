"""Dockerfile and Kubernetes files of training/serving: commands, paths, ports and references."""

import pathlib
import re
import shlex
import subprocess
import sys

import pytest
from ruamel.yaml import YAML

from keras_transformer.cli import serve
from keras_transformer.cli.main import make_parser
from keras_transformer.serving import find_models, read_model_config
from tests.export.small_export import write_small_export
from tests.serving.running import RunningServer

ROOT = pathlib.Path(__file__).parent.parent.parent
FOLDER = ROOT / "training" / "serving"
DOCKERFILE = (FOLDER / "Dockerfile").read_text(encoding="utf-8")
FILES = sorted((FOLDER / "kubernetes").glob("*.yaml"))


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    directory = tmp_path_factory.mktemp("models")
    write_small_export(directory / "dates" / "1")
    with RunningServer(find_models(directory)) as running:
        yield running


def objects(path):
    """Returns the objects of a file. YAML refuses keys that occur twice."""
    return list(YAML(typ="safe").load_all(path.read_text(encoding="utf-8")))


def deployments():
    for path in FILES:
        for each in objects(path):
            if each["kind"] == "Deployment":
                yield pytest.param(each, objects(path), id=path.stem)


def instructions(name):
    """Returns the arguments of each instruction of the Dockerfile with a name."""
    lines = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", DOCKERFILE, flags=re.MULTILINE))
    return [line.split(" ", 1)[1] for line in lines.splitlines() if line.startswith(f"{name} ")]


def listed(text):
    return YAML(typ="safe").load(text)


def parsed(arguments):
    """Parses the arguments of `keras-transformer serve`."""
    return make_parser().parse_args(["serve", *map(str, arguments)])


def test_dockerfile_starts_the_server_for_other_machines():
    (entrypoint,), (command,) = instructions("ENTRYPOINT"), instructions("CMD")
    program, *arguments = listed(entrypoint)
    assert program == "keras-transformer"
    options = make_parser().parse_args([*arguments, *listed(command)])
    assert (options.directory, options.host) == ("/models", "0.0.0.0")
    ports = {int(port) for port in instructions("EXPOSE")[0].split()}
    assert ports == {options.port, options.grpc_port}
    assert instructions("USER") != ["root"]


def test_dockerfile_copies_what_the_installation_reads():
    copied = [each.split() for each in instructions("COPY") if not each.startswith("--from")]
    names = [name for *sources, _ in copied for name in sources]
    assert all((ROOT / name).exists() for name in names)
    setup = (ROOT / "setup.cfg").read_text()
    read = re.findall(r"(?:file: |license_files = )(\S+)", setup)
    assert {"setup.cfg", "pyproject.toml", "keras_transformer", *read} <= set(names)
    (extra,) = re.findall(r"'\.\[(\w+)\]'", " ".join(instructions("RUN")))
    assert f"\n{extra} =\n" in setup


def test_health_check_of_the_image_follows_the_readiness(running):
    (check,) = instructions("HEALTHCHECK")
    _, *command = listed(check.partition(" CMD ")[2])
    code = command[-1].replace(":8501", f":{running.server.port}")
    assert subprocess.run([sys.executable, *command[:-1], code]).returncode == 0
    code = code.replace("/readyz", "/missing")
    failed = subprocess.run([sys.executable, *command[:-1], code], stderr=subprocess.DEVNULL)
    assert failed.returncode != 0


@pytest.mark.parametrize(("deployment", "others"), deployments())
def test_services_find_their_pods_and_ports(deployment, others):
    template = deployment["spec"]["template"]
    labels = template["metadata"]["labels"]
    assert deployment["spec"]["selector"]["matchLabels"].items() <= labels.items()
    (container,) = template["spec"]["containers"]
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    (service,) = (each for each in others if each["kind"] == "Service")
    assert service["spec"]["selector"].items() <= labels.items()
    for port in service["spec"]["ports"]:
        assert ports[port["targetPort"]] == port["port"]
    for each in others:
        if each["kind"] == "HorizontalPodAutoscaler":
            assert each["spec"]["scaleTargetRef"]["name"] == deployment["metadata"]["name"]
        if each["kind"] == "PodDisruptionBudget":
            assert each["spec"]["selector"]["matchLabels"].items() <= labels.items()


@pytest.mark.parametrize(("deployment", "others"), deployments())
def test_volumes_that_are_mounted_exist(deployment, others):
    spec = deployment["spec"]["template"]["spec"]
    volumes = {each["name"]: each for each in spec["volumes"]}
    (container,) = spec["containers"]
    assert {each["name"] for each in container["volumeMounts"]} == volumes.keys()
    maps = {each["metadata"]["name"] for each in others if each["kind"] == "ConfigMap"}
    for volume in volumes.values():
        if "configMap" in volume:
            assert volume["configMap"]["name"] in maps


@pytest.mark.parametrize(("deployment", "others"), deployments())
def test_probes_and_metrics_are_answered(deployment, others, running):
    template = deployment["spec"]["template"]
    (container,) = template["spec"]["containers"]
    ports = {each["name"] for each in container["ports"]}
    for name in ("startupProbe", "readinessProbe", "livenessProbe"):
        probe = container[name]
        (check,) = (probe[key] for key in ("httpGet", "tcpSocket") if key in probe)
        assert check["port"] in ports
        if "path" in check:
            assert running.get(check["path"]).status == 200
    path = template["metadata"]["annotations"].get("prometheus.io/path", "/metrics")
    assert b"request_count" in running.get(path).body


def test_arguments_of_this_server_are_valid():
    deployment, *_ = objects(FOLDER / "kubernetes/keras_transformer.yaml")
    spec = deployment["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    options = parsed(container["args"])
    mounts = {each["mountPath"] for each in container["volumeMounts"]}
    assert options.directory in mounts
    assert options.host == "0.0.0.0"
    # SIGTERM comes after the pause of preStop, and SIGKILL after all of it.
    pause = int(container["lifecycle"]["preStop"]["exec"]["command"][-1])
    assert spec["terminationGracePeriodSeconds"] > options.drain_seconds + pause
    assert container["env"][0]["name"] in (serve.__doc__ or "")
    # A file system that is read only needs a place for the checked copies.
    assert "/tmp" in mounts


def test_configuration_of_tensorflow_serving_is_valid(tmp_path):
    (content,) = (
        each["data"]
        for each in objects(FOLDER / "kubernetes/tensorflow_serving.yaml")
        if each["kind"] == "ConfigMap"
    )
    text = (FOLDER / "kubernetes/tensorflow_serving.yaml").read_text()
    for name in re.findall(r"=/config/(\S+)", text):
        assert name in content
    (tmp_path / "models.config").write_text(content["models.config"])
    (source,) = read_model_config(tmp_path / "models.config")
    assert (source.name, str(source.directory)) == ("dates", "/models/dates")


def test_runtime_of_kserve_names_the_model_as_the_service(tmp_path):
    service, runtime = objects(FOLDER / "kubernetes/kserve.yaml")
    assert service["spec"]["predictor"]["model"]["storageUri"].endswith("/dates")
    (container,) = runtime["spec"]["containers"]
    name = service["metadata"]["name"]
    arguments = [str(each).replace("{{.Name}}", name) for each in container["args"]]
    options = parsed(arguments)
    assert options.port == container["readinessProbe"]["httpGet"]["port"]
    # KServe mounts the versions as /mnt/models/1.
    assert options.directory == "/mnt/models"
    write_small_export(tmp_path / "models" / "1")
    (source,) = find_models(tmp_path / "models", options.name)
    assert source.name == "dates"


def test_commands_of_the_pages_name_files_that_exist():
    pages = (FOLDER / "README.md").read_text() + DOCKERFILE
    for path in re.findall(r"training/serving/[\w./]+", pages):
        assert (ROOT / path).exists(), path
    for command in re.findall(r"^(?:    |#   )(docker run .*)$", pages, re.MULTILINE):
        assert shlex.split(command)[-1] == "keras-transformer"
    for name in re.findall(r"^\| `([\w./]+)`", pages, re.MULTILINE):
        assert (FOLDER / name).exists(), name
