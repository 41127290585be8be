"""A thread that a dispatcher waits for may not wait for the dispatcher: it is told so, and a stop gets out of all."""

from __future__ import annotations

import dis
import os
import sys
import threading
from collections.abc import Callable
from functools import partialmethod
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from engine_support import run_python, ticks_for, wait_until

import strand.dispatch.calls
import strand.dispatch.dispatcher
import strand.dispatch.publishers
from strand import Dispatcher
from strand.binding.gate import Thread
from strand.dispatch.configuration import Pool
from strand.errors import WouldDeadlockError

pytestmark = pytest.mark.python

#: For programs that hang without what is tested: their limit is there for that alone.
PROGRAM = """
import concurrent.futures, random, signal, sys, threading, time
import numpy as np, strand
from strand import Dispatcher
from strand.errors import HandlerError, StoppedError, WouldDeadlockError

def ticks_for(keys):
    ticks = np.zeros(len(keys), strand.TICK)
    ticks["instrument_id"] = keys
    return ticks

@strand.batch_handler(state=[("ticks", "u8")])
def counting(symbol, ticks, row):
    row["ticks"] += len(ticks)

def left():
    return [t.name for t in threading.enumerate() if t.name.startswith("strand")]
"""


def runs(body: str) -> str:
    """The text that a program prints, which ends well."""
    run = run_python(PROGRAM + body, timeout=120)
    assert run.returncode == 0, run.stderr
    return run.stdout


def in_a_handler(act: str) -> str:
    """The error or value that a handler of a dispatcher with outputs gets where it does this."""
    return runs(f"""
@strand.batch_handler(state=[("ticks", "u8")], outputs={{"out": [("a", "u8")]}})
def acts(symbol, ticks, row, ctx):
    row["ticks"] += len(ticks)
    try:
        {act}
    except Exception as error:
        print(type(error).__name__, error)

futures = []
with Dispatcher(1, acts, workers=1, cores=None) as d:
    d.publish(ticks_for([0]))
assert d._inside.threads == []
for future in futures:
    print(future.result(), future.exception())
""")


WAITS = {
    "d.stop()": "call stop(drain=False)",
    "d.drain()": "drain in the thread that publishes the ticks",
    "d.call(0, lambda view: 1)": "use submit_call",
    "d.submit_call(0, lambda view: 1).result()": "use add_done_callback",
    "d.submit_call(0, lambda view: 1).exception(timeout=3600)": "use add_done_callback",
    "list(d.outputs['out'])": "use take()",
}


@pytest.mark.parametrize("wait", WAITS)
def test_a_handler_that_would_wait_for_its_own_dispatcher_is_told_at_once(wait: str) -> None:
    out = in_a_handler(wait)
    assert out.startswith("WouldDeadlockError")
    assert "would wait for itself" in out
    assert WAITS[wait] in out


def test_a_handler_may_look_for_an_answer_without_waiting() -> None:
    out = in_a_handler("futures.append(d.submit_call(0, lambda view: int(view.row['ticks']))); futures[0].result(0)")
    assert out == "TimeoutError \n1 None\n"


def test_a_callback_may_read_the_answer_that_it_is_called_with() -> None:
    answers: list[int] = []
    with Dispatcher(1, "count", workers=1, cores=None) as d:
        d.publish(ticks_for([0] * 7))
        future = d.submit_call(0, lambda view: int(view.row["ticks"]))
        future.add_done_callback(lambda done: answers.append(done.result()))
        d.drain()
        wait_until(lambda: answers == [7])


def test_a_stop_from_elsewhere_gets_out_a_handler_that_waits_for_an_answer_by_other_means() -> None:
    out = runs("""
@strand.batch_handler(state=[("ticks", "u8")])
def waits(symbol, ticks, row):
    future = d.submit_call(0, lambda view: 1)
    waiting.set()
    concurrent.futures.wait([future])
    print(type(future.exception()).__name__)

waiting = threading.Event()
d = Dispatcher(1, waits, workers=1, cores=None).start()
d.publish(ticks_for([0]))
waiting.wait()
time.sleep(0.1)
d.stop(drain=False)
print(left())
""")
    assert out == "StoppedError\n[]\n"


@pytest.mark.parametrize("method", ["on_stop", "on_finish"])
def test_the_end_of_an_object_may_ask_for_the_stop_and_cannot_wait_for_it(method: str) -> None:
    out = runs(f"""
class One:
    def on_tick(self, tick):
        pass

    def {method}(self):
        print(d.stop(drain=False))
        d.stop()

d = Dispatcher(1, One, workers=1, cores=None).start()
d.publish(ticks_for([0]))
try:
    d.stop()
except HandlerError as error:
    print(type(error.__cause__).__name__)
print(left(), d._inside.threads, d.statistics().handled)
""")
    assert out == "False\nWouldDeadlockError\n[] [] 1\n"


def test_all_threads_of_a_dispatcher_are_inside_it_and_no_other_is(tmp_path: Path) -> None:
    """A __del__ may run in any of them, and stop a dispatcher that waits for that thread."""
    d = Dispatcher(2, "bars", workers=2, cores=None, out={"bars": tmp_path / "bars.npy"})
    with d:
        d.publish(ticks_for([0, 1]))
        d.drain()
        own = {t.ident for t in threading.enumerate() if t.name.startswith("strand-")}
        assert len(own) >= (3 if len(os.sched_getaffinity(0)) == 1 else 5)
        assert set(d._inside.threads) == own
    assert d._inside.threads == []


@pytest.mark.parametrize("name", ["strand-outputs", "strand-worker-1"])
def test_an_interrupted_start_leaves_its_thread_free_to_wait(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(thread: Any, start: Any) -> None:
        if thread.name == name:
            raise KeyboardInterrupt
        start(thread)

    for kind in (threading.Thread, Thread):
        monkeypatch.setattr(kind, "start", partialmethod(interrupted, kind.start))
    d = Dispatcher(2, "bars", workers=2, cores=None)
    with pytest.raises(KeyboardInterrupt):
        d.start()
    wait_until(lambda: d._inside.threads == [])
    assert d.stop() is False


# ---- signal handlers


def test_a_signal_handler_may_ask_for_the_stop_wherever_it_comes() -> None:
    """80 rounds: it interrupts publish, drain, call, a result, an output's array, start or stop."""
    out = runs("""
def stop(*_):
    d.stop(drain=False)

random.seed(1)
signal.signal(signal.SIGALRM, stop)
ticks = ticks_for(np.arange(4000) % 4)
for _ in range(80):
    d = Dispatcher(4, random.choice(["count", counting, strand.bars("1s")]), workers=2, cores=None, capacity_ticks=256)
    signal.setitimer(signal.ITIMER_REAL, random.uniform(0.0001, 0.02))
    try:
        d.start()
        while True:
            d.publish(ticks)
            chance = random.random()
            if chance < 0.1:
                d.drain()
            elif chance < 0.2:
                d.call(0, lambda view: 1)
            elif chance < 0.3:
                d.submit_call(0, lambda view: 1).result()
            elif chance < 0.4 and d.outputs:
                d.outputs["bars"].array()
            elif chance < 0.42:
                d.stop()
    except StoppedError:
        pass
    signal.setitimer(signal.ITIMER_REAL, 0)
    d.stop()
    s = d.statistics()
    assert s.accepted == s.handled + sum(s.dropped.values()) and s.pending == 0
    assert left() == [] and d._inside.threads == []
print("ok")
""")
    assert out == "ok\n"


@pytest.mark.parametrize("act", ["stop()", "drain()", "call(0, lambda view: 1)", "publish(ticks[:100])"])
def test_what_a_signal_handler_does_is_done_or_refused_and_never_hangs(act: str) -> None:
    out = runs(f"""
def acts(*_):
    try:
        d.{act}
    except (StoppedError, WouldDeadlockError):
        pass
    signal.setitimer(signal.ITIMER_REAL, 0.003)

random.seed(2)
signal.signal(signal.SIGALRM, acts)
ticks = ticks_for(np.arange(4000) % 4)
for i in range(20):
    handler = random.choice(["count", counting, strand.bars("1s")])
    participants = random.choice([1, 8])
    pool = strand.Pool(workers=2, cores=None, max_publishers=participants)
    d = Dispatcher(4, handler, pool=pool, capacity_ticks=256).start()
    signal.setitimer(signal.ITIMER_REAL, random.uniform(0.0002, 0.02))
    try:
        for _ in range(20):
            d.publish(ticks)
            d.call(0, lambda view: 1)
            if d.outputs:
                d.outputs["bars"].array()
        d.stop()
    except (StoppedError, WouldDeadlockError):
        pass
    signal.setitimer(signal.ITIMER_REAL, 0)
    d.stop(drain=False)
    assert left() == [] and d._inside.threads == []
print("ok")
""")
    assert out == "ok\n"


def test_a_signal_handler_may_stop_while_an_object_is_stopped() -> None:
    out = runs("""
class Slow:
    def on_tick(self, tick):
        pass

    def on_stop(self):
        signal.raise_signal(signal.SIGUSR1)

def stop(*_):
    print(d.stop(drain=False))

signal.signal(signal.SIGUSR1, stop)
d = Dispatcher(1, Slow, workers=1, cores=None).start()
d.publish(ticks_for([0]))
print(d.stop())
""")
    assert out == "False\nTrue\n"


def test_a_signal_handler_cannot_publish_while_its_own_thread_does() -> None:
    out = runs("""
def publish(*_):
    try:
        d.publish(ticks_for([1]))
    except WouldDeadlockError as error:
        print(str(error).rpartition(": ")[2])
    d.resume(0)

signal.signal(signal.SIGALRM, publish)
d = Dispatcher(2, counting, pool=strand.Pool(workers=1, cores=None, max_publishers=1), capacity_ticks=10)
with d:
    d.pause(0)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    print(d.publish(ticks_for([0] * 100)))
""")
    assert out == "publish after that\n100\n"


#: After these Python looks for signals.
LOOKS = {"CALL", "CALL_KW", "CALL_FUNCTION_EX", "RESUME", "JUMP_BACKWARD"}
CODE = {
    strand.dispatch.publishers.__file__,
    strand.dispatch.dispatcher.__file__,
    strand.dispatch.calls.__file__,
    strand.binding.engine.__file__,
    strand.threads.__file__,
}
CALLS: dict[str, Callable[[Dispatcher], object]] = {
    "publish": lambda d: d.publish(ticks_for([0] * 10)),
    "drain": lambda d: d.drain(),
    "call": lambda d: d.call(0, lambda view: 1),
}


def interrupted(call: Callable[[], object], place: int, by: Callable[[], object]) -> bool:
    """Makes a call, and does ``by`` at the n-th place where Python may run a signal handler in it. False: there are not
    so many."""
    passed, looked = 0, False

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal passed, looked
        if frame.f_code.co_filename not in CODE:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            if looked:
                passed += 1
                if passed == place + 1:
                    by()
            looked = dis.opname[frame.f_code.co_code[frame.f_lasti]] in LOOKS
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return passed > place


@pytest.mark.parametrize("name", CALLS)
def test_a_signal_handler_that_publishes_is_done_or_refused_at_each_place_of_a_call(name: str) -> None:
    done = refused = places = 0

    def publish() -> None:
        nonlocal done, refused
        try:
            d.publish(ticks_for([1]), timeout_s=10)
            done += 1
        except WouldDeadlockError:
            refused += 1

    with Dispatcher(2, "count", pool=Pool(workers=1, cores=None, max_publishers=1)) as d:
        while interrupted(lambda: CALLS[name](d), places, publish):
            places += 1
        d.drain()
        assert done > 5
        assert refused > 2 or name == "call"  # which has nothing of the dispatcher while it waits
        assert done + refused == places
        assert int(d.rows[1]["ticks"]) == done


@pytest.mark.parametrize("name", ["publish", "drain"])
def test_an_interrupt_at_any_place_of_a_call_keeps_no_publisher_s_slot(name: str) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    place, over = 0, False
    while not over:
        with Dispatcher(2, "count", pool=Pool(workers=1, cores=None, max_publishers=1)) as d:
            try:
                over = not interrupted(lambda: CALLS[name](d), place, interrupt)
            except KeyboardInterrupt:
                place += 1
            other = threading.Thread(target=d.publish, args=(ticks_for([1]),), kwargs={"timeout_s": 10})
            other.start()
            other.join()
            assert d.drain(timeout_s=10)
            assert int(d.rows[1]["ticks"]) == 1
    assert place > 10


# ---- publishers that wait


@pytest.mark.parametrize("drain", [True, False])
def test_a_stop_ends_a_publisher_that_waits_on_a_paused_strand_and_so_the_process(drain: bool) -> None:
    """A thread that is no daemon keeps a process alive: only a stop ends its wait."""
    out = runs(f"""
def publish():
    try:
        d.publish(ticks_for([0] * 100))
    except StoppedError:
        print("stopped")

d = Dispatcher(1, counting, workers=1, cores=None, capacity_ticks=10).start()
d.pause(0)
publisher = threading.Thread(target=publish)
publisher.start()
while d.inspect(0).pending < 10:
    time.sleep(0.001)
stopped = d.stop(drain={drain})
publisher.join()
print(stopped)
""")
    assert out == "stopped\nFalse\n"
