"""Calls that are killed go on, to the bytes of an undisturbed call; a cluster writes the bytes that threads write."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from distributed import Client

from tests.commands import prepare_images
from tests.data_prep.image_files import encoded, files_below, noise, write_folder, write_tar
from vmfa_dask.data_prep import image_archives, image_parts, image_sources, image_store, shards
from vmfa_dask.data_prep.images_to_zarr import images_to_zarr

ROOT = Path(__file__).parents[2]
OPTIONS: dict[str, Any] = {"rows_per_chunk": 2, "test_share": 0.3, "seed": 5}

KILLED = """
import os, signal, sys
from vmfa_dask.data_prep import image_archives, image_parts, image_sources, shards
from vmfa_dask.data_prep.images_to_zarr import images_to_zarr

image_sources.FILES_PER_PART, image_archives.MEMBERS_PER_PART, image_parts.BATCH_ENTRIES = 7, 8, 1
shards.CHUNKS_PER_SHARD = 2
module, name = {"decode": (image_parts, "decode"), "write": (shards, "write_shard")}[sys.argv[1]]
real, left = getattr(module, name), int(sys.argv[2])


def deadly(*arguments):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*arguments)


setattr(module, name, deadly)
images_to_zarr(sys.argv[4:], sys.argv[3], rows_per_chunk=2, test_share=0.3, seed=5, workers=1)
"""


@pytest.fixture
def sources(tmp_path: Path) -> list[Path]:
    """Two archives and a folder of three parts, 50 images, and two files that are none."""
    files = {f"{i:02d}.png": encoded(noise(i)) for i in range(50)} | {"15.txt": b"text", "30.txt": b"text"}
    names = sorted(files)
    folder = write_folder(tmp_path / "in/folder", {name: files[name] for name in names[20:40]})
    first = write_tar(tmp_path / "in/a.tar", {name: files[name] for name in names[:20]})
    return [first, folder, write_tar(tmp_path / "in/b.tar.gz", {name: files[name] for name in names[40:]}, "w:gz")]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of seven files, decoded one by one, and shards of two chunks."""
    monkeypatch.setattr(image_sources, "FILES_PER_PART", 7)
    monkeypatch.setattr(image_archives, "MEMBERS_PER_PART", 8)
    monkeypatch.setattr(image_parts, "BATCH_ENTRIES", 1)
    monkeypatch.setattr(shards, "CHUNKS_PER_SHARD", 2)


def kill(step: str, after: int, target: Path, sources: list[Path]) -> None:
    command = [sys.executable, "-c", KILLED, step, str(after), str(target), *map(str, sources)]
    done = subprocess.run(command, timeout=60, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True)
    assert done.returncode == -9, done.stderr.decode()
    assert not target.exists()


def counted(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> list[Any]:
    """First arguments of the calls of a function from now on."""
    calls: list[Any] = []
    real = getattr(module, name)
    monkeypatch.setattr(module, name, lambda *a: (calls.append(a[0]), real(*a))[1])
    return calls


def test_a_call_that_was_killed_while_it_decoded_goes_on(
    tmp_path: Path, sources: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = images_to_zarr(sources, tmp_path / "whole.zarr", **OPTIONS)
    assert (expected.written, expected.n_skipped) == (50, 2)
    kill("decode", 33, tmp_path / "x.zarr", sources)  # the archive of 20 and the first 7 of the folder are done
    assert list((tmp_path / "x.zarr.partial/parts").glob("*.tmp"))
    decoded = counted(monkeypatch, image_parts, "decode")
    assert images_to_zarr(sources, tmp_path / "x.zarr", workers=1, **OPTIONS) == expected
    assert len(decoded) == 52 - 27
    assert files_below(tmp_path / "x.zarr") == files_below(tmp_path / "whole.zarr")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "whole.zarr", "x.zarr"]


def test_a_call_that_was_killed_while_it_wrote_shards_goes_on(
    tmp_path: Path, sources: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    images_to_zarr(sources, tmp_path / "whole.zarr", **OPTIONS)
    kill("write", 4, tmp_path / "x.zarr", sources)
    decoded, written = (counted(monkeypatch, image_parts, "decode"), counted(monkeypatch, shards, "write_shard"))
    images_to_zarr(sources, tmp_path / "x.zarr", workers=1, **OPTIONS)
    n_shards = sum(name.count("/c/") for name in files_below(tmp_path / "x.zarr"))
    assert (len(decoded), len(written)) == (0, n_shards - 4)
    assert files_below(tmp_path / "x.zarr") == files_below(tmp_path / "whole.zarr")


def test_a_part_whose_rows_were_lost_is_decoded_again(
    tmp_path: Path, sources: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    images_to_zarr(sources, tmp_path / "whole.zarr", **OPTIONS)
    kill("write", 0, tmp_path / "x.zarr", sources)
    (tmp_path / "x.zarr.partial/parts/0000001.train.rows").write_bytes(b"cut")
    decoded = counted(monkeypatch, image_parts, "decode")
    images_to_zarr(sources, tmp_path / "x.zarr", workers=1, **OPTIONS)
    assert len(decoded) == 8
    assert files_below(tmp_path / "x.zarr") == files_below(tmp_path / "whole.zarr")


ORPHANED = """
import sys, threading
from vmfa_dask.data_prep import image_parts
from vmfa_dask.data_prep.images_to_zarr import images_to_zarr

image_parts.BATCH_ENTRIES = 1
image_parts._Files.publish = lambda self: (print("decoded", flush=True), threading.Event().wait())
images_to_zarr(sys.argv[2:], sys.argv[1], workers=2)
"""


def test_processes_end_with_a_call_that_was_killed(tmp_path: Path, sources: list[Path]) -> None:
    command = [sys.executable, "-c", ORPHANED, str(tmp_path / "x.zarr"), *map(str, sources)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as call:
        try:
            assert call.stdout is not None
            assert call.stdout.readline() == b"decoded\n"
            children = psutil.Process(call.pid).children()
            assert len(children) >= 2
        finally:
            call.kill()
    _, alive = psutil.wait_procs(children, timeout=20)
    assert alive == []


@pytest.mark.parametrize("change", ["option", "seed", "source", "content", "order"])
def test_a_partial_store_of_another_call_is_refused(tmp_path: Path, sources: list[Path], change: str) -> None:
    kill("write", 0, tmp_path / "x.zarr", sources)
    options = OPTIONS | {"option": {"channels": 1}, "seed": {"seed": 6}}.get(change, {})
    if change == "content":
        write_tar(sources[0], {"0.png": encoded(noise(0))})
    if change == "source":
        (sources[1] / "new.png").write_bytes(encoded(noise(99)))
    others = sources[::-1] if change == "order" else sources
    with pytest.raises(ValueError, match=r"x\.zarr\.partial was begun from other sources or options; remove it"):
        images_to_zarr(others, tmp_path / "x.zarr", **options)


def test_what_lies_where_the_partial_store_would_is_kept(tmp_path: Path, sources: list[Path]) -> None:
    write_folder(tmp_path / "x.zarr.partial", {"thesis.tex": b"text"})
    with pytest.raises(ValueError, match=r"x\.zarr\.partial is in the way and was not made by this command"):
        images_to_zarr(sources, tmp_path / "x.zarr")
    assert (tmp_path / "x.zarr.partial/thesis.tex").read_bytes() == b"text"


def test_a_damaged_archive_is_named_and_what_was_decoded_is_kept(
    tmp_path: Path, sources: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    content = bytearray(sources[2].read_bytes())
    whole = bytes(content)
    content[len(content) // 2] ^= 255
    status = sources[2].stat()
    sources[2].write_bytes(content)
    os.utime(sources[2], ns=(status.st_mtime_ns, status.st_mtime_ns))
    with pytest.raises(ValueError, match=r"b\.tar\.gz is damaged"):
        images_to_zarr(sources, tmp_path / "x.zarr", **OPTIONS)
    assert not (tmp_path / "x.zarr").exists()
    sources[2].write_bytes(whole)
    os.utime(sources[2], ns=(status.st_mtime_ns, status.st_mtime_ns))
    decoded = counted(monkeypatch, image_parts, "decode")
    assert images_to_zarr(sources, tmp_path / "x.zarr", workers=1, **OPTIONS).written == 50
    assert len(decoded) == 12


def test_a_call_that_was_killed_as_it_began_goes_on(tmp_path: Path, sources: list[Path]) -> None:
    write_folder(tmp_path / "x.zarr.partial", {"plan.json.tmp": b"{"})
    assert images_to_zarr(sources, tmp_path / "x.zarr").written == 50


def test_workers_that_write_elsewhere_are_noticed(
    tmp_path: Path, sources: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_store, "VISIBLE_SECONDS", 0)
    monkeypatch.setattr(image_store, "write_part", lambda part, *_: (part.number, image_parts.Record({"": 1})))
    with pytest.raises(ValueError, match=r"part 0 was decoded but is not in .*parts: workers must see this folder"):
        images_to_zarr(sources, tmp_path / "x.zarr", workers=1)


def test_a_cluster_writes_the_bytes_that_threads_write(
    tmp_path: Path, sources: list[Path], in_process: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = images_to_zarr(sources, tmp_path / "threads.zarr", **OPTIONS)
    from vmfa_dask.data_prep import tasks

    monkeypatch.setattr(tasks, "TASKS_IN_FLIGHT", 2)
    assert images_to_zarr(sources, tmp_path / "cluster.zarr", client=in_process, **OPTIONS) == expected
    assert files_below(tmp_path / "cluster.zarr") == files_below(tmp_path / "threads.zarr")
    for workers in (1, 3):
        images_to_zarr(sources, tmp_path / f"{workers}.zarr", workers=workers, **OPTIONS)
        assert files_below(tmp_path / f"{workers}.zarr") == files_below(tmp_path / "threads.zarr")


def test_a_cluster_goes_on_where_threads_were_killed(
    tmp_path: Path, sources: list[Path], in_process: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    images_to_zarr(sources, tmp_path / "whole.zarr", **OPTIONS)
    kill("write", 2, tmp_path / "x.zarr", sources)
    options = ["--rows-per-chunk", "2", "--test-share", "0.3", "--seed", "5"]
    options += ["--scheduler", in_process.scheduler.address]
    assert prepare_images([*map(str, sources), str(tmp_path / "x.zarr"), *options]) == 0
    assert "50 images written" in capsys.readouterr().out
    assert files_below(tmp_path / "x.zarr") == files_below(tmp_path / "whole.zarr")


def test_an_error_of_a_task_ends_the_call_on_a_cluster(tmp_path: Path, sources: list[Path], in_process: Client) -> None:
    content = sources[2].read_bytes()
    sources[2].write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match=r"b\.tar\.gz is damaged"):
        images_to_zarr(sources, tmp_path / "x.zarr", client=in_process, **OPTIONS)
    assert (tmp_path / "x.zarr.partial/plan.json").is_file()
