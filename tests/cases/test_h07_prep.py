"""H07: headers of archives are bounded before memory is taken for them."""

from __future__ import annotations

import gzip
import lzma
import struct
import tarfile
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.data_prep.image_files import encoded, noise, write_tar
from vmfa_dask.data_prep.images_to_zarr import images_to_zarr

IMAGE = encoded(noise(0))


def header(kind: bytes, n_bytes: int, name: str = "x") -> bytes:
    """Return one block: the header of a record that is said to have so many bytes."""
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, n_bytes
    return info.tobuf(tarfile.GNU_FORMAT)


def member(name: str = "a.png") -> bytes:
    """Return an image as a member."""
    return header(tarfile.REGTYPE, len(IMAGE), name) + IMAGE + bytes(-len(IMAGE) % 512)


def refused(path: Path, content: bytes) -> str:
    """Return the error of an archive that must be refused with little memory."""
    path.write_bytes(content)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=path.name) as found:
            images_to_zarr([path], path.parent / "x.zarr", workers=1)
        assert tracemalloc.get_traced_memory()[1] < 16 * 2**20
    finally:
        tracemalloc.stop()
    assert sorted(p.name for p in path.parent.iterdir()) == [path.name]
    return str(found.value)


KINDS = [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK]


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gzip": lambda content: gzip.compress(content, 1),
    "xz": lambda content: lzma.compress(content, preset=0),
}


@pytest.mark.parametrize("packed", PACKERS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("first", [True, False])
def test_a_record_of_many_bytes(tmp_path: Path, packed: str, kind: bytes, first: bool) -> None:
    n_bytes, pack = 24 * 2**20, PACKERS[packed]
    content = (b"" if first else member()) + header(kind, n_bytes) + bytes(n_bytes) + member()
    path = tmp_path / "a.tar"
    if first:
        assert "described by more than" in refused(path, pack(content))
        return
    path.write_bytes(pack(content))
    with pytest.raises(ValueError, match=r"a\.tar is damaged .*described by more than"):
        images_to_zarr([path], tmp_path / "x.zarr", workers=1)
    assert not (tmp_path / "x.zarr").exists()


@pytest.mark.parametrize("kind", KINDS)
def test_a_record_that_is_said_to_be_huge(tmp_path: Path, kind: bytes) -> None:
    for n_bytes in (2**30, 2**40, 2**62):
        assert "described by more than" in refused(tmp_path / "a.tar", header(kind, n_bytes) + bytes(2048))


def test_maps_of_holes(tmp_path: Path) -> None:
    extended = struct.pack("12s12s", b"0" * 11 + b" ", b"0" * 11 + b" ") * 21 + b"\1" + bytes(7)
    sparse = bytearray(header(tarfile.GNUTYPE_SPARSE, 0))
    sparse[482] = 1
    sparse[148:156] = b"%06o\0 " % (sum(sparse) - sum(sparse[148:156]) + 256)
    content = bytes(sparse) + extended * 20_000
    assert "described by more than" in refused(tmp_path / "a.tar.gz", gzip.compress(content, 1))


def test_records_of_records(tmp_path: Path) -> None:
    chain = (header(tarfile.GNUTYPE_LONGNAME, 1) + b"a" + bytes(511)) * 3000
    assert "a.tar is damaged" in refused(tmp_path / "a.tar", chain + member())


def test_digits_that_would_be_searched_for_long(tmp_path: Path) -> None:
    value = b"1" * 200_000
    record = b"200014 comment=" + value
    content = header(tarfile.XHDTYPE, len(record)) + record + bytes(-len(record) % 512) + member()
    assert "number of more than 255 digits" in refused(tmp_path / "a.tar", content)


def test_attributes_of_all_members_are_bounded_together(tmp_path: Path) -> None:
    content = b""
    for k in range(20):
        text = f" key{k}=" + "v" * 60_000 + "\n"
        record = f"{len(text) + 5}{text}".encode()
        content += header(tarfile.XGLTYPE, len(record)) + record + bytes(-len(record) % 512) + member(f"{k}.png")
    path = tmp_path / "a.tar"
    path.write_bytes(content + bytes(1024))
    with pytest.raises(ValueError, match=r"a\.tar is damaged .*all members are described by more than"):
        images_to_zarr([path], tmp_path / "x.zarr", workers=1)


def test_ordinary_records_are_read(tmp_path: Path) -> None:
    info = tarfile.TarInfo("folder/" * 300 + "a.png")
    for form in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        info.size, info.pax_headers = len(IMAGE), {"SCHILY.xattr.user.note": "n" * 60_000}
        content = info.tobuf(form) + IMAGE + bytes(-len(IMAGE) % 512) + bytes(1024)
        (tmp_path / "a.tar").write_bytes(content)
        assert images_to_zarr([tmp_path / "a.tar"], tmp_path / f"{form}.zarr").written == 1


def test_a_dictionary_of_many_bytes(tmp_path: Path) -> None:
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 2**20}]
    content = bytearray(lzma.compress(write_tar(tmp_path / "b.tar", {"a.png": IMAGE}).read_bytes(), filters=filters))
    (tmp_path / "b.tar").unlink()
    content[12 + 4] = 39  # the filter's property: a dictionary of 3 GiB
    size = (content[12] + 1) * 4
    content[12 + size - 4 : 12 + size] = zlib.crc32(content[12 : 12 + size - 4]).to_bytes(4, "little")
    assert "emory" in refused(tmp_path / "a.tar.xz", bytes(content))
