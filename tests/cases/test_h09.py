"""H09: damage of any kind in own files is told in one line that names the file; nothing damaged is taken for whole."""

from __future__ import annotations

import logging
import os
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.samples import draw, make_mixture, parameters
from vmfa_dask import MixtureModel, fit_local
from vmfa_dask.service.detached import DetachedRun
from vmfa_dask.store.scratch import in_scratch, scratch_folder

ROWS = draw(make_mixture(3, 5, 2), 90, dtype="float32")
OPTIONS: dict[str, Any] = {
    "n_components": 3, "n_factors": 2, "n_groups": 2, "max_warmup_iter": 1, "tol": 0.0, "warmup_tol": 0.0,
}  # fmt: skip
TEXTS: dict[str, bytes] = {
    "nothing": b"",
    "no JSON": b"{,}",
    "no object": b"[1, 2]",
    "null": b"null",
    "a number": b"1e999",
    "a long number": b"1" * 10_000,
    "no UTF-8": b'{"a": "\xff\xfe"}',
    "UTF-16": '{"zarr_format": 3}'.encode("utf-16"),
    "a mark of order": b"\xef\xbb\xbf{}",
    "zeros": bytes(100),
    "nested lists": b"[" * 200_000,
    "closed lists": b"[" * 900 + b"]" * 900,
    "closed objects": b'{"a":' * 900 + b"1" + b"}" * 900,
    "an empty object": b"{}",
}
FILES = ["model/zarr.json", "model/means/zarr.json", "run/run.json", "run/state.json", "run/data.json",
         "run/versions/zarr.json", "run/versions/graph/zarr.json", "run/versions/graph/*/00000/zarr.json",
         "run/versions/graph/*/00000/neighbors/zarr.json"]  # fmt: skip


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run and its model."""
    folder = tmp_path_factory.mktemp("kept")
    fit_local(ROWS, **OPTIONS, max_iter=2, run=str(folder / "run")).model.save(folder / "model")
    return folder


def outcome(folder: Path, kind: str) -> tuple[bytes, list[float]]:
    """Everything that a model or a run that goes on gives."""
    if kind == "model":
        return parameters(MixtureModel.load(folder / "model")), []
    fit = fit_local(ROWS, **OPTIONS, max_iter=3, run=str(folder / "run"), resume="require")
    return parameters(fit.model), [record.free_energy for record in fit.history]


@pytest.mark.parametrize("text", TEXTS.values(), ids=list(TEXTS))
@pytest.mark.parametrize("name", FILES)
def test_metadata_that_is_none_is_named(kept: Path, tmp_path: Path, name: str, text: bytes) -> None:
    folder = shutil.copytree(kept, tmp_path / "here")
    path = sorted(folder.glob(name))[-1]
    path.write_bytes(text)
    with pytest.raises(ValueError) as found:  # noqa: PT011 (the words are compared)
        outcome(folder, name.partition("/")[0])
    assert "\n" not in str(found.value)
    node = path.parent if path.parent.name in ("means", "neighbors") else path
    assert str(node.parent if node is not path else node) in str(found.value)
    assert node.name in str(found.value)


@pytest.mark.parametrize("text", TEXTS.values(), ids=list(TEXTS))
def test_records_of_a_damaged_state_are_refused_by_name(kept: Path, tmp_path: Path, text: bytes) -> None:
    folder = shutil.copytree(kept, tmp_path / "here")
    (folder / "run" / "state.json").write_bytes(text)
    with pytest.raises(ValueError, match=re.escape(f"{folder / 'run' / 'state.json'}: ")):
        DetachedRun(str(folder / "run"), None, None).records()  # type: ignore[arg-type]  # nobody is asked


def a_pipe(mark: Path) -> None:
    os.mkfifo(mark)


def a_folder(mark: Path) -> None:
    mark.mkdir()


def a_loop(mark: Path) -> None:
    mark.symlink_to(mark)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("mark", [*TEXTS.values(), a_pipe, a_folder, a_loop])
def test_marks_of_temporary_folders_that_are_none_count_as_none(
    tmp_path: Path, mark: bytes | Callable[[Path], None]
) -> None:
    folder = tmp_path / "vmfa-rows-x"
    folder.mkdir()
    if isinstance(mark, bytes):
        (folder / "scratch.json").write_bytes(mark)
    else:
        mark(folder / "scratch.json")
    assert not in_scratch(str(folder / "x.zarr"))
    with scratch_folder("rows", str(tmp_path)) as made:
        assert in_scratch(f"{made}/x.zarr")
    assert folder.exists()


def test_folders_of_strangers_among_the_versions_stay(kept: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(kept, tmp_path / "here")
    (folder / "run" / "versions" / "graph" / "notes").mkdir()
    assert outcome(folder, "run") == outcome(shutil.copytree(kept, tmp_path / "clean"), "run")
    assert (folder / "run" / "versions" / "graph" / "notes").exists()


def damaged(content: bytes, draws: random.Random) -> bytes:
    """The same bytes with a bit flipped, cut, longer, or with brackets among them."""
    place = draws.randrange(max(1, len(content)))
    how = draws.choice(["flip", "flip", "byte", "cut", "longer", "nested"])
    if how in ("flip", "byte") and content:
        new = content[place] ^ (1 << draws.randrange(8)) if how == "flip" else draws.randrange(256)
        return content[:place] + bytes([new]) + content[place + 1 :]
    if how == "cut":
        return content[:place]
    more = b"[" * draws.choice([1, 200, 100_000]) if how == "nested" else draws.choice([b"\n", b"x", bytes(8), b"}"])
    return content[:place] + more + content[place:] if how == "nested" else content + more


@pytest.mark.parametrize(("kind", "n"), [("model", 150), ("run", 25)])
def test_any_damage_is_refused_by_name_or_does_no_harm(kept: Path, tmp_path: Path, kind: str, n: int) -> None:
    logging.getLogger("vmfa_dask").setLevel(logging.CRITICAL)
    draws, unclear, refused = random.Random(5), list[str](), 0
    files = [path for path in sorted((kept / kind).rglob("*")) if path.is_file() and path.suffix != ".lock"]
    expected = outcome(shutil.copytree(kept, tmp_path / "clean"), kind)
    folder = tmp_path / "here"
    for _ in range(n):
        path = draws.choice(files)
        shutil.copytree(kept / kind, folder / kind)
        what = folder / path.relative_to(kept)
        what.write_bytes(damaged(path.read_bytes(), draws))
        try:
            if outcome(folder, kind) != expected:
                unclear.append(f"{what}: another result")
        except (ValueError, OSError) as error:
            refused += 1
            if str(folder) not in str(error) or "\n" in str(error):
                unclear.append(f"{what}: {type(error).__name__}: {error}")
        except Exception as error:
            unclear.append(f"{what}: {type(error).__name__}: {error}")
        shutil.rmtree(folder)
    logging.getLogger("vmfa_dask").setLevel(logging.NOTSET)
    assert unclear == []
    assert refused > n // 2
