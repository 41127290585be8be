"""An error says what is wrong and where, and can be caught by what it is."""

from __future__ import annotations

import inspect

import pytest

from strand import errors
from strand.errors import ConfigurationError, FeedError, FormatError, MissingExtraError, StrandError

pytestmark = pytest.mark.python

ALL = [cls for _, cls in inspect.getmembers(errors, inspect.isclass) if cls.__module__ == "strand.errors"]


@pytest.mark.parametrize("cls", ALL)
def test_every_error_is_a_strand_error_and_documented(cls: type[Exception]) -> None:
    assert issubclass(cls, StrandError)
    assert cls.__doc__


def test_a_bad_option_is_also_a_value_error() -> None:
    assert issubclass(ConfigurationError, ValueError)


def test_a_missing_extra_is_an_import_error_that_names_the_command() -> None:
    error = MissingExtraError("reading CSV", "pyarrow", "csv")
    assert isinstance(error, ImportError)
    assert (error.package, error.extra) == ("pyarrow", "csv")
    assert "pip install 'tickstrand[csv]'" in str(error)


@pytest.mark.parametrize(
    ("where", "start"),
    [
        ({"path": "a.itch", "offset": 12, "line": 3}, "a.itch, byte 12, line 3: "),
        ({"path": "a.itch", "offset": 0}, "a.itch, byte 0: "),
        ({"line": 1}, "line 1: "),
        ({}, "no good"),
    ],
)
def test_a_feed_error_says_where_first(where: dict[str, object], start: str) -> None:
    error = FormatError("no good", **where)  # type: ignore[arg-type]
    assert isinstance(error, FeedError)
    assert str(error).startswith(start)
    assert str(error).endswith("no good")
    assert error.line == where.get("line")
