"""The options of readers, by name and type."""

from __future__ import annotations

import pytest
from typed_calls import kinds, named

import strand
from strand.feeds.formats.registry import formats
from strand.feeds.reader_options import FeedOptions, ReaderOptions
from strand.options import options_of

pytestmark = pytest.mark.python


def test_the_options_of_opening_are_those_of_all_readers() -> None:
    readers = [form.feed_class() for form in formats()]
    every = {name for reader in readers for name in options_of(reader)} - {"select", "symbols"}
    assert {*kinds(ReaderOptions), "date", "zone"} == every
    own = {name: kind for name, kind in kinds(FeedOptions).items() if name not in kinds(ReaderOptions)}
    assert own.items() <= named(strand.feeds.open).items()
    assert named(strand.feeds.open).keys() == kinds(FeedOptions).keys() | {"symbols", "start", "end"}
    for reader in readers:
        for name, kind in named(reader).items():
            if name in kinds(ReaderOptions):
                theirs = {*kind.removesuffix(" | None").replace("Path", "os.PathLike[str]").split(" | ")}
                theirs = {part.replace("os.os.PathLike[str]Like[str]", "os.PathLike[str]") for part in theirs}
                assert theirs <= {*kinds(ReaderOptions)[name].split(" | ")}, (reader, name)
