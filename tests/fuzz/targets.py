"""What is damaged: data stores in each layout, models, runs, tables and archives; and how each is used.

`use` gives something that differs wherever the numbers that a user gets differ.
"""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import zarr
from numcodecs import GZip
from numcodecs import Zstd as ZstdV2
from PIL import Image
from zarr.codecs import BloscCodec, Crc32cCodec, GzipCodec, ZstdCodec

from tests.fuzz.mutations import CONTENTS, FILES, LENGTH, Damage
from tests.samples import draw, make_mixture, parameters, write_store
from vmfa_dask import MixtureModel, fit_local
from vmfa_dask.data_prep.arrays_to_zarr import arrays_to_zarr
from vmfa_dask.data_prep.images_to_zarr import images_to_zarr
from vmfa_dask.store.models import GROUP_VERSION
from vmfa_dask.store.strict import sealed

_MIXTURE = make_mixture(3, 6, 1, dtype="float32")
_ROWS = draw(_MIXTURE, 240, dtype="float32")
_MODEL = MixtureModel.of(_MIXTURE)
_FIT: dict[str, Any] = {
    "n_components": 3, "n_factors": 1, "n_groups": 2, "max_warmup_iter": 1, "tol": 0.0, "threads": 1,
    "init_params": "afkmc2", "checkpoint_share": 1.0,
}  # fmt: skip
_ENDS = 1, 3


@dataclass(frozen=True)
class Target:
    """Something on disk.

    Parameters
    ----------
    name : of it, and of its folder
    make : writes it into a folder
    use : reads it there; anything whose `repr` tells it
    unseen : families of damage that its format has no checksum against
    metadata_unseen : whether its metadata are as open
    """

    name: str
    make: Callable[[Path], object]
    use: Callable[[Path], Any]
    unseen: frozenset[str] = frozenset()
    metadata_unseen: bool = True

    def may_miss(self, done: Damage) -> bool:
        """Whether nothing in the format can tell what was done."""
        file = Path(done.file).name
        if file.endswith(".json") or file.startswith(".z"):
            return self.metadata_unseen and done.family != LENGTH
        return done.family in self.unseen


def _store(folder: Path, **options: Any) -> None:
    write_store(folder / "rows.zarr", _ROWS, 40, **options)


def _scores(folder: Path) -> bytes:
    return _MODEL.score_samples(folder / "rows.zarr").tobytes()


def _fit(folder: Path) -> tuple[bytes, list[float]]:
    fit = fit_local(folder / "rows.zarr", **_FIT, max_iter=2)
    return parameters(fit.model), [record.free_energy for record in fit.history]


_PLAIN, _LAST, _SEEN = frozenset({CONTENTS, FILES}), frozenset({CONTENTS}), frozenset[str]()
_LAYOUTS: dict[str, tuple[dict[str, Any], frozenset[str]]] = {
    "raw": ({"compressors": None}, _PLAIN),
    "raw-crc32c": ({"compressors": [Crc32cCodec()]}, frozenset({FILES})),
    "zstd": ({"compressors": [ZstdCodec()]}, _PLAIN),
    "zstd-checksum": ({"compressors": [ZstdCodec(checksum=True)]}, frozenset({FILES})),
    "blosc-lz4": ({"compressors": [BloscCodec(cname="lz4")]}, _PLAIN),
    "blosc-zstd": ({"compressors": [BloscCodec(cname="zstd")]}, _PLAIN),
    "gzip": ({"compressors": [GzipCodec()]}, frozenset({FILES})),
    "shards-raw": ({"shards": (120, 6), "compressors": None}, _PLAIN),
    "shards-zstd": ({"shards": (120, 6)}, _PLAIN),
    "v2-raw": ({"zarr_format": 2, "compressors": None}, _PLAIN),
    "v2-zstd": ({"zarr_format": 2, "compressors": [ZstdV2()]}, _PLAIN),
    "v2-gzip": ({"zarr_format": 2, "compressors": [GZip()]}, frozenset({FILES})),
}


def _save_model(folder: Path) -> None:
    _MODEL.save(folder / "model")


def _save_model_in_group(folder: Path) -> None:
    """As a model that has replaced another one in an object store, copied to a disk."""
    _save_model(folder)
    root, name = zarr.open_group(folder / "model", mode="r+"), "0123456789abcdef-0123456789ab"
    arrays = list(root.array_keys())
    root.create_group(name)
    for array in arrays:
        (folder / "model" / array).rename(folder / "model" / name / array)
    values = {key: value for key, value in root.attrs.items() if key != "checksum"}
    root.attrs.update(sealed({**values, "format_version": GROUP_VERSION, "group": name}))


def _load_model(folder: Path) -> tuple[bytes, float]:
    model = MixtureModel.load(folder / "model")
    return parameters(model), model.score(_ROWS)


def _begin_run(folder: Path) -> None:
    fit_local(_ROWS, **_FIT, max_iter=_ENDS[0], run=folder / "run")


def _resume_run(folder: Path) -> tuple[bytes, list[float]]:
    fit = fit_local(_ROWS, **_FIT, max_iter=_ENDS[1], run=folder / "run")
    return parameters(fit.model), [record.free_energy for record in fit.history]


def _table(name: str, folder: Path) -> None:
    path = folder / name
    columns = {f"x{k}": _ROWS[:, k].astype(np.float64) for k in range(_ROWS.shape[1])}
    if name.endswith(".npy"):
        np.save(path, _ROWS)
    elif name.endswith(".h5"):
        with h5py.File(path, "w") as file:
            file.create_dataset("rows", data=_ROWS, chunks=(40, 6), compression="gzip", fletcher32=True)
    else:
        pq.write_table(pa.table(columns), path, row_group_size=100, write_page_checksum=True)


def _convert(name: str, folder: Path) -> tuple[bytes, tuple[int, ...]]:
    arrays_to_zarr(folder / name, folder / "out.zarr", workers=1)
    rows = np.asarray(zarr.open_array(folder / "out.zarr", mode="r")[:])
    return rows.tobytes(), rows.shape


def _score_file(folder: Path) -> bytes:
    return _MODEL.score_samples(folder / "rows.npy").tobytes()


def _pictures() -> dict[str, bytes]:
    found = {}
    for k in range(6):
        stream = io.BytesIO()
        Image.fromarray(np.random.default_rng(k).integers(0, 256, (12, 10, 3), dtype=np.uint8)).save(stream, "PNG")
        found[f"picture-{k}.png"] = stream.getvalue()
    return found


def _archive(name: str, folder: Path) -> None:
    if name.endswith(".zip"):
        with zipfile.ZipFile(folder / name, "w") as archive:
            for member, raw in _pictures().items():
                archive.writestr(member, raw)
        return
    with tarfile.open(folder / name, "w:gz" if name.endswith("gz") else "w") as archive:
        for member, raw in _pictures().items():
            header = tarfile.TarInfo(member)
            header.size = len(raw)
            archive.addfile(header, io.BytesIO(raw))


def _unpack(name: str, folder: Path) -> tuple[bytes, int]:
    """Pictures that are skipped by name count as refused."""
    report = images_to_zarr(folder / name, folder / "out.zarr", workers=1)
    if report.n_skipped:
        raise ValueError(f"{folder.name}: skipped {report.skipped[0]}".replace("\n", " "))
    return np.asarray(zarr.open_array(folder / "out.zarr", mode="r")[:]).tobytes(), report.written


def _targets() -> list[Target]:
    targets = [
        Target(f"store-{name}", partial(_store, **options), _scores, unseen)
        for name, (options, unseen) in _LAYOUTS.items()
    ]
    targets += [
        Target("fit-raw-crc32c", partial(_store, compressors=[Crc32cCodec()]), _fit, frozenset({FILES})),
        Target("model", _save_model, _load_model, metadata_unseen=False),
        Target("model-in-group", _save_model_in_group, _load_model, metadata_unseen=False),
        Target("run", _begin_run, _resume_run, metadata_unseen=False),
        Target("npy-scored", partial(_table, "rows.npy"), _score_file, frozenset({CONTENTS})),
    ]
    checked = {"rows.npy": frozenset({CONTENTS}), "rows.h5": _SEEN, "rows.parquet": _SEEN}
    targets += [
        Target(name.replace("rows.", "table-"), partial(_table, name), partial(_convert, name), unseen)
        for name, unseen in checked.items()
    ]
    targets += [
        Target(name.replace("pictures.", "pictures-"), partial(_archive, name), partial(_unpack, name), unseen)
        # Zeros over the last members of a plain archive are its end.
        for name, unseen in {"pictures.tar": _LAST, "pictures.tar.gz": _SEEN, "pictures.zip": _SEEN}.items()
    ]
    return targets


TARGETS = _targets()
