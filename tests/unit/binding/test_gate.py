"""Codes of C that become exceptions."""

from __future__ import annotations

import errno

import pytest

from strand.binding import ffi
from strand.binding.gate import (
    Code,
    check_system,
    checked,
    made,
    refusal,
    text_of,
)
from strand.errors import (
    ConfigurationError,
    EngineError,
    FeedError,
)

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
