"""Which codec pipeline Zarr is configured to use. May import: zarr."""

from __future__ import annotations

import zarr

_PIPELINE = "codec_pipeline.path"


def is_default_pipeline() -> bool:
    """Whether Zarr decodes chunks with the pipeline that it comes with.

    Users may choose another one, such as that of the package `zarrs`, by ``zarr.config.set`` or by the environment
    variable ``ZARR_CODEC_PIPELINE__PATH``. Such a choice is respected: see `store.direct` and `store.rows`.

    Returns
    -------
    bool
        Compared with Zarr's own default values, so that a release of Zarr may rename its pipeline.
    """
    group, name = _PIPELINE.split(".")
    return bool(zarr.config.get(_PIPELINE) == zarr.config.defaults[0][group][name])
