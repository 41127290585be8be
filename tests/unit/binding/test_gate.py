"""Codes of C that become exceptions."""

from __future__ import annotations

import errno

import pytest

from strand.binding import ffi
from strand.binding.gate import (
    Code,
    check_system,
    checked,
    fault_error,
    key_error,
    made,
    publish_error,
    refusal,
    text_of,
)
from strand.errors import (
    BackpressureError,
    ConfigurationError,
    EngineError,
    FeedError,
    FormatError,
    TruncatedFeedError,
    UnknownSymbolError,
    WouldDeadlockError,
)
from strand.ticks import zeros

pytestmark = pytest.mark.python


def test_a_null_pointer_is_no_memory_and_another_is_itself() -> None:
    pointer = ffi.new("int *")
    assert made(pointer, "no memory") is pointer
    with pytest.raises(MemoryError, match="no memory for books"):
        made(ffi.NULL, "no memory for books")
    with pytest.raises(FeedError, match="no feed"):
        made(ffi.NULL, "no feed", FeedError)


@pytest.mark.parametrize(
    ("code", "kind", "said"),
    [
        (Code.NO_MEMORY, MemoryError, "m"),
        (Code.CORRUPT, AssertionError, "c"),
        (Code.HANDLER, EngineError, "h"),
        (Code.ARGUMENT, ConfigurationError, "cores: a"),
        (Code.KEY, FeedError, "otherwise"),
    ],
)
def test_a_code_means_what_its_call_says_and_otherwise_one_thing(code: int, kind: type[Exception], said: str) -> None:
    error = refusal(code, "otherwise", FeedError, no_memory="m", corrupt="c", handler="h", argument="a")
    assert (type(error), str(error)) == (kind, said)
    # A call that does not end so has no other meaning for it.
    assert type(refusal(code, "otherwise", FeedError)) is FeedError


def test_a_success_or_a_count_is_returned() -> None:
    assert [checked(code, "no") for code in (Code.OK, 7)] == [0, 7]
    with pytest.raises(EngineError, match="it stopped"):
        checked(Code.STOPPED, "it stopped")


def test_an_errno_is_an_error_of_the_system_by_its_number() -> None:
    check_system(-100, 100)
    with pytest.raises(FileNotFoundError):
        check_system(-errno.ENOENT)
    with pytest.raises(PermissionError):
        check_system(-100 - errno.EACCES, 100)


def test_text_that_is_no_utf_8_is_shown_all_the_same() -> None:
    assert text_of(ffi.new("char[8]", b"ab\xff")) == "ab\ufffd"


def test_a_fault_says_where_and_only_one_of_the_file_has_advice() -> None:
    texts = {1: "cut", 2: "odd"}
    cut = fault_error(texts, 1, cut=1, path="f", offset=9, place="line 3: ", advice="; skip it")
    odd = fault_error(texts, 2, cut=1, path="f", offset=9, place="line 3: ", advice="; skip it")
    assert (type(cut), type(odd)) == (TruncatedFeedError, FormatError)
    assert str(cut).endswith("line 3: cut")
    assert str(odd).endswith("line 3: odd; skip it")
    assert odd.offset == 9


def test_a_key_beyond_the_symbols_is_named_with_its_place() -> None:
    ticks = zeros(3)
    ticks["instrument_id"] = [0, 1, 9]
    error = key_error(ticks, 2, key="instrument_id", symbols=2)
    assert isinstance(error, UnknownSymbolError)
    assert str(error).startswith("record 2: instrument_id is 9, but there are 2 symbols (0 to 1)")


def test_what_was_not_published_has_the_positions_of_what_is_left() -> None:
    import numpy as np

    rejected = np.array([4, 6])
    for code, kind in ((Code.FULL, BackpressureError), (Code.WOULD_DEADLOCK, WouldDeadlockError)):
        error = publish_error(code, zeros(8), rejected, key="instrument_id", symbols=1, started=True)
        assert type(error) is kind
        assert str(error).startswith("2 of 8 records were not accepted, the first at position 4: ")
    waiting = publish_error(Code.FULL, zeros(8), rejected, key="instrument_id", symbols=1, started=False)
    assert "no worker runs" in str(waiting)
