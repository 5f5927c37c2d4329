"""The image and the compose file agree with each other and with the package: nothing here starts a container."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from distributed.cli.dask_scheduler import main as scheduler
from distributed.cli.dask_worker import main as worker

from tests.programs import ROOT
from vmfa_dask.command.fit import fit
from vmfa_dask.command.planning import warm_up

FOLDER = ROOT / "deploy" / "docker"
DOCKERFILE = (FOLDER / "Dockerfile").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
OF_DASK = ["scheduler", "worker", "fit"]


def commands() -> dict[str, list[str]]:
    """Commands of the services and of the pods, by name."""
    found = {name: service["command"] for name, service in SERVICES.items() if "command" in service}
    for document in yaml.safe_load_all((ROOT / "deploy" / "kubernetes" / "cluster.yaml").read_text()):
        for part, spec in document.get("spec", {}).items():
            found[f"pod of {part}"] = spec["spec"]["containers"][0]["args"]
    (job,) = yaml.safe_load_all((ROOT / "deploy" / "kubernetes" / "fit.yaml").read_text())
    found["pod of the fit"] = job["spec"]["template"]["spec"]["containers"][0]["args"]
    return found


def test_what_the_image_copies_exists_and_reaches_the_builder() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in ignored
    kept = {line[1:] for line in ignored if line.startswith("!")}
    copied = [word for line in re.findall(r"^COPY (.+)$", DOCKERFILE, re.MULTILINE) for word in line.split()[:-1]]
    assert len(copied) > 5
    for source in copied:
        assert (ROOT / source).exists(), source
        assert Path(source).parts[0] in kept, source


def test_the_image_runs_as_a_user_without_rights_under_an_init() -> None:
    last = DOCKERFILE.rpartition("\nFROM ")[2]
    assert re.search(r"^USER 10001:10001$", last, re.MULTILINE)
    assert json.loads(re.findall(r"^ENTRYPOINT (.+)$", last, re.MULTILINE)[0]) == ["tini", "--"]
    assert "NUMBA_CACHE_DIR=/var/cache/vmfa" in last
    assert "VOLUME /var/cache/vmfa" in last


def test_kernels_are_compiled_when_the_image_is_built_by_the_user_who_runs_them() -> None:
    lines = DOCKERFILE.rpartition("\nFROM ")[2].replace("\\\n", " ").splitlines()
    (step,) = [k for k, line in enumerate(lines) if line.startswith("RUN vmfa-dask warm-up ")]
    before, after = lines[:step], lines[step + 1 :]
    assert [line for line in before if line.startswith("USER ")] == ["USER 10001:10001"]
    assert any(line.startswith("ENV NUMBA_CACHE_DIR=/var/cache/vmfa") for line in before)
    assert "VOLUME /var/cache/vmfa" in after  # what is written to a volume later is not in the image
    assert not [line for line in after if line.startswith(("USER", "RUN", "COPY"))]
    arguments = dict(re.findall(r"^ARG (\w+)=\"?([^\"\n]*)", "\n".join(before), re.MULTILINE))
    words = shlex.split(lines[step].replace("${KERNELS}", arguments["KERNELS"]))[3:]
    with warm_up.make_context("warm-up", words) as context:
        assert context.params["dtype"] == ("float32", "uint8")


@pytest.mark.parametrize("name", [name for name, command in commands().items() if "dask" in command[:1]])
def test_commands_of_dask_have_the_options_that_are_used(name: str) -> None:
    words = commands()[name]
    parameters = {"scheduler": scheduler, "worker": worker}[words[1]].params
    known = {option for parameter in parameters for option in (*parameter.opts, *parameter.secondary_opts)}
    used = {word.partition("=")[0] for word in words if word.startswith("--")}
    assert used
    assert used <= known


@pytest.mark.parametrize("name", [name for name, command in commands().items() if "vmfa-dask" in command])
def test_fits_have_the_options_that_are_used(name: str) -> None:
    words = commands()[name]
    assert words[:2] == ["vmfa-dask", "fit"]
    with fit.make_context("fit", words[2:]) as context:
        assert context.params["scheduler"].startswith("tls://")
        assert context.params["run"].startswith("s3://")
        assert context.params["overwrite"]  # of a run that was finished before


def test_only_the_dashboard_is_published_and_on_loopback() -> None:
    published = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert published == ["127.0.0.1:8787:8787"]


@pytest.mark.parametrize("name", OF_DASK)
def test_processes_of_dask_use_tls_and_have_limits(name: str) -> None:
    service = SERVICES[name]
    assert service["environment"]["DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION"] == "true"
    assert "tls:/etc/vmfa/tls:ro" in service["volumes"]
    assert set(service["deploy"]["resources"]["limits"]) == {"cpus", "memory"}
    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]
    assert "tcp://" not in shlex.join(service["command"])


def test_a_worker_has_a_thread_for_each_core_of_its_limit() -> None:
    command = SERVICES["worker"]["command"]
    assert command[command.index("--nthreads") + 1] == SERVICES["worker"]["deploy"]["resources"]["limits"]["cpus"]
    assert command[command.index("--nworkers") + 1] == "1"


def test_credentials_come_from_outside() -> None:
    text = (FOLDER / "compose.yaml").read_text()
    for name in ("accessKey", "secretKey", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        (value,) = re.findall(rf'"?{name}"?: "?([^",}}]+}})', text)
        assert value.startswith("${VMFA_S3_")
    assert "deploy/docker/.env" in (ROOT / ".gitignore").read_text().splitlines()
