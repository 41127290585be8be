"""The scheduler: an executor over the engine, under every policy, and where its tasks run."""

from __future__ import annotations

import concurrent.futures
import ctypes
import gc
import os
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import pytest
from engine_support import balanced, ticks_for
from order_recorder import Recorder

import strand
from strand import Aging, Dispatcher, Fair, Fifo, Levels, NativeTask, Scheduler, TaskGroup
from strand.binding.engine import Engine
from strand.binding.engine_words import RunByPython
from strand.binding.gate import Code
from strand.binding.tasks import Suspension
from strand.dispatch import guarding
from strand.dispatch.guard import Reading
from strand.errors import ConfigurationError, QueueFull, StoppedError, WouldDeadlockError
from strand.tasks import TaskFuture
from strand.tasks.places import Places, Seat, TasksAlone, seat_here
from strand.tasks.pool import Pool
from strand.tasks.scheduler import _config
from strand.tasks.tasks import Tasks

POLICIES = [Fifo(), Levels(), Aging(coefficient=1.0), Fair()]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: type(policy).__name__)
def test_it_is_an_executor_under_every_policy(policy: Any) -> None:
    with Scheduler(3, policy=policy) as scheduler:
        assert isinstance(scheduler, concurrent.futures.Executor)
        assert scheduler.workers == 3
        assert scheduler.submit(pow, 2, exp=10).result(60) == 1024
        assert list(scheduler.map(abs, range(-5, 5))) == [abs(i) for i in range(-5, 5)]
        futures = scheduler.submit_many(divmod, range(1000), [7] * 1000)
        _, left = concurrent.futures.wait(futures, 60)
        assert not left
        assert [future.result() for future in futures] == [divmod(i, 7) for i in range(1000)]
        with pytest.raises(ZeroDivisionError):
            scheduler.submit(divmod, 1, 0).result(60)
    with pytest.raises(StoppedError):
        scheduler.submit(print)
    scheduler._engine.verify()


def test_none_and_0_workers_are_all_cores_and_others_are_refused() -> None:
    for given in (None, 0):
        with Scheduler(given) as scheduler:
            assert scheduler.workers == len(os.sched_getaffinity(0))
    for wrong in (-1, 1025, 1.5, "2"):
        with pytest.raises(ConfigurationError, match="workers"):
            Scheduler(wrong)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="policy"):
        Scheduler(1, policy="levels")  # type: ignore[arg-type]


def test_a_file_gives_what_is_not_given_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text(
        '[policy]\nname = "levels"\nhold = {low = "20ms"}\n[worker_pool]\nmax_workers = 3\ntotal_capacity_ticks = 2\n'
        '[retry_policy]\nmax_attempts = 2\ninitial_backoff = "1ms"\n'
    )
    for config in (file, str(file), strand.Config.load(file)):
        with Scheduler(config=config) as scheduler:
            assert scheduler.workers == 3
            failed = scheduler.submit(divmod, 1, 0)
            with pytest.raises(ZeroDivisionError):
                failed.result(60)
            assert (failed.state, failed.attempts) == ("dead", 2)
            once = scheduler.options(retry=strand.RetryPolicy(max_retries=0)).submit(divmod, 1, 0)
            assert once.exception(60)
            assert once.attempts == 1
            low = scheduler.options(priority="low").submit(int)
            assert low.result(60) == 0
            assert low.waited_ns >= 20_000_000
            with pytest.raises(QueueFull):
                scheduler.submit_many(int, "123")
    never = strand.RetryPolicy(max_retries=0)
    with Scheduler(0, 0, policy=Fifo(), retry=never, config=file) as scheduler:
        assert scheduler.workers == len(os.sched_getaffinity(0))
        assert len(scheduler.options(key="k").submit_many(int, "12345")) == 5
        failed = scheduler.submit(divmod, 1, 0)
        assert failed.exception(60)
        assert failed.attempts == 1
        with pytest.raises(ConfigurationError, match="priority"):
            scheduler.options(priority="low")


def test_without_a_file_a_task_that_fails_is_not_tried_again() -> None:
    with Scheduler(1) as scheduler:
        failed = scheduler.submit(divmod, 1, 0)
        assert failed.exception(60)
        assert (failed.state, failed.attempts) == ("failed", 1)
        assert scheduler.guard_statistics() is None


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"config": 3}, "config: 3 is neither a strand.Config nor the path of a file"),
        ({"config": "none.toml"}, "none.toml"),
        ({"guard": 0.8}, "guard: 0.8 is not a strand.Guard"),
        ({"guard": strand.Guard(), "policy": Fifo()}, "guard: Fifo has no levels"),
        ({"retry": 3}, "retry: 3 is not a strand.RetryPolicy"),
        ({"max_queue": -1}, "max_queue"),
    ],
)
def test_what_cannot_work_is_refused_and_leaves_no_thread(given: dict[str, Any], says: str) -> None:
    threads = set(threading.enumerate())
    with pytest.raises(ConfigurationError, match=says):
        Scheduler(1, **given)
    assert set(threading.enumerate()) <= threads


class Machine:
    """``cpu``, ``memory``, ``io``: what a guard measures."""

    def __init__(self) -> None:
        self.cpu = self.memory = self.io = 0.0
        self.sources = {"cpu": "a test", "memory": "a test", "io": "a test"}
        self.lacks_io = False

    def read(self) -> Reading:
        return Reading(self.cpu, self.memory, self.io)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine()
    monkeypatch.setattr(guarding, "Meters", lambda guard: made)
    return made


GUARD = strand.Guard(every="1ms", max_hold="1h")


def wait_until(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.001)


def holds(scheduler: Scheduler, *resources: str) -> Callable[[], bool]:
    def is_so() -> bool:
        found = scheduler.guard_statistics()
        assert found is not None
        return {name for name, decided in found.items() if decided.holding} == {*resources}

    return is_so


def test_the_guard_holds_tasks_back_by_level_and_mark_and_lets_them_go(machine: Machine) -> None:
    with Scheduler(2, guard=GUARD) as scheduler:
        machine.cpu = machine.memory = machine.io = 0.9
        wait_until(holds(scheduler, "cpu", "memory", "io"))
        held = [
            scheduler.options(priority="low").submit(int),
            scheduler.submit(int),
            scheduler.options(priority="immediate", marks="io").submit(int),
        ]
        freeing = scheduler.options(priority="low", marks="frees_memory").submit(int)
        assert scheduler.options(priority="high").submit(int).result(60) == 0
        assert freeing.result(60) == 0
        assert [future.state for future in held] == ["waiting"] * 3
        machine.memory = 0.0
        assert held[1].result(60) == 0
        machine.io = 0.0
        assert held[2].result(60) == 0
        assert held[0].state == "waiting"
        machine.cpu = 0.0
        assert held[0].result(60) == 0


def test_a_shutdown_ends_the_guard_and_runs_what_it_held_back(machine: Machine) -> None:
    threads = set(threading.enumerate())
    machine.cpu = 1.0
    with Scheduler(1, guard=GUARD) as scheduler:
        wait_until(holds(scheduler, "cpu"))
        low = scheduler.options(priority="low").submit(int)
        scheduler.submit(int).result(60)
        assert low.state == "waiting"
    assert low.result(0) == 0
    assert holds(scheduler)()
    assert set(threading.enumerate()) <= threads


def test_a_guarded_scheduler_that_nobody_refers_to_ends_and_runs_what_was_held_back(machine: Machine) -> None:
    threads = set(threading.enumerate())
    machine.cpu = 1.0
    scheduler = Scheduler(1, guard=GUARD)
    wait_until(holds(scheduler, "cpu"))
    low = scheduler.options(priority="low").submit(int)
    del scheduler
    gc.collect()
    assert low.result(60) == 0
    wait_until(lambda: set(threading.enumerate()) <= threads)


def test_a_higher_level_is_taken_first_and_a_level_in_order() -> None:
    ran: list[str] = []
    gate = threading.Event()
    with Scheduler(1) as scheduler:
        blocker = scheduler.submit(gate.wait, 60)
        while not blocker.running():
            time.sleep(0.001)
        for level in ("low", "normal", "high", "immediate", "low", "high"):
            scheduler.options(priority=level).submit(ran.append, level)
        late = scheduler.options(priority="low").submit(ran.append, "raised")
        assert late.reprioritise("immediate")
        assert scheduler.pending_count()["high"] == 2
        gate.set()
    assert ran == ["immediate", "raised", "high", "high", "normal", "low", "low"]


def test_a_group_has_its_share_of_time() -> None:
    policy = Fair(slice_ms=2, weights={"three": 3})
    spent: dict[str, float] = defaultdict(float)
    enough = threading.Event()

    def burn(name: str) -> None:
        begun = time.thread_time()
        while time.thread_time() - begun < 0.001:
            pass
        # Over so much time on a core, however long that takes beside others: then a slice makes no difference.
        if sum(spent.values()) < 1:
            spent[name] += time.thread_time() - begun
        else:
            enough.set()

    with Scheduler(1, policy=policy) as scheduler:
        for name in ("one", "three"):
            scheduler.options(group=TaskGroup(name)).submit_many(burn, [name] * 3000)
        assert enough.wait(100)
        scheduler.shutdown(cancel_futures=True)
    assert spent["three"] / (spent["one"] + spent["three"]) == pytest.approx(0.75, abs=0.06)


def test_the_bound_of_the_queue_is_exact() -> None:
    gate = threading.Event()
    with Scheduler(1, max_queue=3) as scheduler:
        blocker = scheduler.submit(gate.wait, 60)
        while not blocker.running():
            time.sleep(0.001)
        futures = [scheduler.submit(int) for _ in range(3)]
        with pytest.raises(QueueFull, match="max_queue"):
            scheduler.submit(int)
        with pytest.raises(QueueFull):
            scheduler.submit_many(int, "12")
        assert futures[0].cancel()
        again = scheduler.submit(int)
        gate.set()
        assert again.result(60) == 0


def test_one_that_nobody_refers_to_ends_with_its_last_task() -> None:
    threads = set(threading.enumerate())
    gate = threading.Event()
    scheduler = Scheduler(2)
    view = scheduler.options(priority="high")
    future = view.submit(gate.wait, 60)
    del scheduler
    gc.collect()
    assert view.submit(int).result(60) == 0
    del view
    gc.collect()
    assert len(set(threading.enumerate()) - threads) == 2
    gate.set()
    assert future.result(60)
    until = time.monotonic() + 60
    while set(threading.enumerate()) - threads and time.monotonic() < until:
        time.sleep(0.001)
    assert set(threading.enumerate()) <= threads


def test_a_shutdown_that_does_not_wait_ends_the_threads_after_the_last_task() -> None:
    threads = set(threading.enumerate())
    scheduler = Scheduler(2)
    futures = scheduler.submit_many(time.sleep, [0.01] * 10)
    scheduler.shutdown(wait=False)
    with pytest.raises(StoppedError):
        scheduler.submit(int)
    concurrent.futures.wait(futures, 60)
    assert all(future.result() is None for future in futures)
    until = time.monotonic() + 60
    while set(threading.enumerate()) - threads and time.monotonic() < until:
        time.sleep(0.001)
    assert set(threading.enumerate()) <= threads


def test_at_the_end_of_the_program_what_waits_is_run_and_what_is_delayed_is_cancelled() -> None:
    program = """
import strand, time
scheduler = strand.Scheduler(2)
later = scheduler.options(delay="1h").submit(print, "never")
later.add_done_callback(lambda future: print("cancelled" if future.cancelled() else "run", flush=True))
ran = scheduler.submit_many(lambda i: time.sleep(0.01) or print(f'{i} ', end='', flush=True), range(20))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(done.stdout.split()) == sorted(["cancelled", *map(str, range(20))])


@pytest.mark.parametrize(("io_bound", "per_core"), [(False, 1), (True, 2)])
def test_tasks_that_mostly_sleep_have_twice_as_many_workers_where_nobody_says_how_many(
    io_bound: bool, per_core: int
) -> None:
    with Scheduler(io_bound=io_bound) as scheduler:
        assert scheduler.workers == per_core * len(os.sched_getaffinity(0))
    with Scheduler(3, io_bound=io_bound) as scheduler:
        assert scheduler.workers == 3


def test_the_load_says_how_many_workers_are_active() -> None:
    gate, running = threading.Event(), []

    def waits(n: int) -> None:
        running.append(n)
        gate.wait(60)

    with Scheduler(4, min_workers=1) as scheduler:

        def active() -> int:
            found = scheduler.active_statistics()
            assert found is not None
            return found.now

        assert active() == 1
        futures = [scheduler.submit(waits, n) for n in range(20)]
        wait_until(lambda: len(running) == 4)
        assert active() == 4
        gate.set()
        assert [future.result(60) for future in futures] == [None] * 20
        wait_until(lambda: active() == 1)
    with Scheduler(4) as scheduler:
        assert scheduler.active_statistics() is None
    with pytest.raises(ConfigurationError, match="min_workers"):
        Scheduler(2, min_workers=3)


# ---- 10,000 tasks that do what they should not, on two workers: of a scheduler, and of a dispatcher beside its


TASKS = 10_000
KEYS = 20
TICKS = 400  # of each symbol

policies = pytest.mark.parametrize(
    "policy", [Fifo(), Levels(), Aging(), Fair()], ids=lambda policy: type(policy).__name__
)


class ManOrBoy:
    """Tasks that raise, sleep, submit others, raise SystemExit, cancel each other, and wait for each other's results,
    200 at a time. ``symbols``: whether there are symbols, whose turns some of them take."""

    def __init__(self, tasks: Tasks, symbols: bool) -> None:
        self.tasks = tasks
        self.futures: list[TaskFuture] = []
        self.waited: list[str] = []
        #: By key and symbol: what was submitted, and what began.
        self.submitted: dict[int, list[tuple[int, TaskFuture]]] = defaultdict(list)
        self.begun: dict[int, list[int]] = defaultdict(list)
        self.orders: list[dict[str, Any]] = [{"key": f"key {k}"} for k in range(KEYS)]
        if symbols:
            self.orders += [{"symbol": k} for k in range(KEYS)]
        self._waits = threading.Semaphore(200)

    def run(self) -> None:
        in_order = [self.tasks.options(**order) for order in self.orders]
        for i in range(TASKS):
            if i % 3:
                self.futures.append(self.tasks.submit(self.act, i, None))
            else:
                at = i // 3 % len(in_order)
                future = in_order[at].submit(self.act, i, at)
                self.submitted[at].append((i, future))
                self.futures.append(future)
        assert self.tasks.submit(pow, 2, 3).result(60) == 8

    def act(self, i: int, order: int | None) -> int:
        if order is not None:
            self.begun[order].append(i)
        other = self.futures[i * 7919 % len(self.futures)] if self.futures else None
        if i % 11 == 1:
            raise ValueError(i)
        if i % 97 == 2:
            raise SystemExit(i)
        if i % 101 == 3:
            time.sleep(0.002)
        if i % 5 == 4 and other is not None:
            other.cancel()
        if i % 13 == 5:
            self.futures.append(self.tasks.submit(self.act, i // 13, None))
        if i % 7 == 6 and other is not None and self._waits.acquire(blocking=False):
            try:
                other.exception()
                self.waited.append("ended")
            except (CancelledError, WouldDeadlockError) as error:
                self.waited.append(type(error).__name__)
            finally:
                self._waits.release()
        return i

    def check(self, threads: int) -> None:
        """At the end. ``threads``: how many there were before."""
        assert set(threading.enumerate()) <= threads
        assert {"ended"} <= set(self.waited) <= {"ended", "CancelledError", "WouldDeadlockError"}
        assert all(future.done() for future in self.futures)
        ends = Counter(future.state for future in self.futures)
        assert set(ends) == {"done", "failed", "cancelled"}
        assert len(self.futures) > TASKS
        found = self.tasks.statistics()
        ends["done"] += 1  # the one in ``run``
        assert {end: n for end, n in found.ended.items() if n} == ends
        assert (found.pending, found.submitted) == (0, ends.total())
        assert not any(self.tasks.pending_count().values())
        assert {**self.begun} == {
            order: [i for i, future in all_of_it if not future.cancelled()]
            for order, all_of_it in self.submitted.items()
        }


@policies
def test_man_or_boy_of_a_scheduler(policy: Any) -> None:
    threads = set(threading.enumerate())
    with Scheduler(2, policy=policy) as scheduler:
        them = ManOrBoy(scheduler, symbols=False)
        them.run()
        assert scheduler.thread_counts().refused == 0
    them.check(threads)
    totals = scheduler._engine.tasks.totals(on_strands=False)
    assert totals.submitted == totals.ended


@pytest.mark.cells(1)
@policies
@pytest.mark.parametrize("handler", ["C", "Python"])
def test_man_or_boy_of_a_dispatcher_beside_its_ticks(handler: str, policy: Any) -> None:
    """All ticks of each symbol come in order, and none is lost."""
    threads = set(threading.enumerate())
    recorder = Recorder(KEYS)
    ticks = ticks_for([k for _ in range(TICKS) for k in range(KEYS)])
    with Dispatcher(
        KEYS, "spin" if handler == "C" else recorder.handler(), workers=2, cores=None, policy=policy
    ) as dispatcher:
        them = ManOrBoy(dispatcher.tasks, symbols=True)

        def publish() -> None:
            for begin in range(0, len(ticks), 50):
                dispatcher.publish(ticks[begin : begin + 50])
                time.sleep(0)

        publisher = threading.Thread(target=publish)
        publisher.start()
        them.run()
        publisher.join()
        assert dispatcher.drain(timeout_s=120)
        assert dispatcher.thread_counts().refused == 0
    them.check(threads)
    if handler == "C":
        rows = dispatcher.rows.array
        assert (rows["ticks"] == TICKS).all()
        assert not rows["broken"].any()
    else:
        assert recorder.seen == [[(0, n + 1) for n in range(TICKS)]] * KEYS
        assert recorder.overlaps == 0
    balanced(dispatcher)


# ---- The threads of a scheduler


def workers_of(n: int, run: Callable[[int], None]) -> tuple[Engine, Pool, Places]:
    engine = Engine(_config(n, Levels()))
    engine.set_handlers([RunByPython()], [()])
    workers = Places(engine, TasksAlone(run), n)
    workers.start()
    return engine, Pool(engine, Levels()), workers


def test_each_task_is_run_once_by_some_thread_and_all_end() -> None:
    ran: list[int] = []
    all_ran = threading.Event()

    def run(tag: int) -> None:
        ran.append(tag)
        if len(ran) == 5000:
            all_ran.set()

    engine, pool, workers = workers_of(3, run)
    for tag in range(1, 1001):
        pool.submit(tag, tag % 5)
    pool.submit_many(range(1001, 5001), 3)
    assert all_ran.wait(60)
    workers.end()
    workers.join()
    assert sorted(ran) == list(range(1, 5001))
    assert not any(thread.is_alive() for thread in workers.threads)
    assert engine.tasks.totals(on_strands=False).ended == 5000


def test_a_thread_that_ends_them_does_not_wait_for_itself() -> None:
    ended = threading.Event()

    def run(_: int) -> None:
        workers.end()
        workers.join()
        ended.set()

    _, pool, workers = workers_of(2, run)
    pool.submit(1, 3)
    assert ended.wait(60)
    workers.join()
    assert not any(thread.is_alive() for thread in workers.threads)


def test_a_wake_for_nothing_has_a_thread_sleep_on() -> None:
    engine, _, places = workers_of(1, lambda _: None)
    seat = Seat(places, None)
    seat._wake.release()
    thread = threading.Thread(target=places.live, args=(seat,))
    thread.start()
    while seat not in places._spares or not seat._wake.locked():
        time.sleep(0.001)
    places._seats.append(seat)
    assert thread.is_alive()
    places.end()
    thread.join(60)
    assert not thread.is_alive()
    places.join()
    assert engine.stopping


@pytest.mark.parametrize("how", ["a block", "a checkpoint"])
def test_a_task_that_the_engine_does_not_take_back_keeps_its_place_and_the_spare_thread_ends(
    monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    ran: list[object] = []
    over = threading.Event()

    def run(tag: int) -> None:
        seat = seat_here()
        assert seat is not None
        assert seat.place is not None
        if tag == 1:
            try:
                if how == "a block":
                    seat.enter_block()
                else:
                    workers.suspend(seat, seat.place)
            except RuntimeError as error:
                ran.append(str(error))
        ran.append((tag, seat.place is workers.places[0], seat.depth))
        if tag == 2:
            over.set()

    engine = Engine(_config(1, Levels()))
    engine.set_handlers([RunByPython()], [()])
    workers = Places(engine, TasksAlone(run), 3)
    monkeypatch.setattr(Suspension, "suspender", lambda *_, away: lambda: int(Code.STOPPED))
    workers.start()
    pool = Pool(engine, Levels())
    pool.submit_many([1, 2], 3)
    assert over.wait(60)
    counts = workers.counts()
    assert (counts.suspended, counts.blocked, counts.suspensions) == (0, 0, 0)
    workers.end()
    workers.join()
    assert ran == ["a task was ended that still ran: please report this", (1, True, 0), (2, True, 0)]
    assert not any(thread.is_alive() for thread in workers.threads)
    assert engine.tasks.totals(on_strands=False).ended == 2


# ---- The functions of tasks in C


def test_a_function_may_be_given_by_address_and_by_pointer(c_tasks: Path) -> None:
    library = ctypes.CDLL(str(c_tasks))
    address = ctypes.cast(library.note, ctypes.c_void_p).value
    assert address is not None
    with Scheduler(1) as scheduler:
        scheduler.submit_native(NativeTask(address))
        scheduler.submit_native(NativeTask(library.note, "mine"))
    assert ctypes.c_long.in_dll(library, "told").value == 2
    assert (repr(NativeTask(address)), NativeTask(library.note, "mine").name) == (f"<NativeTask {address:#x}>", "mine")


def test_what_is_no_function_is_refused(c_tasks: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="does not give a function 'absent'"):
        NativeTask(c_tasks, "absent")
    with pytest.raises(ConfigurationError, match="symbol: name the function"):
        NativeTask(c_tasks)
    with pytest.raises(ConfigurationError, match="there is no shared object"):
        NativeTask(tmp_path / "missing.so", "note")
    with pytest.raises(ConfigurationError, match="is not the address of a function"):
        NativeTask(0)
