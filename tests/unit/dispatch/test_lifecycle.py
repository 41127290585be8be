"""Start, drain, pause, stop: what is promised of each, and that no thread is left behind."""

from __future__ import annotations

import contextlib
import gc
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_support import (
    balanced,
    counting,
    native_gate,
    native_halt,
    run_python,
    ticks_for,
    wait_until,
    worker_threads,
)

import strand
from strand import Dispatcher, batch_handler
from strand.dispatch.configuration import Pool
from strand.errors import BackpressureError, StoppedError


def test_leaving_the_context_drains_and_leaves_no_thread() -> None:
    with Dispatcher(10, counting, workers=3, cores=None) as d:
        assert len(worker_threads()) == 3
        d.publish(ticks_for(np.arange(10_000) % 10))
    assert worker_threads() == []
    assert d.rows.array["ticks"].tolist() == [1_000] * 10
    s = d.statistics()
    assert (s.handled, s.pending, sum(s.dropped.values())) == (10_000, 0, 0)
    d.verify()


@pytest.mark.parametrize("idle", ["spin", "backoff", "park"])
def test_leaving_by_an_exception_abandons_what_is_pending_and_counts_it(idle: str) -> None:
    with pytest.raises(ZeroDivisionError), Dispatcher(4, counting, workers=2, cores=None, idle=idle) as d:
        d.pause(0)
        d.publish(ticks_for([0] * 500))
        raise ZeroDivisionError
    assert worker_threads() == []
    s = d.statistics()
    assert (s.accepted, s.handled, s.dropped["abandoned"], s.pending) == (500, 0, 500, 0)
    d.verify()


@contextlib.contextmanager
def once_it_stops(d: Dispatcher, act: Callable[[], object]) -> Iterator[None]:
    """In the block somebody stops the dispatcher, and then another thread does this."""

    def wait_and_act() -> None:
        wait_until(lambda: d._engine.stopping)
        act()

    thread = threading.Thread(target=wait_and_act)
    thread.start()
    yield
    thread.join()


def test_stopping_without_draining_ends_at_the_visit_under_way() -> None:
    first, go = threading.Event(), threading.Event()

    @batch_handler(state=[("ticks", "u8")])
    def waits(symbol: str, ticks: Any, row: Any) -> None:
        first.set()
        go.wait()
        row["ticks"] += len(ticks)

    d = Dispatcher(1, waits, workers=1, cores=None, budget_ticks=10).start()
    d.publish(ticks_for([0] * 100))
    first.wait()
    with once_it_stops(d, go.set):
        assert d.stop(drain=False) is False
    s = d.statistics()
    assert s.handled < 100
    assert s.handled + s.dropped["abandoned"] == 100
    assert s.pending == 0
    assert d.rows[0]["ticks"] == s.handled
    balanced(d)


def test_a_drain_with_a_time_limit_gives_up_and_a_later_one_finishes(c_handlers: Path) -> None:
    handler, gate = native_gate(c_handlers)
    with Dispatcher(2, handler, workers=1, cores=None, publisher_drains=False) as d:
        assert d.drain(timeout_s=0)
        ticks = ticks_for([0])
        ticks["action"] = b"W"
        d.publish(ticks)
        try:
            assert not d.drain(timeout_s=0)
            assert not d.drain(timeout_s=0.01)
            assert not d.drain(timeout_s=-1)
            assert d.statistics().pending == 1
        finally:
            gate[0] = 1
        assert d.drain(timeout_s=60)
        assert d.drain(timeout_s=0)


def test_a_stop_with_a_time_limit_abandons_what_is_left_and_waits_for_the_visit(c_handlers: Path) -> None:
    handler, halt = native_halt(c_handlers, 1)
    d = Dispatcher(2, handler, workers=1, cores=None, publisher_drains=False, budget_ticks=1).start()
    d.publish(ticks_for([0, 0, 0]))
    wait_until(lambda: halt[1] == 1)
    with once_it_stops(d, lambda: halt.__setitem__(2, 1)):
        assert d.stop(timeout_s=0.01) is False
    s = d.statistics()
    assert (s.handled + s.dropped["abandoned"], s.pending) == (3, 0)
    assert s.handled >= 1
    balanced(d)


def test_a_stopped_dispatcher_refuses_and_says_so_and_keeps_its_rows() -> None:
    d = Dispatcher(["A"], counting, workers=1, cores=None)
    with d:
        d.publish(ticks_for([0]))
    assert d.stop() is False
    for call in (lambda: d.publish(ticks_for([0])), d.drain, d.start, d.__enter__):
        with pytest.raises(StoppedError, match="stopped"):
            call()
    assert d.rows["A"]["ticks"] == 1
    assert d.inspect("A").handled == 1
    assert d.watermark() == 1
    assert d.rows.array["ticks"][0] == 1


def test_rows_taken_while_running_stay_readable_when_the_dispatcher_is_gone() -> None:
    with Dispatcher(["A"], "count", workers=1, cores=None) as d:
        array, row = d.rows.array, d.rows["A"]
        d.publish(ticks_for([0] * 3))
        d.drain()
    del d
    assert (array["ticks"][0], row["ticks"]) == (3, 3)


def test_starting_twice_is_starting_once() -> None:
    d = Dispatcher(1, counting, workers=2, cores=None)
    with d.start(), d:
        assert len(worker_threads()) == 2


def test_waiting_for_a_dispatcher_that_was_never_started_is_refused() -> None:
    d = Dispatcher(1, counting, workers=1, cores=None, capacity_ticks=4)
    assert d.drain()
    d.publish(ticks_for([0] * 3))
    with pytest.raises(StoppedError, match="start"):
        d.drain()
    with pytest.raises(BackpressureError, match="start") as caught:
        d.publish(ticks_for([0] * 3))
    assert caught.value.rejected.tolist() == [1, 2]
    d.start()
    assert d.drain()
    assert d.rows[0]["ticks"] == 4
    d.stop()


def test_a_native_dispatcher_that_was_never_started_is_drained_by_its_publisher() -> None:
    d = Dispatcher(5, "count", workers=1, cores=None, capacity_ticks=100)
    d.publish(ticks_for(np.arange(10_000) % 5))
    assert d.drain()
    assert d.rows.array["ticks"].tolist() == [2_000] * 5
    assert d.stop() is True


def test_a_handler_may_ask_for_the_stop() -> None:
    @batch_handler(state=[("ticks", "u8")])
    def until_five(symbol: str, ticks: Any, row: Any) -> None:
        row["ticks"] += len(ticks)
        if row["ticks"] == 5:
            assert d.stop(drain=False) is False

    with Dispatcher(1, until_five, workers=1, cores=None, budget_ticks=1) as d:
        d.publish(ticks_for([0] * 20))
        with pytest.raises(StoppedError):
            d.drain()
    assert d.rows[0]["ticks"] == 5
    s = d.statistics()
    assert (s.handled, s.dropped["abandoned"], s.pending) == (5, 15, 0)
    balanced(d)


def test_several_threads_may_stop_and_all_of_them_find_it_stopped() -> None:
    for _ in range(10):
        d = Dispatcher(4, counting, workers=2, cores=None).start()
        d.publish(ticks_for(np.arange(1_000) % 4))
        alive: list[int] = []

        def stop(d: Dispatcher = d, alive: list[int] = alive) -> None:
            d.stop()
            alive.append(sum(t.is_alive() for t in d._state.threads))

        threads = [threading.Thread(target=stop) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert alive == [0] * 4
        balanced(d)


def test_publishers_in_other_threads_are_out_before_rows_and_books_are_final() -> None:
    """They run handlers too, and must not be caught in the middle of one."""
    for _ in range(10):
        d = Dispatcher(8, "spin", workers=1, cores=None).start()
        ends: list[str] = []

        def publish(d: Dispatcher = d, ends: list[str] = ends) -> None:
            ticks = ticks_for(np.random.default_rng().integers(0, 8, 50_000))
            try:
                while True:
                    d.publish(ticks)
            except StoppedError:
                ends.append("stopped")

        threads = [threading.Thread(target=publish) for _ in range(3)]
        for thread in threads:
            thread.start()
        wait_until(lambda d=d: d.statistics().handled > 0)  # type: ignore[misc]
        d.stop(drain=False)
        rows, before = d.rows.array.copy(), d.statistics()
        for thread in threads:
            thread.join()
        after = d.statistics()
        assert ends == ["stopped"] * 3
        assert (before.accepted, before.handled, before.dropped) == (after.accepted, after.handled, after.dropped)
        assert rows["ticks"].sum() == after.handled
        assert after.pending == 0
        balanced(d)


def test_a_time_limit_holds_even_where_all_publishers_slots_are_taken() -> None:
    with Dispatcher(1, counting, pool=Pool(workers=1, cores=None, max_publishers=1), capacity_ticks=4) as d:
        d.pause(0)
        other = threading.Thread(target=d.publish, args=(ticks_for([0] * 5),))
        other.start()
        wait_until(lambda: d.inspect(0).pending == 4)
        with pytest.raises(BackpressureError) as caught:
            d.publish(ticks_for([0] * 3), timeout_s=0.01)
        assert caught.value.rejected.tolist() == [0, 1, 2]
        assert d.drain()  # everything but what is held back
        d.resume(0)
        other.join()
        d.drain()
        assert d.rows[0]["ticks"] == 5


PROGRAM = """
    import gc, sys, threading, time
    import numpy as np, strand

    gc.unfreeze()  # the interpreter's end is to collect the imported modules too

    @strand.batch_handler(state=[("ticks", "u8")])
    def counting(symbol, ticks, row):
        row["ticks"] += len(ticks)

    @strand.batch_handler(state=[("ticks", "u8")])
    def slow(symbol, ticks, row):
        time.sleep(0.001)

    ticks = strand.ticks.zeros(1000)
    ticks["instrument_id"] = np.arange(1000) % 4
"""


def program(body: str) -> str:
    return textwrap.dedent(PROGRAM) + textwrap.dedent(body)


@pytest.mark.cells(1)
@pytest.mark.parametrize("idle", ["spin", "backoff", "park"])
@pytest.mark.parametrize("handler", ["counting", "'count'", "slow"])
@pytest.mark.parametrize(
    ("ending", "status"), [("", 0), ("sys.exit(3)", 3), ("raise ZeroDivisionError", 1)], ids=["end", "exit", "error"]
)
def test_the_interpreter_may_end_while_a_dispatcher_runs(idle: str, handler: str, ending: str, status: int) -> None:
    code = program(f"""
        d = strand.Dispatcher(4, {handler}, workers=2, cores=None, idle={idle!r}, budget_ticks=1).start()
        d.publish(ticks)
        {ending}
    """)
    result = run_python(code)
    assert result.returncode == status
    assert ("ZeroDivisionError" in result.stderr) == (status == 1)
    assert "Fatal" not in result.stderr
    assert (result.stderr == "") == (status != 1)


def test_the_interpreter_may_end_while_another_thread_waits_for_room() -> None:
    result = run_python(
        program("""
        d = strand.Dispatcher(4, counting, workers=2, cores=None, capacity_ticks=10).start()
        d.pause(0)
        threading.Thread(target=d.publish, args=(ticks,), daemon=True).start()
        while d.inspect(0).pending < 10:
            time.sleep(0.001)
        print("ending")
    """)
    )
    assert (result.returncode, result.stdout) == (0, "ending\n")
    assert "Fatal" not in result.stderr


INTERRUPTED = {
    "publish": "d.pause(0); say(); d.publish(ticks)",
    "drain": "d.publish(hard); say(); d.drain()",
    "the end of the block": "d.publish(hard); say()",
    "the body": "d.publish(hard); say(); time.sleep(60)",
}


@pytest.mark.parametrize("where", INTERRUPTED)
def test_ctrl_c_ends_a_run_wherever_it_waits(where: str) -> None:
    code = program(f"""
        def say():
            print("waiting", flush=True)

        @strand.batch_handler(state=[("ticks", "u8")])
        def hours(symbol, ticks, row):
            time.sleep(0.01)

        hard = strand.ticks.zeros(100_000)
        bound = {10 if where == "publish" else 100_000}
        try:
            with strand.Dispatcher(4, hours, workers=2, cores=None, capacity_ticks=bound,
                                   budget_ticks=1) as d:
                {INTERRUPTED[where]}
        except KeyboardInterrupt:
            s = d.statistics()
            d.verify()
            left = [t for t in threading.enumerate() if t.name.startswith("strand")]
            print(s.accepted == s.handled + sum(s.dropped.values()), s.pending, len(left), flush=True)
            raise
    """)
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert out == "True 0 0\n", err
    assert err.rstrip().endswith("KeyboardInterrupt")
    assert process.returncode == -signal.SIGINT


@pytest.mark.parametrize("handler", ["count", counting])
def test_a_dispatcher_that_is_dropped_ends_its_workers_and_leaves_no_file(handler: Any, tmp_path: Path) -> None:
    d = Dispatcher(4, handler, workers=2, cores=None).start()
    d.publish(ticks_for([0, 1, 2, 3] * 100))
    d.drain()
    rows = d.rows
    d.pause(0)
    answer = d.submit_call(0, lambda view: 1)
    with pytest.warns(ResourceWarning, match="deleted before it was stopped"):
        del d
    wait_until(lambda: worker_threads() == [])
    with pytest.raises(StoppedError, match="deleted before it was stopped"):
        answer.result(60)
    assert rows.array["ticks"].tolist() == [100] * 4

    d = Dispatcher(4, strand.bars("1s"), workers=1, cores=None, out={"bars": tmp_path / "bars.npy"}).start()
    assert len(list(tmp_path.iterdir())) == 1
    with pytest.warns(ResourceWarning, match="deleted before it was stopped"):
        del d
    wait_until(lambda: list(tmp_path.iterdir()) == [])


def test_a_dispatcher_that_was_stopped_or_never_started_is_dropped_in_silence() -> None:
    stopped = Dispatcher(4, "count", workers=1, cores=None).start()
    stopped.stop()
    never = Dispatcher(4, "count", workers=1, cores=None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del stopped, never
        gc.collect()


def test_a_forked_process_is_refused_and_leaves_everything_to_its_parent(tmp_path: Path) -> None:
    result = run_python(
        """
        import os, sys, threading
        import numpy as np
        import strand
        from strand.errors import StoppedError

        @strand.batch_handler(state=[("n", "u8")], outputs={"seen": [("n", "u8")]})
        def emits(symbol, ticks, row, ctx):
            row["n"] += len(ticks)
            ctx.emit((row["n"],), at=0)

        ticks = strand.ticks.zeros(100)
        d = strand.Dispatcher(1, emits, workers=2, cores=None, capacity_ticks=500, out={"seen": sys.argv[1]}).start()
        d.publish(ticks)
        d.drain()
        d.pause(0)
        d.publish(strand.ticks.zeros(500))
        waits = threading.Thread(target=lambda: d.publish(ticks))  # holds a publisher's participant when the fork comes
        waits.start()
        while all(held.number is None for held in list(d._publishers._held.values())):
            pass
        child = os.fork()
        if child == 0:
            for call in (lambda: d.publish(ticks), d.drain, lambda: d.call(0, print), lambda: d.submit_call(0, print)):
                try:
                    call()
                except StoppedError as error:
                    print(error, flush=True)
            print(d.stop(), flush=True)
            with strand.Dispatcher(1, "count", workers=1, cores=None) as own:
                own.publish(ticks)
            print(own.rows[0]["ticks"], flush=True)
            sys.exit(7)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        d.resume(0)
        waits.join()
        print(d.stop(), d.rows[0]["n"])
        """,
        str(tmp_path / "seen.npy"),
    )
    said = "this process was forked from the one that has the dispatcher's workers: make a new dispatcher here"
    assert result.stdout.splitlines() == [said] * 4 + ["False", "100", "7", "True 700"], result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["seen.npy"]
    assert np.load(tmp_path / "seen.npy")["n"].max() == 700
