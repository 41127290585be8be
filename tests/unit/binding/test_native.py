"""Functions of C and their addresses."""

from __future__ import annotations

import pytest

from strand.binding import ffi
from strand.binding.native import (
    CONTEXT_OFFSETS,
    address_of_pointer,
    builtin,
    builtin_function,
    finish_pointer,
    pointer_from_address,
    wake_pointer,
)


def test_a_pointer_and_its_address_are_the_same_function() -> None:
    pointer = builtin("count")
    address = address_of_pointer(pointer)
    assert address
    assert pointer_from_address(address) == pointer
    assert address_of_pointer(address) == address


def test_what_is_no_pointer_has_no_address() -> None:
    assert [address_of_pointer(value) for value in (True, 1.0, "count", None)] == [None] * 4
    assert address_of_pointer(ffi.new("sd_tick *")[0]) is None


def test_no_address_is_no_function() -> None:
    assert wake_pointer(0) is None
    assert finish_pointer(0) is None
    assert address_of_pointer(wake_pointer(64)) == 64
    assert address_of_pointer(finish_pointer(64)) == 64


def test_a_built_in_handler_that_there_is_not_is_an_error() -> None:
    with pytest.raises(AttributeError, match="sd_handle_nothing"):
        builtin("nothing")


def test_fields_of_a_context_lie_apart() -> None:
    assert len(set(CONTEXT_OFFSETS.values())) == len(CONTEXT_OFFSETS)


def test_functions_of_timers_and_ends_are_there_where_they_are_asked_for() -> None:
    plain = builtin_function("volatility", b"params", timers=False, ends=True)
    assert (plain.params, plain.wake, plain.yields) == (b"params", None, False)
    assert plain.finish is not None
    timed = builtin_function("volatility", b"", timers=True, ends=False)
    assert timed.wake is not None
    assert (timed.finish, timed.yields) == (None, True)
