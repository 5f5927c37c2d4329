"""A terminal for tests: a pseudoterminal, and the screen that a person would see."""

from __future__ import annotations

import os
import pty
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO


class Terminal:
    """What a program writes to a terminal; `stream` is its standard error stream."""

    def __init__(self, columns: int) -> None:
        self._master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (40, columns))
        self.stream: TextIO = os.fdopen(slave, "w", encoding="utf-8")
        self._written = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                part = os.read(self._master, 65536)
            except OSError:  # the other end is closed
                return
            if not part:
                return
            self._written += part

    def end(self) -> str:
        """Close the terminal; all that was written."""
        if not self.stream.closed:
            self.stream.close()
            self._reader.join(10)
            os.close(self._master)
        return self._written.decode()


@contextmanager
def terminal(columns: int = 120) -> Iterator[Terminal]:
    opened = Terminal(columns)
    try:
        yield opened
    finally:
        opened.end()


def screen(written: str) -> list[str]:
    """The lines that remain on a screen: carriage returns go to the begin of a line and erase nothing."""
    lines, column = [""], 0
    for character in written:
        if character == "\n":
            lines.append("")
            column = 0
        elif character == "\r":
            column = 0
        else:
            line = lines[-1].ljust(column)
            lines[-1] = line[:column] + character + line[column + 1 :]
            column += 1
    return [line.rstrip() for line in lines]
