"""The REST interface of a running server."""

import pytest


def test_row_format_is_answered_by_row(server):
    answer = server.predict({"instances": ["guten", "morgen"]})
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "application/json"
    first, second = answer.json["predictions"]
    assert (first["text"], second["text"]) == ("GUTEN", "MORGEN")
    assert isinstance(first["score"], float)


def test_column_format_is_answered_by_column(server):
    answer = server.predict({"signature_name": "encode", "inputs": {"text": ["guten", "nacht"]}})
    (rows,) = answer.json.values()
    assert list(answer.json) == ["outputs"]
    assert [len(row) for row in rows] == [3, 3]


def test_signature_with_scalars_is_answered_in_column_format(server):
    inputs = {"text": ["guten"], "temperature": 0.5, "seed": 7}
    answer = server.predict({"signature_name": "sample", "inputs": inputs})
    assert answer.json["outputs"]["text"] == ["GUTEN"]


def test_status_lists_versions_as_tensorflow_serving_does(server):
    status = {"error_code": "OK", "error_message": ""}
    expected = [{"version": "1", "state": "AVAILABLE", "status": status}]
    for path in ("/v1/models/small", "/v1/models/small/versions/1", "/V1/Models/small"):
        assert server.get(path).json == {"model_version_status": expected}


def test_metadata_describes_the_signatures(server):
    content = server.get("/v1/models/small/metadata").json
    assert content["model_spec"] == {"name": "small", "signature_name": "", "version": "1"}
    signatures = content["metadata"]["signature_def"]["signature_def"]
    text = signatures["serving_default"]["inputs"]["text"]
    assert text["dtype"] == "DT_STRING"
    assert text["tensor_shape"] == {"dim": [{"size": "-1", "name": ""}], "unknown_rank": False}
    assert not any(name.startswith("__") for name in signatures)


def test_list_of_models_names_versions_and_signatures(server):
    (model,) = server.get("/models").json["models"]
    assert (model["name"], model["versions"], model["kind"]) == ("small", [1], "Transformer")
    assert "serving_default" in model["signatures"]


def test_health_and_readiness(server):
    assert server.get("/healthz").status == 200
    assert server.get("/readyz").status == 200


@pytest.mark.parametrize("method", ["classify", "regress"])
def test_methods_of_examples_are_unimplemented(server, method):
    answer = server.post(f"/v1/models/small:{method}", {"examples": [{"x": 1}]})
    assert answer.status == 501
    assert method in answer.error


def test_metrics_have_the_names_of_tensorflow_serving(server):
    from prometheus_client.parser import text_string_to_metric_families

    server.predict({"instances": ["guten", "morgen"]})
    server.predict({"instances": [5]})
    answer = server.get("/monitoring/prometheus/metrics")
    text, samples = answer.body.decode(), {}
    # prometheus-client's parser renames counters, which Prometheus itself does not.
    for status in ("OK", "INVALID_ARGUMENT"):
        labels = f'{{model_name="small",status="{status}"}} '
        assert f":tensorflow:serving:request_count{labels}" in text
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            samples[sample.name, sample.labels.get("status"), sample.labels.get("le")] = sample
    for name in ("request_latency", "runtime_latency", "batching_session:processed_batch_size"):
        total = samples[f":tensorflow:serving:{name}_count", None, None].value
        assert samples[f":tensorflow:serving:{name}_bucket", None, "+Inf"].value == total >= 1
    states = [key for key in samples if key[0] == "keras_transformer_serving_model_version_state"]
    assert states
    assert "process_resident_memory_bytes" in {name for name, _, _ in samples}
