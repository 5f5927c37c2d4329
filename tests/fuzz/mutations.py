"""Damage to files: flips, cuts, extensions, and edits of JSON that a person or a broken copy may make."""

from __future__ import annotations

import random
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

# Bytes of a file stay as many (contents), or not (length); or files go or change places (files).
CONTENTS, LENGTH, FILES = "contents", "length", "files"
_NUMBERS = (b"0", b"-1", b"1", b"7", b"1000000000000000000", b"1e400", b"0.5", b"null", b'"x"', b"[]", b"{}", b"true")
_LONGEST = 4096
_TOKEN = re.compile(rb'-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|"[^"]*"|true|false|null')


@dataclass(frozen=True)
class Damage:
    """What was done to which file: `family` is one of the three above."""

    family: str
    kind: str
    file: str


def damage(folder: Path, rng: random.Random) -> Damage:
    """Change one file of a folder, or two, in place."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    path = _drawn(files, rng)
    name = str(path.relative_to(folder))
    if len(files) > 1 and rng.random() < 0.1:
        return Damage(FILES, _move(path, files, rng), name)
    raw = path.read_bytes()
    if path.suffix == ".json" or path.name.startswith(".z"):
        if rng.random() < 0.5:
            path.write_bytes(_edited(raw, rng))
            return Damage(CONTENTS, "edit", name)
    family, kind = rng.choice(
        [(CONTENTS, "flip"), (CONTENTS, "bytes"), (CONTENTS, "zeros"), (LENGTH, "cut"), (LENGTH, "extend")]
    )
    changed = {"flip": _flipped, "bytes": _overwritten, "zeros": _zeroed, "cut": _cut, "extend": _extended}[kind](
        raw, rng
    )
    path.write_bytes(changed)
    return Damage(family, kind, name)


def _drawn(files: list[Path], rng: random.Random) -> Path:
    """Metadata as often as all the rest: there are few of them."""
    metadata = [path for path in files if path.suffix == ".json" or path.name.startswith(".z")]
    return rng.choice(metadata if metadata and rng.random() < 0.5 else files)


def _move(path: Path, files: list[Path], rng: random.Random) -> str:
    other = rng.choice([file for file in files if file != path])
    kind = rng.choice(["remove", "swap", "copy over"])
    if kind == "remove":
        path.unlink()
    elif kind == "swap":
        mine, theirs = path.read_bytes(), other.read_bytes()
        path.write_bytes(theirs)
        other.write_bytes(mine)
    else:
        shutil.copyfile(other, path)
    return kind


def _place(raw: bytes, rng: random.Random) -> int:
    """A byte; the first and the last ones, where headers and indices lie, more often."""
    n = max(1, len(raw))
    return rng.choice([rng.randrange(n), rng.randrange(min(n, 64)), n - 1 - rng.randrange(min(n, 64))])


def _flipped(raw: bytes, rng: random.Random) -> bytes:
    changed = bytearray(raw)
    for _ in range(rng.choice([1, 1, 1, 2, 8])):
        if changed:
            changed[_place(raw, rng)] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _overwritten(raw: bytes, rng: random.Random) -> bytes:
    start, n = _place(raw, rng), rng.choice([1, 2, 4, 8, 64])
    return raw[:start] + rng.choice([rng.randbytes(n), b"\xff" * n])[: len(raw) - start] + raw[start + n :]


def _zeroed(raw: bytes, rng: random.Random) -> bytes:
    start, n = _place(raw, rng), rng.choice([1, 8, 64, 512, 4096])
    return raw[:start] + bytes(min(n, len(raw) - start)) + raw[start + n :]


def _cut(raw: bytes, rng: random.Random) -> bytes:
    return raw[
        : rng.choice([0, 1, len(raw) // 2, max(0, len(raw) - 1), max(0, len(raw) - 512), rng.randrange(len(raw) + 1)])
    ]


def _extended(raw: bytes, rng: random.Random) -> bytes:
    n = rng.choice([1, 4, 16, rng.randrange(1, _LONGEST)])
    start = rng.choice([len(raw), rng.randrange(len(raw) + 1)])
    return raw[:start] + rng.choice([bytes(n), rng.randbytes(n), raw[:n]]) + raw[start:]


def _edited(raw: bytes, rng: random.Random) -> bytes:
    """JSON with one value in place of another; deep nesting now and then."""
    tokens = list(_TOKEN.finditer(raw))
    if not tokens:
        return b"{"
    token = rng.choice(tokens)
    value = rng.choice([*_NUMBERS, rng.choice(tokens).group(), b"[" * 100_000])
    return raw[: token.start()] + value + raw[token.end() :]
