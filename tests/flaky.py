"""A file system of fsspec over local files whose keys fail as they are told to: ``flaky:///path/of/store``."""

from __future__ import annotations

from collections import Counter
from typing import Any, ClassVar

import fsspec
from fsspec.implementations.local import LocalFileSystem


class FlakyFileSystem(LocalFileSystem):
    """Local files; `errors` holds, by the end of a path, the error to raise and how often (None: always)."""

    protocol = "flaky"
    errors: ClassVar[dict[str, tuple[Exception, int | None]]] = {}
    requests: ClassVar[Counter[str]] = Counter()

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **options: Any) -> bytes:
        """Contents of a file, unless it fails."""
        for ending, (error, times) in self.errors.items():
            if path.endswith(ending):
                self.requests[ending] += 1
                if times is None or self.requests[ending] <= times:
                    raise error
        content: bytes = super().cat_file(path, start, end, **options)
        return content

    @classmethod
    def told(cls, errors: dict[str, tuple[Exception, int | None]]) -> None:
        """Begin anew with these errors."""
        cls.errors, cls.requests = errors, Counter()


fsspec.register_implementation("flaky", FlakyFileSystem, clobber=True)
