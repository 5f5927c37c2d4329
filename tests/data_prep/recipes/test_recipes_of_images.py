"""CIFAR-10 of archives, CelebA and YFCC100M: rows, sides, what is missing or differs, restarts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client

from tests.commands import prepare
from tests.data_prep.image_files import encoded, files_below, noise, write_folder, write_tar, write_zip
from tests.data_prep.recipes.small import expect, stored
from vmfa_dask.data_prep import image_parts, image_sources
from vmfa_dask.data_prep.recipes import celeba, cifar10, yfcc100m
from vmfa_dask.data_prep.splits import HashSplit


def small(seed: int) -> bytes:
    return encoded(noise(seed, 32, 32))


def face(seed: int) -> bytes:
    return encoded(noise(seed, 218, 178))


def shaped(seed: int) -> np.ndarray:
    """What becomes of a face: the mean of 2 x 2 pixels, which may be rounded twice."""
    cut = noise(seed, 218, 178)[50:178, 25:153].astype(float)
    return cut.reshape(64, 2, 64, 2, 3).mean(axis=(1, 3))


@pytest.fixture
def archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """CIFAR-10 of three and two images of each class in turn."""
    expect(monkeypatch, "cifar10", 3, 2)
    (tmp_path / "in").mkdir()
    write_tar(tmp_path / "in/train-0.tar", {"frog/1.png": small(0), "airplane/7.png": small(1)})
    write_tar(tmp_path / "in/train-1.tar", {"./truck/1.png": small(2)})
    write_tar(tmp_path / "in/test-0.tar", {"cat/0.png": small(3), "all/dog/0.png": small(4)})
    return tmp_path / "in"


def test_cifar10_of_archives(tmp_path: Path, archives: Path, in_process: Client) -> None:
    assert cifar10.prepare([archives], tmp_path / "x.zarr") == {"train": 3, "test": 2}
    np.testing.assert_array_equal(stored(tmp_path / "x.zarr", "train"), [noise(k, 32, 32) for k in range(3)])
    np.testing.assert_array_equal(stored(tmp_path / "x.zarr", "test"), [noise(k, 32, 32) for k in (3, 4)])
    np.testing.assert_array_equal(stored(tmp_path / "x.zarr", "train_labels"), [6, 0, 9])
    np.testing.assert_array_equal(stored(tmp_path / "x.zarr", "test_labels"), [3, 5])
    cifar10.prepare(sorted(archives.glob("*.tar")), tmp_path / "y.zarr", client=in_process)
    assert sorted(files_below(tmp_path / "y.zarr")) == sorted(files_below(tmp_path / "x.zarr"))
    np.testing.assert_array_equal(stored(tmp_path / "y.zarr", "test_labels"), [3, 5])


def test_cifar10_of_archives_names_what_differs(tmp_path: Path, archives: Path) -> None:
    write_tar(archives / "train-1.tar", {"truck/1.png": encoded(noise(2, 32, 31))})
    with pytest.raises(ValueError, match=r"cifar10: 2 train images, expected 3 as in the paper"):
        cifar10.prepare([archives], tmp_path / "x.zarr")  # its size shows only when the image is decoded
    assert (tmp_path / "x.zarr.partial").exists()
    assert cifar10.prepare([archives], tmp_path / "x.zarr", partial=True) == {"train": 2, "test": 2}
    (archives / "train-1.tar").unlink()
    with pytest.raises(ValueError, match=r"cifar10: 2 train images, expected 3 as in the paper"):
        cifar10.prepare([archives], tmp_path / "y.zarr")
    assert not (tmp_path / "y.zarr.partial").exists()
    write_tar(archives / "train-1.tar", {"lorry/1.png": small(2)})
    assert cifar10.prepare([archives], tmp_path / "y.zarr", partial=True) == {"train": 2, "test": 2}
    assert "in none of the folders airplane" in (tmp_path / "y.zarr/train/skipped.jsonl").read_text()


@pytest.fixture(params=["folder", "zip"])
def faces(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """CelebA of 3 training, 2 validation and 2 test images."""
    expect(monkeypatch, "celeba", 5, 2)
    monkeypatch.setattr(image_sources, "FILES_PER_PART", 2)
    images = {f"{k:06d}.jpg": face(k) for k in range(7)}
    folder = tmp_path / "in"
    if request.param == "folder":
        write_folder(folder / "img_align_celeba", images)
    else:
        folder.mkdir()
        write_zip(
            folder / "img_align_celeba.zip", {f"img_align_celeba/{name}": image for name, image in images.items()}
        )
    lines = [f"{k:06d}.jpg {side}" for k, side in enumerate((0, 0, 2, 1, 0, 1, 2))]
    write_folder(folder / "Eval", {"list_eval_partition.txt": "\n".join(lines).encode()})
    return folder


def test_celeba_merges_train_and_valid(tmp_path: Path, faces: Path, in_process: Client) -> None:
    assert celeba.prepare([faces], tmp_path / "x.zarr") == {"train": 5, "test": 2}
    for side, seeds in (("train", (0, 1, 3, 4, 5)), ("test", (2, 6))):
        found = stored(tmp_path / "x.zarr", side)
        assert (found.shape[1:], found.dtype) == ((64, 64, 3), np.uint8)
        assert np.abs(found - np.stack([shaped(k) for k in seeds])).max() <= 1
    celeba.prepare([faces], tmp_path / "y.zarr", client=in_process)
    assert files_below(tmp_path / "y.zarr") == files_below(tmp_path / "x.zarr")


def test_celeba_names_what_is_missing_or_differs(tmp_path: Path, faces: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, partition = tmp_path / "x.zarr", faces / "Eval/list_eval_partition.txt"
    content = partition.read_text()
    partition.write_text(content + "\n000007.jpg 0\n000008.jpg 1")
    with pytest.raises(ValueError, match=r"celeba: 7 train images, expected 5 as in the paper"):
        celeba.prepare([faces], target)
    expect(monkeypatch, "celeba", 7, 2)
    with pytest.raises(ValueError, match=r"celeba: 2 images are missing in .*img_align_celeba.*, the first is 000007"):
        celeba.prepare([faces], target)
    assert not list(tmp_path.glob("x.zarr*"))
    assert celeba.prepare([faces], target, partial=True) == {"train": 5, "test": 2}
    partition.write_text("000001.jpg train")
    with pytest.raises(ValueError, match=r"list_eval_partition.txt, line 1: .* expected a file name and 0, 1 or 2"):
        celeba.prepare([faces], tmp_path / "y.zarr")
    partition.write_text("../../../etc/passwd 0")
    with pytest.raises(ValueError, match=r"line 1: .* expected a file name"):
        celeba.prepare([faces], tmp_path / "y.zarr")
    partition.unlink()
    with pytest.raises(ValueError, match=r"celeba: not in .*: list_eval_partition.txt"):
        celeba.prepare([faces], tmp_path / "y.zarr", partial=True)


def test_celeba_of_another_size_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expect(monkeypatch, "celeba", 1, 1)
    images = {f"{k}.jpg": encoded(noise(k, 300, 300)) for k in range(2)}
    write_folder(tmp_path / "in/img_align_celeba", images)
    write_folder(tmp_path / "in", {"list_eval_partition.txt": b"0.jpg 0\n1.jpg 2\n"})
    with pytest.raises(ValueError, match=r"0.jpg has 300 x 300 pixels, expected 178 x 218 as in the aligned"):
        celeba.prepare([tmp_path / "in"], tmp_path / "x.zarr")
    with pytest.raises(ValueError, match=r"crop must be"):
        celeba.prepare([tmp_path / "in"], tmp_path / "x.zarr", crop=(0, 0, 0, 5))


PHOTOS = {f"{k:04d}.png": encoded(noise(k, 40 + k % 5, 36)) for k in range(40)}


def counted(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    calls: list[Any] = []
    real = image_parts.decode
    monkeypatch.setattr(image_parts, "decode", lambda *a: (calls.append(a[0].key), real(*a))[1])
    return calls


def test_yfcc100m_of_archives_ignores_what_lies_beside_images(
    tmp_path: Path, in_process: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for k in range(2):
        beside = {f"{n:04d}.json": b"{}" for n in range(20 * k, 20 * k + 20)}
        chosen = {name: image for name, image in PHOTOS.items() if int(name[:4]) // 20 == k}
        write_tar(folder / f"{k}.tar", beside | chosen | {f"{k}cut.jpg": b"no image"})
    decoded = counted(monkeypatch)
    found = yfcc100m.prepare([folder / "0.tar", folder / "1.tar"], tmp_path / "x.zarr", test_share=0.3)
    assert not [key for key in decoded if key.endswith("json")]
    split = HashSplit(0.3)
    tests = [name for name in sorted(PHOTOS) if split.side(name) == "test"]
    assert found == {"train": 40 - len(tests), "test": len(tests)}
    assert stored(tmp_path / "x.zarr", "test").shape == (len(tests), 32, 32, 3)
    assert len((tmp_path / "x.zarr/train/skipped.jsonl").read_text().splitlines()) == 2
    (folder / "list.txt").write_text("0.tar\n\n1.tar\n")
    yfcc100m.prepare([folder / "list.txt"], tmp_path / "y.zarr", test_share=0.3, client=in_process)
    assert files_below(tmp_path / "y.zarr") == files_below(tmp_path / "x.zarr")


def test_yfcc100m_of_a_list_of_files(tmp_path: Path, in_process: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_sources, "FILES_PER_PART", 7)
    folder = write_folder(tmp_path / "in", PHOTOS)
    (folder / "link.png").symlink_to(folder / "0000.png")
    (folder / "list.txt").write_text("\n".join([*sorted(PHOTOS), "missing.png", "", "link.png", ".", "a\0b.png"]))
    found = yfcc100m.prepare([folder / "list.txt"], tmp_path / "x.zarr", test_share=0.3)
    assert sum(found.values()) == 40
    lines = (tmp_path / "x.zarr/train/skipped.jsonl").read_text().splitlines()
    for line, reason in zip(
        lines,
        ("cannot be found: No such file", "a link", "not a regular file", "cannot be found: embedded null"),
        strict=True,
    ):
        assert reason in line
    yfcc100m.prepare([folder / "list.txt"], tmp_path / "y.zarr", test_share=0.3, client=in_process)
    assert files_below(tmp_path / "y.zarr") == files_below(tmp_path / "x.zarr")
    yfcc100m.prepare([folder], tmp_path / "z.zarr", test_share=0.3)
    np.testing.assert_array_equal(stored(tmp_path / "z.zarr", "test"), stored(tmp_path / "x.zarr", "test"))


def test_yfcc100m_names_lists_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("\n\n")
    with pytest.raises(ValueError, match=r"empty.txt names nothing; expected an archive or an image file per line"):
        yfcc100m.prepare([tmp_path / "empty.txt"], tmp_path / "x.zarr")
    (tmp_path / "mixed.txt").write_text("a.tar\nb.jpg\n")
    with pytest.raises(ValueError, match=r"mixed.txt: 'b.jpg' is no archive like the first line"):
        yfcc100m.prepare([tmp_path / "mixed.txt"], tmp_path / "x.zarr")
    (tmp_path / "gone.txt").write_text("a.tar\n")
    with pytest.raises(FileNotFoundError, match=r"a.tar does not exist"):
        yfcc100m.prepare([tmp_path / "gone.txt"], tmp_path / "x.zarr")


def test_the_commands(tmp_path: Path, archives: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert prepare("cifar10", [str(archives), str(tmp_path / "x.zarr")]) == 0
    assert capsys.readouterr().out == "train: 3 images, 3 in the paper\ntest: 2 images, 2 in the paper\n"
    folder = write_folder(tmp_path / "photos", PHOTOS)
    assert prepare("yfcc100m", [str(folder), str(tmp_path / "y.zarr"), "--test-share", "0.3", "--seed", "2"]) == 0
    assert "94,197,533 in the paper" in capsys.readouterr().out
    assert prepare("celeba", [str(folder), str(tmp_path / "z.zarr"), "--crop", "25", "50", "128", "128"]) == 1
    assert "list_eval_partition.txt; img_align_celeba or img_align_celeba.zip" in capsys.readouterr().err
