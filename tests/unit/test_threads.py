"""Threads that a dispatcher waits for."""

from __future__ import annotations

import threading

import pytest

from strand.threads import Inside

pytestmark = pytest.mark.python


def test_a_thread_is_inside_as_often_as_it_went_in_and_no_other_thread_is() -> None:
    inside = Inside()
    assert not inside.here
    inside.threads += [threading.get_ident()] * 2
    found: list[bool] = []
    other = threading.Thread(target=lambda: found.append(inside.here))
    other.start()
    other.join()
    assert found == [False]
    inside.threads.remove(threading.get_ident())
    assert inside.here
    inside.threads.remove(threading.get_ident())
    assert not inside.here
