"""Where handlers have their trades and quotes from."""

from __future__ import annotations

import struct

from strand.binding.space import Space
from strand.binding.tape import TapeMemory, source_bytes
from strand.binding.trades import TradeRules


def test_a_source_is_three_addresses_and_the_rules() -> None:
    rules = TradeRules(orders=True)
    found = source_bytes(rules, 0x1234, 0x5678, 0x9ABC)
    assert struct.unpack("=QQQ", found[:24]) == (0x1234, 0x5678, 0x9ABC)
    assert found[24:] == rules.packed
    assert struct.unpack("=QQQ", source_bytes(rules)[:24]) == (0, 0, 0)


def test_books_of_a_handler_lie_in_its_space() -> None:
    space = Space()
    memory = TapeMemory(space, 3, "vwap", TradeRules(orders=True), b"", orders=True, timers=False, ends=False)
    tape, place = struct.unpack("=QQ", memory.function.params[:16])
    assert tape > place > 0
