"""Manifests for the Dask operator: valid for its published schema, strictly, and safe."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.programs import ROOT

MANIFESTS = ROOT / "deploy" / "kubernetes"
SCHEMA: dict[str, Any] = json.loads((Path(__file__).parent / "schema" / "daskcluster.json").read_text())


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((MANIFESTS / name).read_text()))


def closed(schema: Any) -> Any:
    """A schema that refuses fields it does not name, as `kubectl apply` does: a server would drop them silently."""
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    copy = {key: closed(part) for key, part in schema.items()}
    if isinstance(copy.get("properties"), dict) and not copy.get("x-kubernetes-preserve-unknown-fields"):
        copy.setdefault("additionalProperties", False)
    return copy


STRICT = closed(SCHEMA)
ENVELOPE = {"apiVersion": {"const": "kubernetes.dask.org/v1"}, "kind": {"const": "DaskCluster"}, "metadata": {}}
CLUSTER_SCHEMA = {**STRICT, "properties": {**STRICT["properties"], **ENVELOPE}}
POD_SCHEMA = {**STRICT["$defs"]["pod"], "$defs": STRICT["$defs"]}


@pytest.fixture
def cluster() -> dict[str, Any]:
    (found,) = [document for document in documents("cluster.yaml") if document["kind"] == "DaskCluster"]
    return found


@pytest.fixture
def job() -> dict[str, Any]:
    (found,) = documents("fit.yaml")
    return found


def pods(cluster: dict[str, Any], job: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield cluster["spec"]["scheduler"]["spec"]
    yield cluster["spec"]["worker"]["spec"]
    yield job["spec"]["template"]["spec"]


def test_the_cluster_is_valid(cluster: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator(CLUSTER_SCHEMA).validate(cluster)


def test_the_pod_of_the_job_is_valid(job: dict[str, Any]) -> None:
    assert (job["apiVersion"], job["kind"]) == ("batch/v1", "Job")
    jsonschema.Draft202012Validator(POD_SCHEMA).validate(job["spec"]["template"]["spec"])


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["spec", "worker", "replicas"], "four"),
        (["spec", "worker", "spec", "containers", 0, "securityContexts"], {}),
        (["spec", "scheduler", "spec", "containers", 0, "livenessProbe", "exec", "comand"], ["true"]),
        (["spec", "scheduler", "spec", "volumes", 0, "secret", "defaultMode"], "0440"),
    ],
)
def test_the_schema_finds_mistakes(cluster: dict[str, Any], path: list[Any], value: object) -> None:
    target = cluster
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(CLUSTER_SCHEMA).validate(cluster)


def test_no_process_is_root_or_can_become_it(cluster: dict[str, Any], job: dict[str, Any]) -> None:
    for pod in pods(cluster, job):
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["automountServiceAccountToken"] is False
        for container in pod["containers"]:
            security = container["securityContext"]
            assert security["readOnlyRootFilesystem"]
            assert security["allowPrivilegeEscalation"] is False
            assert security["capabilities"]["drop"] == ["ALL"]
            assert container["resources"]["requests"] == container["resources"]["limits"]


def test_all_processes_use_one_image_tls_and_only_loopback_for_dashboards(
    cluster: dict[str, Any], job: dict[str, Any]
) -> None:
    containers = [container for pod in pods(cluster, job) for container in pod["containers"]]
    assert len({container["image"] for container in containers}) == 1
    for container in containers:
        assert {"configMapRef": {"name": "vmfa-dask"}} in container["envFrom"]
        assert {"name": "tls", "mountPath": "/etc/vmfa/tls", "readOnly": True} in container["volumeMounts"]
        assert "tcp://" not in json.dumps(container)
    for container in containers[:2]:
        words = " ".join(container["args"]).replace("=", " ").split()
        assert words[words.index("--dashboard-address") + 1].startswith("127.0.0.1:")


def test_pods_begin_with_the_kernels_of_the_image(cluster: dict[str, Any], job: dict[str, Any]) -> None:
    """Their volume lies over the folder in which the image has them."""
    for pod in list(pods(cluster, job))[1:]:
        (main,), (copy,) = pod["containers"], pod["initContainers"]
        (folder,) = [mount["mountPath"] for mount in main["volumeMounts"] if mount["name"] == "kernels"]
        assert f"VOLUME {folder}\n" in (ROOT / "deploy" / "docker" / "Dockerfile").read_text()
        (mount,) = copy["volumeMounts"]
        assert mount["name"] == "kernels"
        assert mount["mountPath"] != folder
        assert copy["args"] == ["cp", "-R", f"{folder}/.", mount["mountPath"]]
        assert copy["image"] == main["image"]
        assert copy["securityContext"] == main["securityContext"]
        assert copy["resources"]["requests"] == copy["resources"]["limits"]


def test_a_worker_has_a_thread_for_each_core_and_one_process(cluster: dict[str, Any]) -> None:
    (container,) = cluster["spec"]["worker"]["spec"]["containers"]
    assert f"--nthreads={container['resources']['limits']['cpu']}" in container["args"]
    assert {"--nworkers=1", "--memory-limit=0.85"} <= set(container["args"])


def test_commands_are_those_that_distributed_installs(cluster: dict[str, Any]) -> None:
    for part, name in {"scheduler": "scheduler", "worker": "worker"}.items():
        assert cluster["spec"][part]["spec"]["containers"][0]["args"][:2] == ["dask", name]


def test_variables_name_files_of_the_secret(cluster: dict[str, Any]) -> None:
    (settings,) = [document for document in documents("cluster.yaml") if document["kind"] == "ConfigMap"]
    files = {Path(value).name for key, value in settings["data"].items() if "__TLS__" in key}
    assert files == {"ca.pem", "cert.pem", "key.pem"}
    assert settings["data"]["DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION"] == "true"
