"""Every exception the library raises on its own account, each saying what to do about it."""

from __future__ import annotations

from pathlib import Path


class StrandError(Exception):
    """Base of all errors raised by strand."""


class ConfigurationError(StrandError, ValueError):
    """An argument or option cannot work; the message names the field and the values that can."""


class MissingExtraError(StrandError, ImportError):
    """An optional dependency is not installed; the message names the extra to install."""

    def __init__(self, feature: str, package: str, extra: str) -> None:
        super().__init__(f"{feature} needs the package {package!r}: install it with  pip install 'strand[{extra}]'")
        self.package = package
        self.extra = extra


class FeedError(StrandError):
    """A file or stream cannot be read on: says which, where and why.

    ``offset`` counts bytes from the start of the decompressed stream, ``line`` counts from 1; either may be None.
    """

    def __init__(
        self, message: str, *, path: str | Path | None = None, offset: int | None = None, line: int | None = None
    ) -> None:
        where = [str(path)] if path is not None else []
        if offset is not None:
            where.append(f"byte {offset}")
        if line is not None:
            where.append(f"line {line}")
        super().__init__(f"{', '.join(where)}: {message}" if where else message)
        self.path = path
        self.offset = offset
        self.line = line


class TruncatedFeedError(FeedError):
    """The input ends inside a record. What was read until then is intact."""


class FormatError(FeedError):
    """The input is not what its format allows."""


class UnknownFormatError(FeedError):
    """No reader recognises the input."""
