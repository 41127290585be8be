"""Where handlers have their trades and quotes from."""

from __future__ import annotations

import struct

from strand.binding.books import TapeMemory, TradeRules, source_bytes
from strand.binding.memory import Space


def test_a_source_is_four_addresses_and_the_rules() -> None:
    rules = TradeRules(orders=True)
    found = source_bytes(rules, 0x1234, 0x5678, 0x9ABC)
    assert struct.unpack("=QQQQ", found[:32]) == (0x1234, 0x5678, 0x9ABC, 0)
    assert found[32:] == rules.packed
    assert struct.unpack("=QQQQ", source_bytes(rules)[:32]) == (0, 0, 0, 0)


def test_books_of_a_handler_lie_in_its_space() -> None:
    space = Space()
    memory = TapeMemory(space, 3, "vwap", TradeRules(orders=True), b"", orders=True, timers=False, ends=False)
    tape, place = struct.unpack("=QQ", memory.function.params[:16])
    assert tape > place > 0
