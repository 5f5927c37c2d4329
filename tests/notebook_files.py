"""Notebooks run by a kernel of this Python. ``python -m tests.notebook_files NAME ...`` refreshes their outputs.

Without names it runs all notebooks. Outputs are made small and free of what differs from machine to machine.
"""

from __future__ import annotations

import base64
import copy
import io
import os
import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client import AsyncKernelManager
from jupyter_client.kernelspec import KernelSpecManager
from nbclient import NotebookClient
from PIL import Image

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
MOST_BYTES = 145_000
# Colours of pictures: as many as let a notebook be small enough.
_PALETTES = (256, 192, 128, 96, 64)
_SPEC = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}


def run_notebook(path: Path, folder: Path, environment: Mapping[str, str], timeout: float) -> Any:
    """A copy of a notebook with the outputs of its cells, which run in `folder`; `timeout` in seconds is per cell."""
    notebook = nbformat.read(path, as_version=4)
    # Without folders of kernels there is one: the kernel of this Python. It listens on loopback.
    kernels = KernelSpecManager(kernel_dirs=[])
    manager = AsyncKernelManager(
        kernel_name="python3", kernel_spec_manager=kernels, connection_file=str(folder / "kernel.json")
    )
    client = NotebookClient(
        notebook,
        km=manager,
        timeout=timeout,
        resources={"metadata": {"path": str(folder)}},
        record_timing=False,
        coalesce_streams=True,
    )
    variables = {**os.environ, **environment, "IPYTHONDIR": str(folder / "ipython")}
    return client.execute(env=variables, cleanup_kc=True)  # shuts the kernel down, after errors too


def run_small(path: str, folder: str) -> None:
    """Run a notebook with small sizes, and write it with its outputs into `folder`."""
    notebook = run_notebook(Path(path), Path(folder), {"VMFA_QUICK": "1"}, timeout=120)
    nbformat.write(notebook, Path(folder, Path(path).name))


def tidy(notebook: Any) -> Any:
    """A copy whose outputs are small, and the same on every machine."""
    for n_colours in _PALETTES:
        tidied = copy.deepcopy(notebook)
        tidied.metadata = nbformat.from_dict({**_SPEC, "language_info": {"name": "python"}})
        for cell in tidied.cells:
            cell.metadata = nbformat.from_dict({})
            for output in cell.get("outputs", ()):
                _tidy_output(output, n_colours)
        if len(nbformat.writes(tidied)) < MOST_BYTES:
            break
    return tidied


def _tidy_output(output: Any, n_colours: int) -> None:
    if "text" in output:
        output.text = re.sub(r"http://[\d.]+:\d+", "http://127.0.0.1:8787", output.text)
    data = output.get("data", {})
    if "image/png" in data:
        picture = Image.open(io.BytesIO(base64.b64decode(data["image/png"]))).convert("RGB")
        buffer = io.BytesIO()
        picture.quantize(n_colours, kmeans=2, dither=Image.Dither.NONE).save(buffer, "png", optimize=True)
        data["image/png"] = base64.b64encode(buffer.getvalue()).decode()
        output.metadata = nbformat.from_dict({})


def main(names: list[str]) -> None:
    """Run notebooks in full, and write their outputs into them."""
    for path in [NOTEBOOKS / name for name in names] or sorted(NOTEBOOKS.glob("*.ipynb")):
        with tempfile.TemporaryDirectory() as folder:
            notebook = run_notebook(path, Path(folder), {}, timeout=3600)
        nbformat.write(tidy(notebook), path)
        print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
