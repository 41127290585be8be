"""Where handlers have their trades and quotes from."""

from __future__ import annotations

import struct

from strand.binding.space import Space
from strand.binding.tape import TapeMemory, source_bytes
from strand.binding.trades import TradeRules


def test_a_source_is_two_addresses_and_the_rules() -> None:
    rules = TradeRules(orders=True)
    found = source_bytes(rules, 0x1234, 0x5678)
    assert struct.unpack("=QQ", found[:16]) == (0x1234, 0x5678)
    assert found[16:] == rules.packed
    assert struct.unpack("=QQ", source_bytes(rules)[:16]) == (0, 0)


def test_books_of_a_handler_lie_in_its_space() -> None:
    space = Space()
    memory = TapeMemory(space, 3, "vwap", TradeRules(orders=True), b"", timers=False, ends=False)
    tape, place = struct.unpack("=QQ", memory.function.params[:16])
    assert tape > place > 0
