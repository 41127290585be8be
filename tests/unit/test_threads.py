"""Threads that a dispatcher waits for."""

from __future__ import annotations

import ctypes
import threading

import pytest

from strand.threads import sleep_exactly

pytestmark = pytest.mark.python


def test_a_thread_that_sleeps_exactly_has_no_slack_and_the_one_it_came_from_keeps_its_own() -> None:
    def slack_ns() -> int:
        return int(ctypes.CDLL(None).prctl(30, 0, 0, 0, 0))  # PR_GET_TIMERSLACK

    def exact() -> None:
        sleep_exactly()
        found.append(slack_ns())

    before, found = slack_ns(), list[int]()
    thread = threading.Thread(target=exact)
    thread.start()
    thread.join(60)
    assert found == [1]
    assert slack_ns() == before
