"""What objects and contexts of handlers in Python save."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy.typing as npt
import pytest

import strand
from strand.errors import SavedStateError
from tests.support.saved_handlers import RECORD, Counted, Forgetful, counted, dispatcher_of, made_ticks


def test_objects_that_cannot_save_themselves_are_refused_by_name(tmp_path: Path) -> None:
    ticks, symbols = made_ticks("plain")
    one = strand.Dispatcher(symbols, Forgetful, feed="plain", workers=1, cores=None).start()
    one.publish(ticks)
    with pytest.raises(SavedStateError, match=r"handler 'Forgetful'.*save\(self\) -> bytes"):
        one.save(tmp_path / "state")
    assert not (tmp_path / "state").exists()
    assert one.publish(ticks) == len(ticks)  # it goes on
    one.stop()


def test_a_handler_that_keeps_something_in_its_context_is_refused(tmp_path: Path) -> None:
    @strand.batch_handler(state=[("n", "i8")])
    def keeps(symbol: str, ticks: npt.NDArray[Any], row: Any, ctx: Any) -> None:
        ctx.last = ticks[-1]["price"]

    ticks, symbols = made_ticks("plain")
    one = strand.Dispatcher(symbols, keeps, feed="plain", workers=1, cores=None).start()
    one.publish(ticks)
    with pytest.raises(SavedStateError, match=r"handler 'keeps' keeps ctx\.last"):
        one.save(tmp_path / "state")
    one.stop()


class SavesText(Counted):
    def save(self) -> Any:
        return "no bytes"


def test_a_save_that_returns_no_bytes_is_refused(tmp_path: Path) -> None:
    ticks, symbols = made_ticks("plain")
    handler = strand.object_handler(outputs={"counted": RECORD})(SavesText)
    one = strand.Dispatcher(symbols, handler, feed="plain", workers=1, cores=None).start()
    one.publish(ticks)
    with pytest.raises(SavedStateError, match="save returned str"):
        one.save(tmp_path / "state")
    assert not (tmp_path / "state").exists()


def test_objects_know_what_they_knew(tmp_path: Path) -> None:
    ticks, symbols = made_ticks("plain")
    first = dispatcher_of("counted objects", symbols).start()
    first.publish(ticks[:1500])
    first.save(tmp_path / "state")
    with dispatcher_of("counted objects", symbols, load=tmp_path / "state") as second:
        assert {name: thing.seen for name, thing in second.objects.items()} == counted(ticks[:1500])
        second.publish(ticks[1500:])
    assert {name: thing.seen for name, thing in second.objects.items()} == counted(ticks)
