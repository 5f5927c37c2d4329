"""The program: help without heavy imports, one line for each error, exit codes, and completion."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path
from textwrap import dedent

import click
import pytest
from click.shell_completion import ShellComplete

from tests.programs import ROOT, run_python
from vmfa_dask.command import main
from vmfa_dask.command.entry import PROGRAM
from vmfa_dask.command.messages import failure_line
from vmfa_dask.command.prepare import prepare
from vmfa_dask.command.session import Session


def error_of(words: list[str], capsys: pytest.CaptureFixture[str], code: int) -> str:
    """The line on the error stream of a call that must fail with this code, and print nothing else."""
    assert main(words) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    return line


def test_help_and_completion_import_nothing_heavy() -> None:
    program = """
        import contextlib, io, json, sys
        from vmfa_dask.command import main
        with contextlib.redirect_stdout(io.StringIO()) as text:
            calls = ["--help"], ["--version"], ["prepare", "--help"], ["prepare", "images", "--help"]
            codes = [main(call) for call in calls]
        heavy = [name for name in ("numba", "dask", "distributed", "zarr", "numpy", "xarray") if name in sys.modules]
        print(json.dumps([codes, heavy, text.getvalue()]))
    """
    codes, heavy, text = json.loads(run_python("-c", dedent(program)).stdout)
    assert (codes, heavy) == ([0, 0, 0, 0], [])
    assert all(name in text for name in PROGRAM.list_commands(click.Context(PROGRAM)))


def test_imports_and_help_take_the_time_of_a_blink() -> None:
    """Processor time, the best of three processes: that of the clock would depend on what else the machine does."""
    program = """
        import contextlib, io, sys, time
        begin, before = time.process_time(), set(sys.modules)
        import vmfa_dask
        imported = time.process_time() - begin
        added = {name.partition(".")[0] for name in set(sys.modules) - before} - sys.stdlib_module_names
        from vmfa_dask.command import main
        with contextlib.redirect_stdout(io.StringIO()):
            main(["--help"])
        print(*sorted(added), imported, time.process_time() - begin)
    """
    words = [run_python("-c", dedent(program)).stdout.split() for _ in range(3)]
    assert {tuple(line[:-2]) for line in words} == {("vmfa_dask",)}
    assert min(float(line[-2]) for line in words) < 0.1
    assert min(float(line[-1]) for line in words) < 0.3


def test_every_command_exists_under_its_name_and_has_the_shared_options() -> None:
    for group in (PROGRAM, prepare):
        context = click.Context(group)
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            assert command.name == name
            if not isinstance(command, click.Group):
                flags = {flag for param in command.params for flag in param.opts}
                assert {"--verbose", "--quiet", "--traceback"} <= flags
                sections = re.findall(r"^(\w[\w ]*):$", command.get_help(click.Context(command)), re.MULTILINE)
                last = [title for title in ("Cluster", "Other options") if title in sections]
                assert sections[-len(last) :] == last
                assert "Other options" in last


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["fti"], "error: no such command fti; did you mean fit?"),
        (["prepare", "image"], "error: no such command image; did you mean images?"),
        (["zzz"], "error: no such command zzz"),
        ([], "error: missing command; 'vmfa-dask --help' lists them"),
        (["prepare"], "error: missing command; 'vmfa-dask prepare --help' lists them"),
        (["fit", str(ROOT), "--n-componets", "3"], "error: no such option --n-componets; did you mean --n-components?"),
        (["fit", str(ROOT)], "error: missing option '--n-components'"),
        (["status"], "error: missing argument 'RUN'"),
    ],
)
def test_mistakes_in_a_call_are_one_line(words: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert error_of(words, capsys, 2) == line


def test_a_missing_file_is_named_with_what_was_meant(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "images.zarr").mkdir()
    line = error_of(["inspect", str(tmp_path / "imges.zarr")], capsys, 2)
    assert line.endswith("imges.zarr does not exist; did you mean images.zarr?")
    assert "nor does its folder" in error_of(["inspect", str(tmp_path / "none" / "x")], capsys, 2)


def test_an_error_of_the_work_is_one_line_and_its_traceback_is_shown_on_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = error_of(["inspect", str(tmp_path)], capsys, 1)
    assert line.startswith(f"error: {tmp_path}: found none of what")
    assert main(["inspect", str(tmp_path), "--traceback"]) == 1
    shown = capsys.readouterr().err
    assert shown.startswith("Traceback")
    assert shown.splitlines()[-1] == line


def test_errors_keep_their_notes_and_mistakes_of_the_package_their_type() -> None:
    error = ValueError("two\nlines")
    error.add_note("what is left")
    assert failure_line(error) == "error: two lines; what is left"
    assert failure_line(ValueError("a\x1b[2J.txt")) == r"error: a\x1b[2J.txt"
    assert failure_line(KeyError("no driver")) == "error: no driver"
    assert failure_line(MemoryError()) == "error: out of memory: MemoryError"
    assert failure_line(AssertionError("x")) == "error: AssertionError: x (--traceback shows where)"


def test_the_log_is_restored_and_quiet_calls_show_warnings_alone(
    run: str, store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    logger = logging.getLogger("vmfa_dask")
    before = (logger.level, list(logger.handlers))
    words = ["plan", store, "--n-components", "3"]
    for flags, shown in ((["-q"], False), ([], True), (["-v"], True), (["-qq"], False)):
        assert main([*words, *flags]) == 0
        assert ("projected peak memory" in capsys.readouterr().err) == shown
    assert (logger.level, logger.handlers) == before


def test_warnings_are_lines_of_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    with Session().logging():
        warnings.simplefilter("always")
        warnings.warn("two\nlines", UserWarning, stacklevel=1)
    assert capsys.readouterr().err == "warning: two lines\n"


def test_shells_complete_commands_and_options() -> None:
    def completed(*words: str) -> set[str]:
        shell = ShellComplete(PROGRAM, {}, "vmfa-dask", "_VMFA_DASK_COMPLETE")
        return {item.value for item in shell.get_completions(list(words[:-1]), words[-1])}

    assert completed("s") == {"score", "status", "sample"}
    assert completed("prepare", "c") == {"cifar10", "celeba"}
    assert completed("fit", "--n-c") == {"--n-components"}
    assert completed("fit", "--noise", "") == {"component", "shared"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_is_printed(shell: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import sys; from vmfa_dask.command import main; sys.exit(main())"],
        env={**os.environ, "PYTHONPATH": str(ROOT), "_VMFA_DASK_COMPLETE": f"{shell}_source"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "vmfa_dask_completion" in done.stdout.replace("-", "_"), done.stderr
