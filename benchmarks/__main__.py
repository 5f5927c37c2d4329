"""``python -m benchmarks [SECTION ...] [--images FOLDER] [--quick]``."""

from __future__ import annotations

import argparse
import sys

from benchmarks import fits, images, inference, kept, kernels, others, pictures, startup, streaming
from benchmarks.machine import describe
from benchmarks.report import Report

SECTIONS = ("kernels", "startup", "others", "images", "stream", "fit", "kept", "inference")


def main(arguments: list[str] | None = None) -> int:
    """Run the chosen sections.

    Parameters
    ----------
    arguments : list of str, optional
        Of the command line; by default those of this process.

    Returns
    -------
    int
        The exit code: 1 if a bound was missed, except with ``--quick``.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("sections", nargs="*", help=f"any of {', '.join(SECTIONS)}; all by default")
    parser.add_argument(
        "--images",
        help="folder with train-*.tar and test-*.tar of CIFAR-10; by default patches of the photographs in "
        "scikit-image are used, without the bounds known for CIFAR-10",
    )
    parser.add_argument(
        "--gigabytes", type=float, default=12, help="size of the rows of `stream`; two workers get an eighth of it each"
    )
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that everything runs")
    options = parser.parse_args(arguments)
    unknown = set(options.sections) - set(SECTIONS)
    if unknown:
        parser.error(f"unknown section {sorted(unknown)[0]!r}; expected any of {', '.join(SECTIONS)}")
    sections, report = options.sections or SECTIONS, Report()
    print(describe())
    if "kernels" in sections:
        kernels.run(report, options.quick)
    if "startup" in sections:
        startup.run(report)
    if "others" in sections:
        others.run(options.quick)
    if "images" in sections:
        pictures.run(report, options.images, options.quick)
    if "stream" in sections:
        gigabytes = 2.4 if options.quick else options.gigabytes
        streaming.run(report, gigabytes, max(0.4, gigabytes / 8))
    if "inference" in sections:
        inference.run(report, options.quick)
    fitted = [module for name, module in (("fit", fits), ("kept", kept)) if name in sections]
    if fitted:
        with fits.temporary_folder() as folder:
            made = images.prepare(folder, options.images, 3000 if options.quick else 50_000)
            for module in fitted:
                module.run(report, made, 30 if options.quick else 800)
    print("\n" + report.summary())
    return 0 if options.quick or all(ok for *_, ok in report.checks) else 1


if __name__ == "__main__":
    sys.exit(main())
