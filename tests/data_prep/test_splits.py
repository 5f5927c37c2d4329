"""Test splits by hash: a sample's side follows from its name and the seed alone."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import zarr

from tests.commands import prepare_images
from tests.data_prep.image_files import encoded, noise, write_folder, write_tar
from vmfa_dask.data_prep.image_store import SKIPPED_FILE
from vmfa_dask.data_prep.images_to_zarr import images_to_zarr
from vmfa_dask.data_prep.splits import TEST, HashSplit

FILES = {f"a/{seed}.png": encoded(noise(seed)) for seed in range(60)}


def sides(store: Path) -> dict[str, set[bytes]]:
    """Images per array."""
    group = zarr.open_group(store, mode="r")
    return {name: {np.asarray(row).tobytes() for row in group[name][:]} for name in ("train", "test")}  # type: ignore[index,union-attr]


def test_the_share_is_met_and_seeds_draw_other_samples() -> None:
    keys = [f"{k:06d}.jpg" for k in range(20_000)]
    first, second = ({key for key in keys if HashSplit(0.05, seed).side(key) == TEST} for seed in (0, 1))
    for drawn in (first, second):
        assert abs(len(drawn) - 1000) < 5 * (20_000 * 0.05 * 0.95) ** 0.5
    assert abs(len(first & second) - 50) < 5 * 50**0.5


def test_rows_are_drawn_alike_in_any_ranges() -> None:
    split = HashSplit(0.1, 3)
    whole = split.are_tests("x.npy", 0, 50_000)
    assert abs(whole.sum() - 5000) < 5 * (50_000 * 0.1 * 0.9) ** 0.5
    parts = [split.are_tests("x.npy", start, start + 12_500) for start in range(0, 50_000, 12_500)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    other = split.are_tests("y.npy", 0, 50_000)
    assert abs((whole & other).sum() - 500) < 5 * 500**0.5


def test_an_image_keeps_its_side_whatever_the_sources_are(tmp_path: Path) -> None:
    names = sorted(FILES)
    parts = [{name: FILES[name] for name in names[:25]}, {name: FILES[name] for name in names[25:]}]
    archives = [write_tar(tmp_path / f"{k}.tar", part) for k, part in enumerate(parts)]
    dotted = write_tar(tmp_path / "dotted.tar", {f"./{name}": content for name, content in FILES.items()})
    folder = write_folder(tmp_path / "folder", FILES)
    cases = {"forward": archives, "backward": archives[::-1], "folder": [folder], "dotted": [dotted]}
    for name, sources in cases.items():
        report = images_to_zarr(sources, tmp_path / f"{name}.zarr", test_share=0.25, seed=1)
        assert sum(report.rows.values()) == report.written == 60
        assert 0 < report.rows["test"] < 30
    found = [sides(tmp_path / f"{name}.zarr") for name in cases]
    assert all(other == found[0] for other in found)
    assert found[0]["train"].isdisjoint(found[0]["test"])


def test_a_group_describes_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    archive = write_tar(tmp_path / "a.tar", FILES | {"notes.txt": b"text"})
    assert prepare_images([str(archive), str(tmp_path / "x.zarr"), "--test-share", "0.25", "--seed", "1"]) == 0
    group = zarr.open_group(tmp_path / "x.zarr", mode="r")
    assert sorted(name for name, _ in group.arrays()) == ["test", "train"]
    train, test = group["train"], group["test"]
    assert isinstance(train, zarr.Array)
    assert isinstance(test, zarr.Array)
    assert train.metadata.dimension_names == ("sample", "height", "width", "channel")  # type: ignore[union-attr]
    assert dict(group.attrs) == {"sources": [{"name": "a.tar", "written": 60, "skipped": 1}], "skipped": 1}
    out = capsys.readouterr().out
    assert out == f"60 images written ({train.shape[0]} train, {test.shape[0]} test), 1 skipped\n"
    lines = (tmp_path / "x.zarr/train" / SKIPPED_FILE).read_text().splitlines()
    assert [json.loads(line)["name"] for line in lines] == ["a.tar/notes.txt"]


@pytest.mark.parametrize(("share", "seed", "name"), [(0.0, 0, "test_share"), (1.0, 0, "test_share"), (0.5, -1, "seed")])
def test_values_out_of_range_are_named(tmp_path: Path, share: float, seed: int, name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be"):
        images_to_zarr([tmp_path], tmp_path / "x.zarr", test_share=share, seed=seed)
