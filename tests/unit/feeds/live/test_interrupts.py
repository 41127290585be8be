"""Ctrl-C anywhere in what sends a line, and in a replay of one: no thread is left, and no socket stays open.

Each test runs in a child, which ends in a bounded time.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from bounded_child import in_bounded_child
from interrupt_points import APART, Interrupted, at_each_point, interrupter
from mold_lines import listen, orders, sender
from mold_wire import end_of_session, packet
from sweep_files import beginning

import strand
from strand.feeds.live.mold import ServeOptions, serve

pytestmark = pytest.mark.python


class Case(Interrupted):
    def check(self) -> None:
        self.check_nothing_is_open()
        for result in self.partial:
            found = result.statistics  # a second interrupt leaves ticks that had been published
            assert result.ticks == found.accepted == found.handled + sum(found.dropped.values())
            assert int(result.rows.array["ticks"].sum()) == found.handled


def heard(workers: int) -> None:
    """Sends a session of ten orders to a feed, and replays it."""
    feed = listen()
    with sender(*feed.addresses) as send:
        send(0, packet(1, orders(1, 11)))
        send(0, end_of_session(11))
        result = strand.replay(feed, "count", workers=workers, cores=None if workers else "auto", timeline=False)
    assert result.ticks == 10


@pytest.mark.parametrize("apart", APART)
@pytest.mark.parametrize("workers", [0, 2])
def test_an_interrupt_of_a_live_replay_leaves_nothing_open(
    workers: int, apart: str, one_in: Callable[[int], int]
) -> None:
    interrupter()

    def prepare() -> tuple[Callable[[], Any], Callable[[], Any]]:
        case = Case(partial(heard, workers))
        return case.run, case.check

    in_bounded_child(partial(at_each_point, prepare, apart, one_in(400)), 3600)


@pytest.mark.parametrize("apart", APART)
def test_an_interrupt_of_serve_leaves_nothing_open(apart: str, tmp_path: Path, one_in: Callable[[int], int]) -> None:
    interrupter()
    path = tmp_path / "beginning.itch50"
    path.write_bytes(beginning(20_000))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        line.bind(("127.0.0.1", 0))
        options = ServeOptions(line=f"127.0.0.1:{line.getsockname()[1]}", speed=0, end_pause_s=0)

        def prepare() -> tuple[Callable[[], Any], Callable[[], Any]]:
            case = Case(partial(serve, path, options))
            return case.run, case.check

        in_bounded_child(partial(at_each_point, prepare, apart, one_in(20)), 3600)
