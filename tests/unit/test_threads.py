"""Threads that a dispatcher waits for."""

from __future__ import annotations

import ctypes
import threading

import pytest

from strand.threads import Inside, join, sleep_exactly

pytestmark = pytest.mark.python


def test_a_thread_is_inside_as_often_as_it_went_in_and_no_other_thread_is() -> None:
    inside = Inside()
    assert not inside.here
    inside.threads += [threading.get_ident()] * 2
    found: list[bool] = []
    other = threading.Thread(target=lambda: found.append(inside.here))
    other.start()
    join(other)
    assert found == [False]
    inside.threads.remove(threading.get_ident())
    assert inside.here
    inside.threads.remove(threading.get_ident())
    assert not inside.here


def test_a_thread_that_has_not_begun_is_not_waited_for() -> None:
    join(threading.Thread(target=lambda: None))


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
