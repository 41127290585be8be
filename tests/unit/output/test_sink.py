"""Where an output goes: a path or a sink."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from strand.errors import ConfigurationError
from strand.output.sinks import files_and_sinks

pytestmark = pytest.mark.python


class Nothing:
    def write(self, batch: Any) -> None: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...


class Half:
    def write(self, batch: Any) -> None: ...


def test_paths_and_sinks_are_told_apart() -> None:
    sink = Nothing()
    assert files_and_sinks({"a": "a.npy", "b": Path("b.csv"), "c": sink}) == (
        {"a": "a.npy", "b": Path("b.csv")},
        {"c": sink},
    )
    assert files_and_sinks(None) == ({}, {})


SHARED = Nothing()


@pytest.mark.parametrize(
    ("out", "said"),
    [
        ("a.npy", "out: 'a.npy' is not a dict"),
        ({"a": Half()}, "it has no close and no abort"),
        ({"a": Nothing}, "give an object, not its class"),
        ({"a": SHARED, "b": SHARED}, "out: b has the sink of a"),
    ],
)
def test_what_cannot_take_records_is_refused(out: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        files_and_sinks(out)
