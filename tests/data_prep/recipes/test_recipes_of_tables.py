"""CIFAR-10's binary version, EMNIST and SVHN: rows and labels, what is missing or differs, restarts."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import zarr
from distributed import Client

from tests.commands import prepare
from tests.data_prep.image_files import files_below
from tests.data_prep.recipes.small import expect, random_bytes, stored, write_idx, write_mat, write_records
from tests.data_prep.table_files import disk_full_after
from vmfa_dask.data_prep import shards
from vmfa_dask.data_prep.recipes import cifar10, emnist, svhn
from vmfa_dask.data_prep.recipes.noise import standard_normal


@pytest.fixture
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shards of eight images of 3,072 bytes."""
    monkeypatch.setattr(shards, "CHUNK_BYTES", 2 * 3072)
    monkeypatch.setattr(shards, "CHUNKS_PER_SHARD", 4)


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Six files of seven images."""
    monkeypatch.setattr(cifar10, "RECORDS_PER_FILE", 7)
    expect(monkeypatch, "cifar10", 35, 7)
    folder = tmp_path / "in/cifar-10-batches-bin"
    folder.mkdir(parents=True)
    for k, name in enumerate((*cifar10.FILES["train"], "test_batch.bin")):
        write_records(folder / name, random_bytes(k, 7, 32, 32, 3), random_bytes(k, 7, below=10))
    return folder


@pytest.mark.usefixtures("small_shards")
def test_cifar10_of_records(tmp_path: Path, records: Path, in_process: Client) -> None:
    assert cifar10.prepare([records.parent], tmp_path / "x.zarr") == {"train": 35, "test": 7}
    images = np.concatenate([random_bytes(k, 7, 32, 32, 3) for k in range(5)])
    np.testing.assert_array_equal(stored(tmp_path / "x.zarr", "train"), images)
    np.testing.assert_array_equal(stored(tmp_path / "x.zarr", "test"), random_bytes(5, 7, 32, 32, 3))
    labels = np.concatenate([random_bytes(k, 7, below=10) for k in range(5)])
    np.testing.assert_array_equal(stored(tmp_path / "x.zarr", "train_labels"), labels)
    np.testing.assert_array_equal(stored(tmp_path / "x.zarr", "test_labels"), random_bytes(5, 7, below=10))
    train = zarr.open_array(tmp_path / "x.zarr/train", mode="r")
    assert (train.chunks, train.shards) == ((2, 32, 32, 3), (8, 32, 32, 3))
    assert train.metadata.dimension_names == ("sample", "height", "width", "channel")  # type: ignore[union-attr]
    cifar10.prepare([records], tmp_path / "y.zarr", client=in_process)
    assert files_below(tmp_path / "y.zarr") == files_below(tmp_path / "x.zarr")


def test_cifar10_names_what_is_missing_or_differs(tmp_path: Path, records: Path) -> None:
    (records / "data_batch_3.bin").unlink()
    write_records(records / "data_batch_5.bin", random_bytes(0, 4, 32, 32, 3), random_bytes(0, 4, below=10))
    message = r"cifar10: data_batch_3.bin is missing; data_batch_5.bin holds 4 images, expected 7. Choose partial"
    with pytest.raises(ValueError, match=message):
        cifar10.prepare([records], tmp_path / "x.zarr")
    assert cifar10.prepare([records], tmp_path / "x.zarr", partial=True) == {"train": 25, "test": 7}
    (records / "data_batch_5.bin").write_bytes(b"0" * 3000)
    with pytest.raises(ValueError, match=r"data_batch_5.bin has 3,000 bytes, expected a multiple of 3,073"):
        cifar10.prepare([records], tmp_path / "y.zarr", partial=True)
    with pytest.raises(ValueError, match=r"cifar10: nothing of it in .*expected data_batch_1.bin, .*train-\*.tar"):
        cifar10.prepare([tmp_path], tmp_path / "y.zarr")
    with pytest.raises(FileNotFoundError, match="nowhere does not exist"):
        cifar10.prepare([tmp_path / "nowhere"], tmp_path / "y.zarr")
    with pytest.raises(FileExistsError, match=r"x\.zarr exists"):
        cifar10.prepare([records], tmp_path / "x.zarr")


def test_labels_that_are_none_are_named(tmp_path: Path, records: Path) -> None:
    write_records(
        records / "data_batch_2.bin", random_bytes(0, 7, 32, 32, 3), np.array([1, 2, 3, 77, 5, 6, 7], np.uint8)
    )
    with pytest.raises(ValueError, match=r"data_batch_2.bin: image 3 has the label 77, expected 0 to 9"):
        cifar10.prepare([records], tmp_path / "x.zarr")


@pytest.mark.usefixtures("small_shards")
def test_a_recipe_goes_on(tmp_path: Path, records: Path) -> None:
    with disk_full_after(3) as first, pytest.raises(OSError, match="the disk is full"):
        cifar10.prepare([records], tmp_path / "x.zarr", workers=1)
    with disk_full_after(1000) as later:
        cifar10.prepare([records], tmp_path / "x.zarr")
    assert len(first) == 3
    assert {(shard.path, shard.start) for shard in first}.isdisjoint((shard.path, shard.start) for shard in later)
    cifar10.prepare([records], tmp_path / "y.zarr")
    assert files_below(tmp_path / "x.zarr") == files_below(tmp_path / "y.zarr")


@pytest.fixture
def digits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """EMNIST of 30 and 9 images; test files are compressed."""
    expect(monkeypatch, "emnist", 30, 9)
    for k, (side, n, end) in enumerate((("train", 30, ""), ("test", 9, ".gz"))):
        folder = tmp_path / "in"
        folder.mkdir(exist_ok=True)
        write_idx(folder / f"emnist-byclass-{side}-images-idx3-ubyte{end}", random_bytes(k, n, 28, 28))
        write_idx(folder / f"emnist-byclass-{side}-labels-idx1-ubyte{end}", random_bytes(k, n, below=62))
    return tmp_path / "in"


def test_emnist_without_noise_holds_upright_images(tmp_path: Path, digits: Path) -> None:
    assert emnist.prepare([digits], tmp_path / "x.zarr", noise=0) == {"train": 30, "test": 9}
    for k, (side, n) in enumerate((("train", 30), ("test", 9))):
        images = stored(tmp_path / "x.zarr", side)
        assert images.dtype == np.float32
        np.testing.assert_array_equal(images, random_bytes(k, n, 28, 28).transpose(0, 2, 1)[..., None])
        np.testing.assert_array_equal(stored(tmp_path / "x.zarr", f"{side}_labels"), random_bytes(k, n, below=62))


def test_noise_of_emnist_does_not_depend_on_workers_and_shards(
    tmp_path: Path, digits: Path, in_process: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    emnist.prepare([digits], tmp_path / "x.zarr", seed=3)
    monkeypatch.setattr(shards, "CHUNK_BYTES", 3 * 28 * 28 * 4)
    monkeypatch.setattr(shards, "CHUNKS_PER_SHARD", 1)
    emnist.prepare([digits], tmp_path / "y.zarr", seed=3, client=in_process)
    emnist.prepare([digits], tmp_path / "z.zarr", seed=4)
    for k, (side, n) in enumerate((("train", 30), ("test", 9))):
        images = stored(tmp_path / "x.zarr", side)
        np.testing.assert_array_equal(stored(tmp_path / "y.zarr", side), images)
        assert (stored(tmp_path / "z.zarr", side) != images).mean() > 0.99
        noise = images - random_bytes(k, n, 28, 28).transpose(0, 2, 1)[..., None]
        assert abs(noise.mean()) < 0.05
        assert abs(noise.std() - 1) < 0.05


def test_noise_is_normal_and_independent() -> None:
    noise = standard_normal(1, 0, range(2000), 49)
    assert abs(noise.mean()) < 0.02
    assert abs((noise**2).mean() - 1) < 0.03
    assert abs((noise**4).mean() - 3) < 0.2
    assert np.abs(np.corrcoef(noise.T) - np.eye(49)).max() < 0.12
    np.testing.assert_array_equal(standard_normal(1, 0, range(700, 900), 49), noise[700:900])
    assert abs(np.corrcoef(noise.ravel(), standard_normal(1, 1, range(2000), 49).ravel())[0, 1]) < 0.02


def test_emnist_names_what_is_missing_damaged_or_differs(
    tmp_path: Path, digits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "x.zarr"
    expect(monkeypatch, "emnist", 31, 9)
    with pytest.raises(ValueError, match=r"emnist: 30 train images, expected 31 as in the paper. Choose partial"):
        emnist.prepare([digits], target)
    images = digits / "emnist-byclass-train-images-idx3-ubyte"
    content = images.read_bytes()
    images.write_bytes(content[:-1])
    with pytest.raises(ValueError, match=r"train-images-idx3-ubyte has 23,535 bytes, expected 23,536 from its header"):
        emnist.prepare([digits], target)
    images.write_bytes(b"no idx file at all")
    with pytest.raises(ValueError, match=r"begins with 6e6f2069, expected 00000803 as in idx files"):
        emnist.prepare([digits], target)
    write_idx(images, random_bytes(0, 30, 28, 27))
    with pytest.raises(ValueError, match=r"holds images of \(28, 27\) pixels, expected \(28, 28\)"):
        emnist.prepare([digits], target)
    write_idx(images, random_bytes(0, 29, 28, 28))
    with pytest.raises(ValueError, match=r"holds 30 labels, .* 29 images"):
        emnist.prepare([digits], target)
    images.write_bytes(content)
    packed = digits / "emnist-byclass-test-images-idx3-ubyte.gz"
    packed.write_bytes(packed.read_bytes()[:-2000])
    with pytest.raises(ValueError, match=r"test-images-idx3-ubyte.gz is damaged"):
        emnist.prepare([digits], target, partial=True)
    images.unlink()
    packed.unlink()
    message = r"emnist: not in .*: emnist-byclass-train-images-idx3-ubyte or .*gz; emnist-byclass-test-images"
    with pytest.raises(ValueError, match=message):
        emnist.prepare([digits], target, partial=True)
    for name, value in (("noise", -1.0), ("noise", float("nan")), ("seed", -1)):
        with pytest.raises(ValueError, match=f"{name} must be"):
            emnist.prepare([digits], target, **{name: value})


@pytest.fixture
def house_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """SVHN of 11 + 14 and 6 images."""
    expect(monkeypatch, "svhn", 25, 6)
    monkeypatch.setattr(svhn, "_ROWS_AT_A_TIME", 4)
    (tmp_path / "in").mkdir()
    for k, (name, n) in enumerate((("train", 11), ("extra", 14), ("test", 6))):
        labels = 1 + random_bytes(k, n, below=10)
        write_mat(tmp_path / f"in/{name}_32x32.mat", random_bytes(k, n, 32, 32, 3), labels)
    return tmp_path / "in"


@pytest.mark.usefixtures("small_shards")
def test_svhn_merges_train_and_extra(tmp_path: Path, house_numbers: Path, in_process: Client) -> None:
    assert svhn.prepare([house_numbers], tmp_path / "x.zarr") == {"train": 25, "test": 6}
    images = [random_bytes(k, n, 32, 32, 3) for k, n in enumerate((11, 14, 6))]
    labels = [(1 + random_bytes(k, n, below=10)) % 10 for k, n in enumerate((11, 14, 6))]
    np.testing.assert_array_equal(stored(tmp_path / "x.zarr", "train"), np.concatenate(images[:2]))
    np.testing.assert_array_equal(stored(tmp_path / "x.zarr", "test"), images[2])
    np.testing.assert_array_equal(stored(tmp_path / "x.zarr", "train_labels"), np.concatenate(labels[:2]))
    np.testing.assert_array_equal(stored(tmp_path / "x.zarr", "test_labels"), labels[2])
    svhn.prepare([house_numbers], tmp_path / "y.zarr", client=in_process)
    assert files_below(tmp_path / "y.zarr") == files_below(tmp_path / "x.zarr")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "x.zarr", "y.zarr"]


def test_svhn_unpacks_a_file_once(tmp_path: Path, house_numbers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(svhn, "write_store", lambda *a, **k: (_ for _ in ()).throw(OSError("the disk is full")))
        with pytest.raises(OSError, match="the disk is full"):
            svhn.prepare([house_numbers], tmp_path / "x.zarr")
    monkeypatch.setattr(svhn, "_load", lambda *a: pytest.fail("unpacked again"))
    assert svhn.prepare([house_numbers], tmp_path / "x.zarr") == {"train": 25, "test": 6}
    np.testing.assert_array_equal(stored(tmp_path / "x.zarr", "test"), random_bytes(2, 6, 32, 32, 3))


def test_svhn_names_what_is_missing_damaged_or_differs(
    tmp_path: Path, house_numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "x.zarr"
    (house_numbers / "extra_32x32.mat").unlink()
    with pytest.raises(ValueError, match=r"svhn: extra_32x32.mat is missing. Choose partial"):
        svhn.prepare([house_numbers], target)
    assert svhn.prepare([house_numbers], target, partial=True) == {"train": 11, "test": 6}
    write_mat(house_numbers / "extra_32x32.mat", random_bytes(0, 3, 32, 31, 3), np.ones(3, np.uint8))
    with pytest.raises(ValueError, match=r"extra_32x32.mat holds .*, expected X of \(32, 32, 3, N\) uint8"):
        svhn.prepare([house_numbers], tmp_path / "y.zarr")
    (house_numbers / "extra_32x32.mat").write_bytes(b"no file of MATLAB" * 20)
    with pytest.raises(ValueError, match=r"extra_32x32.mat cannot be read as a MATLAB file"):
        svhn.prepare([house_numbers], tmp_path / "y.zarr")
    write_mat(house_numbers / "extra_32x32.mat", random_bytes(0, 14, 32, 32, 3), np.full(14, 11, np.uint8))
    with pytest.raises(ValueError, match=r"extra_32x32.mat has labels from 11 to 11, expected 1 to 10"):
        svhn.prepare([house_numbers], tmp_path / "y.zarr")
    monkeypatch.setitem(sys.modules, "scipy.io", None)
    with pytest.raises(ImportError, match=r"SVHN needs SciPy: pip install '.\[recipes\]'"):
        svhn.prepare([house_numbers], tmp_path / "z.zarr")


def test_the_command(tmp_path: Path, house_numbers: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (house_numbers / "extra_32x32.mat").unlink()
    command = [str(house_numbers), str(tmp_path / "x.zarr")]
    assert prepare("svhn", command) == 1
    assert capsys.readouterr().err.startswith("error: svhn: extra_32x32.mat is missing")
    assert prepare("svhn", [*command, "--partial"]) == 0
    assert capsys.readouterr().out == "train: 11 images, 25 in the paper\ntest: 6 images, 6 in the paper\n"
