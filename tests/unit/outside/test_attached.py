"""A running dispatcher that is looked at from outside, and who may look."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from engine_support import beside, ticks_for
from outside_ticks import SYMBOLS, some_ticks
from warm_python import run_warm

import strand
from strand import Dispatcher
from strand.command.cli import cli
from strand.errors import AttachError, ConfigurationError, UnknownSymbolError


@contextmanager
def publishing(dispatcher: Dispatcher, ticks: Any = None) -> Iterator[None]:
    """A thread publishes in the block, as fast as it can."""
    ticks = some_ticks() if ticks is None else ticks
    with beside(lambda: dispatcher.publish(ticks)):
        yield


@pytest.mark.parametrize("publisher_drains", [True, False])
@pytest.mark.parametrize("strands", ["per-symbol", 7])
def test_rows_are_those_of_their_strands_count_at_full_speed(strands: Any, publisher_drains: bool) -> None:
    with Dispatcher(
        SYMBOLS, "count", workers=2, cores=None, strands=strands, publisher_drains=publisher_drains, attachable=True
    ) as dispatcher:
        attached = strand.attach(os.getpid())
        seen = 0
        with publishing(dispatcher):
            while seen < 2000:
                strands = []
                for look in attached.looks():
                    assert look.in_visit or int(look.rows["ticks"].sum()) == look.counts.handled
                    strands.append(look.strand)
                assert len(set(strands)) == len(strands)
                seen += len(strands)
        dispatcher.drain()
        looks = list(attached.looks())
        assert not any(look.in_visit for look in looks)
        had = {symbol for symbol in SYMBOLS if dispatcher.inspect(symbol).accepted}
        assert {symbol for look in looks for symbol in look.symbols} == had
        assert [look.strand for look in looks] == sorted({attached.symbol(symbol).strand for symbol in had})
        handled = dispatcher.statistics().handled
        assert sum(int(look.rows["ticks"].sum()) for look in looks) == handled == attached.statistics().handled


def test_what_is_seen_is_what_the_dispatcher_says() -> None:
    with Dispatcher(SYMBOLS, "vwap", feed="plain", workers=2, cores=None, attachable=True, name="day") as dispatcher:
        dispatcher.publish(some_ticks())
        dispatcher.drain()
        attached = strand.attach(os.getpid(), name="day")
        inner, outer = dispatcher.statistics(), attached.statistics()
        for name in ("accepted", "handled", "pending", "handled_inline", "visits", "stolen", "dropped"):
            assert getattr(outer, name) == getattr(inner, name), name
        assert (inner.watermark, outer.watermark) == (inner.handled, None)  # only its own process can know it
        assert outer.handler.count == inner.handler.count
        assert outer.handler.percentiles == pytest.approx(inner.handler.percentiles)
        assert [w.handled for w in outer.workers] == [w.handled for w in inner.workers]
        for symbol in ("S0", "S17"):
            look = attached.symbol(symbol)
            assert look.symbols == (symbol,)
            assert look.handler == "vwap"
            assert look.rows[0] == dispatcher.rows[symbol]
            assert look.counts == dispatcher.inspect(symbol)
        assert attached.description.name == "day"
        assert attached.description.pid == os.getpid()
        assert attached.configuration["n_symbols"] == len(SYMBOLS)
        with pytest.raises(UnknownSymbolError, match="'GONE' is not a symbol"):
            attached.symbol("GONE")
        with pytest.raises(UnknownSymbolError, match=f"; did you mean '{SYMBOLS[1]}'"):
            attached.symbol(SYMBOLS[1].lower())
        with pytest.raises(AttachError, match="strand: 10000 is not a whole number from 0 to"):
            attached.look(10_000)


@pytest.mark.parametrize("kind", ["book", "depth"])
def test_books_are_whole_at_full_speed_and_right_while_quiescent(kind: str) -> None:
    ticks = some_ticks()
    half = len(ticks) // 2
    if kind == "book":
        # The first half adds orders of 100 each, and the second half cancels them.
        ticks["action"][half:] = b"C"
        ticks["order_id"][half:] = ticks["order_id"][:half]
        for field in ("instrument_id", "price"):
            ticks[field][half:] = ticks[field][:half]
        ticks["side"] = np.where(ticks["order_id"] % 2, b"A", b"B")
    else:
        ticks["kind"], ticks["action"], ticks["order_id"] = 3, b"M", 0
        ticks["side"] = np.where(np.arange(len(ticks)) % 2, b"A", b"B")
        ticks["size"] = 100 * (1 + ticks["price"] // 10**9)
    with Dispatcher(SYMBOLS, kind, workers=2, cores=None, attachable=True) as dispatcher:
        attached = strand.attach(os.getpid())
        with publishing(dispatcher, ticks):
            for turn in range(1500):
                seen = attached.book(SYMBOLS[turn % 40], 64)
                for side, sign in ((seen.asks, 1), (seen.bids, -1)):
                    assert seen.in_visit or np.all(np.diff(side["price"] * sign) > 0)
                    wanted = 100 * side["orders"] if kind == "book" else 100 * (1 + side["price"] // 10**9)
                    assert seen.in_visit or np.array_equal(side["size"], wanted)
        dispatcher.publish(ticks[:half])
        dispatcher.drain()
        for symbol in SYMBOLS[:5]:
            seen, inner = attached.book(symbol), dispatcher.books[symbol]
            for outer, levels in ((seen.asks, inner.asks(20)), (seen.bids, inner.bids(20))):
                assert len(levels)
                assert [tuple(level)[:2] for level in outer.tolist()] == [tuple(level)[:2] for level in levels.tolist()]
        shown = CliRunner().invoke(cli, ["stat", str(os.getpid()), "--symbol", "S1", "--json"], catch_exceptions=False)
        (told,) = json.loads(shown.output)["books"]
        assert told["bids"][0]["price"] == dispatcher.books["S1"].bids(1)["price"][0] / 1e9
        text = CliRunner().invoke(cli, ["stat", str(os.getpid()), "--symbol", "S1"], catch_exceptions=False).output
        assert "bid" in text


def test_levels_of_all_publishers_are_added_up() -> None:
    ticks = some_ticks(300)
    ticks["instrument_id"], ticks["publisher_id"], ticks["flags"] = 0, 1 + np.arange(300) % 3, 0x80
    with Dispatcher(SYMBOLS, "book", feed="dbn-orders", workers=1, cores=None, attachable=True) as dispatcher:
        dispatcher.publish(ticks)
        dispatcher.drain()
        seen = strand.attach(os.getpid()).book("S0", 64)
        assert np.array_equal(seen.bids, dispatcher.books["S0"].bids(64))
        with pytest.raises(ConfigurationError, match="levels: 65 is not a whole number from 1 to 64"):
            strand.attach(os.getpid()).book("S0", 65)


def test_who_keeps_no_book_says_so() -> None:
    with (
        Dispatcher(SYMBOLS, "count", workers=1, cores=None, attachable=True),
        pytest.raises(AttachError, match="the handler of S0 keeps no book"),
    ):
        strand.attach(os.getpid()).book("S0")


def test_names_that_are_learnt_later_are_seen() -> None:
    with Dispatcher(4, "count", workers=1, cores=None, attachable=True) as dispatcher:
        attached = strand.attach(os.getpid())
        assert attached.look(0).symbols[0].startswith("#")
        dispatcher.learn_symbols(["AAPL", "", "MSFT"])
        assert attached.symbol("MSFT").symbols == ("MSFT",)
        dispatcher.learn_symbols(["AAPL", "IBM", "MSFT", "X"])
        assert attached.symbol("IBM").symbols == ("IBM",)
        assert attached.symbol("X").symbols == ("X",)


def test_what_was_seen_stays_when_the_dispatcher_is_gone() -> None:
    with Dispatcher(SYMBOLS, "count", workers=1, cores=None, attachable=True) as dispatcher:
        dispatcher.publish(some_ticks(1000))
        attached = strand.attach(os.getpid())
    with pytest.raises(AttachError, match="it has no running dispatcher"):
        strand.attach(os.getpid())
    del dispatcher
    assert attached.statistics().handled == 1000


def test_a_look_before_the_first_tick_does_not_settle_which_symbols_share_a_strand() -> None:
    """The first batch says which symbols are busy: they get other strands than before it."""
    names = [f"S{i}" for i in range(500)]
    ticks = ticks_for(np.random.default_rng(3).geometric(0.02, 20_000).clip(1, 499))
    with Dispatcher(names, "count", workers=1, cores=None, attachable=True) as dispatcher:
        attached = strand.attach(os.getpid())
        before = [attached.look(number).symbols for number in range(attached.n_strands)]
        dispatcher.publish(ticks)
        dispatcher.drain()
        after = [attached.look(number) for number in range(attached.n_strands)]
        assert [look.symbols for look in after] != before, "the first ticks change nothing: the test shows nothing"
        assert sorted(name for look in after for name in look.symbols) == sorted(names)
        for look in after:
            assert [attached.symbol(name).strand for name in look.symbols] == [look.strand] * len(look.symbols)
            assert int(look.rows["ticks"].sum()) == look.counts.handled


# ---- Processes that may not be looked at: another user's, and those that forbid it. Real ones


#: A user's id that has no rights of its own.
NOBODY = 65_534

#: The system gives no reason.
REFUSED = (
    "this process may not look at it: the system refuses (EACCES). It may be another user's, have rights that this "
    "process lacks, or forbid it (prctl PR_SET_DUMPABLE)"
)

#: What the programs begin with. What is imported and made here is loaded: another user may not read the files. They
#: fork when the worker's thread has left the process. A joined thread may still be ending, and GCC's address sanitizer
#: holds a lock of its own meanwhile, which then stays locked in the child.
COMMON = f"""
import ctypes, os, socket, time
import strand
from strand.errors import AttachError

def dispatcher():
    return strand.Dispatcher(4, "count", workers=1, cores=None, attachable=True)

def look(pid):
    try:
        return strand.attach(pid).description.pid == pid
    except AttachError as error:
        return str(error)

def become_nobody():
    os.setresgid({NOBODY}, {NOBODY}, {NOBODY})
    os.setresuid({NOBODY}, {NOBODY}, {NOBODY})

def make_dumpable(so):
    assert ctypes.CDLL(None, use_errno=True).prctl(4, so, 0, 0, 0) == 0  # PR_SET_DUMPABLE

def count_threads():
    return len(os.listdir("/proc/self/task"))

n_threads = count_threads()
with dispatcher():
    assert look(os.getpid()) is True
while count_threads() > n_threads:
    time.sleep(0.001)
ours, theirs = socket.socketpair()
"""


def _printed(code: str) -> list[str]:
    done = run_warm("-c", COMMON + code)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


def test_a_process_that_forbids_it_is_refused_with_the_reason() -> None:
    """Root has the right to look all the same (CAP_SYS_PTRACE), so there both become a user without it."""
    code = """
if os.geteuid() == 0:
    become_nobody()
asked, ask = os.pipe()
told, tell = os.pipe()
if not (child := os.fork()):
    os.close(ask)
    os.close(told)
    with dispatcher():
        for dumpable in (1, 0):
            make_dumpable(dumpable)
            os.write(tell, b"x")
            os.read(asked, 1)
    os._exit(0)
# A child that ends early ends what this process reads.
os.close(tell)
os.close(asked)
for turn in range(2):
    assert os.read(told, 1), "the child has ended"
    print(look(child))
    os.write(ask, b"x")
assert os.waitpid(child, 0)[1] == 0
"""
    before, after = _printed(code)
    assert before == "True"
    assert after.endswith(REFUSED)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may look at a process that forbids it")
def test_root_may_look_at_a_process_that_forbids_it_by_the_right_to_trace_alone() -> None:
    code = """
TRACE = 1 << 19  # CAP_SYS_PTRACE
libc = ctypes.CDLL(None, use_errno=True)
head, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()

if not (child := os.fork()):
    ours.close()
    theirs.recv(1)
    assert libc.capget(head, sets) == 0
    print(bool(sets[0] & TRACE), look(os.getppid()), sep="\\n")
    sets[0] &= ~TRACE
    sets[1] &= ~TRACE
    assert libc.capset(head, sets) == 0
    print(look(os.getppid()), flush=True)
    os._exit(0)
with dispatcher():
    make_dumpable(0)
    ours.send(b"x")
    assert os.waitpid(child, 0)[1] == 0
"""
    may_trace, before, after = _printed(code)
    assert (before == "True") if may_trace == "True" else before.endswith(REFUSED)
    assert after.endswith(REFUSED)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_process_of_another_user_is_refused_with_the_reason() -> None:
    code = """
if not (child := os.fork()):
    ours.close()
    become_nobody()
    theirs.recv(1)
    print(look(os.getppid()), flush=True)
    os._exit(0)
with dispatcher():
    ours.send(b"x")
    assert os.waitpid(child, 0)[1] == 0
"""
    (said,) = _printed(code)
    assert said.endswith(REFUSED)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_who_is_handed_the_descriptor_may_look() -> None:
    code = """
if not (child := os.fork()):
    ours.close()
    become_nobody()
    _, (memory,), _, _ = socket.recv_fds(theirs, 1, 1)
    print(strand.attach(fd=memory).description.pid == os.getppid(), flush=True)
    os._exit(0)
with dispatcher() as made:
    socket.send_fds(ours, [b"x"], [made.memory_fd])
    assert os.waitpid(child, 0)[1] == 0
"""
    assert _printed(code) == ["True"]


# ---- Finding the dispatchers of a process


def test_who_may_not_be_looked_at_is_refused_with_the_reason() -> None:
    with pytest.raises(AttachError, match="there is no process 4194303"):
        strand.attach(4_194_303)
    with pytest.raises(AttachError, match="'me' is not the id of a process"):
        strand.attach("me")  # type: ignore[arg-type]
    with (
        Dispatcher(4, "count", workers=1, cores=None),
        pytest.raises(AttachError, match=r"it has no running dispatcher with attachable=True \(--attachable\)$"),
    ):
        strand.attach(os.getpid())
    with (
        Dispatcher(4, "count", workers=1, cores=None, attachable=True, name="a"),
        Dispatcher(4, "count", workers=1, cores=None, attachable=True, name="b"),
    ):
        assert strand.attach(os.getpid(), name="b").description.name == "b"
        with pytest.raises(AttachError, match="has 2 dispatchers, 'a', 'b': give the name of one"):
            strand.attach(os.getpid())
        with pytest.raises(AttachError, match="no dispatcher has the name 'c'; it has 'a', 'b'"):
            strand.attach(os.getpid(), name="c")
    with (
        Dispatcher(4, "count", workers=1, cores=None, attachable=True),
        pytest.raises(AttachError, match=r"no dispatcher has the name 'c'; it has one without a name$"),
    ):
        strand.attach(os.getpid(), name="c")
    with pytest.raises(ConfigurationError, match="name: 3 is not text"):
        Dispatcher(4, "count", attachable=True, name=3)  # type: ignore[arg-type]


# ---- Looking by a descriptor: of a dispatcher's memory, handed from one process to another, and of anything else


LOOK = "print(strand.attach(fd=fd).statistics().handled, os.fstat(fd).st_size > 0)"


def test_a_process_that_inherits_the_descriptor_looks() -> None:
    with Dispatcher(4, "count", workers=1, cores=None, attachable=True) as dispatcher:
        dispatcher.publish(ticks_for([0, 1, 1]))
        dispatcher.drain()
        fd = dispatcher.memory_fd
        run = [sys.executable, "-c", f"import os, strand; fd = {fd}; {LOOK}"]
        told = subprocess.run(run, capture_output=True, text=True, timeout=60, check=True, pass_fds=[fd]).stdout
        assert told.split() == ["3", "True"]


def test_a_process_that_is_sent_the_descriptor_looks_and_keeps_it() -> None:
    ours, theirs = socket.socketpair()
    receive = f"_, (fd,), *_ = socket.recv_fds(socket.socket(fileno={theirs.fileno()}), 1, 1)"
    with ours, theirs, Dispatcher(4, "count", workers=1, cores=None, attachable=True) as dispatcher:
        dispatcher.publish(ticks_for([0, 1, 1]))
        dispatcher.drain()
        socket.send_fds(ours, [b"x"], [dispatcher.memory_fd])
        run = [sys.executable, "-c", f"import os, socket, strand; {receive}; {LOOK}"]
        told = subprocess.run(
            run, capture_output=True, text=True, timeout=60, check=True, pass_fds=[theirs.fileno()]
        ).stdout
        assert told.split() == ["3", "True"]


POLICIES = (strand.Fifo(), strand.Levels(), strand.Aging(), strand.Fair(cpu_share=0.5))


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.core_name)
def test_statistics_are_read_under_every_policy(policy: Any) -> None:
    # That process maps the memory read-only, so taking a lock there would crash it.
    with Dispatcher(4, "count", policy=policy, workers=1, cores=None, attachable=True) as dispatcher:
        dispatcher.publish(ticks_for([0, 1, 1]))
        dispatcher.drain()
        fd = dispatcher.memory_fd
        run = [sys.executable, "-c", f"import os, strand; fd = {fd}; {LOOK}"]
        told = subprocess.run(run, capture_output=True, text=True, timeout=60, check=True, pass_fds=[fd]).stdout
    assert told.split() == ["3", "True"]


def test_what_is_attached_needs_the_descriptor_no_more_and_the_dispatcher_keeps_its_own() -> None:
    with Dispatcher(4, "count", workers=1, cores=None, attachable=True, name="day") as dispatcher:
        mine = os.dup(dispatcher.memory_fd)
        # Two descriptors of one file are one dispatcher.
        assert strand.attach(os.getpid()).description.name == "day"
        attached = strand.attach(fd=mine)
        os.fstat(mine)
        os.close(mine)
        dispatcher.publish(ticks_for([0, 1, 1]))
        dispatcher.drain()
        assert attached.statistics().handled == 3
        mine = os.dup(dispatcher.memory_fd)
    with pytest.raises(AttachError, match=f"descriptor {mine}: its dispatcher has stopped"):
        strand.attach(fd=mine)
    os.close(mine)


def test_a_private_dispatcher_has_no_descriptor_to_give() -> None:
    with (
        Dispatcher(4, "count", workers=1, cores=None) as dispatcher,
        pytest.raises(ConfigurationError, match="memory_fd: the memory of this run is private"),
    ):
        dispatcher.memory_fd  # noqa: B018


@pytest.mark.parametrize("given", [{}, {"pid": 1, "fd": 1}])
def test_one_of_process_and_descriptor_has_to_be_given(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="either the id of a process or fd="):
        strand.attach(**given)


@pytest.mark.parametrize("fd", [-1, 2**31, True, "3", 1.0])
def test_what_is_no_descriptor_is_refused(fd: Any) -> None:
    with pytest.raises(ConfigurationError, match="fd: "):
        strand.attach(fd=fd)


def test_a_name_beside_a_descriptor_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="name: leave it out with fd="):
        strand.attach(fd=0, name="day")


def test_a_descriptor_of_something_else_is_refused_with_the_reason(tmp_path: Path) -> None:
    def reason(fd: int) -> str:
        with pytest.raises(AttachError, match=f"^descriptor {fd}: ") as refused:
            strand.attach(fd=fd)
        os.close(fd)
        return str(refused.value).partition(": ")[2]

    read, write = os.pipe()
    assert {reason(read), reason(write)} == {"it is not a dispatcher's memory"}
    assert reason(os.open("/dev/null", os.O_RDONLY)) == "it is not a dispatcher's memory"
    assert reason(os.open("/", os.O_RDONLY)) == "it cannot be mapped"
    text = tmp_path / "text"
    text.write_bytes(b"ticks" * 1000)
    assert reason(os.open(text, os.O_RDONLY)) == "it is not a dispatcher's memory"
    assert reason(os.open(text, os.O_WRONLY)) == "it is not open for reading"
    closed = os.open(text, os.O_RDONLY)
    os.close(closed)
    with pytest.raises(AttachError, match=f"descriptor {closed}: it is not open"):
        strand.attach(fd=closed)


def test_damage_to_the_file_is_found_by_its_descriptor_too() -> None:
    with Dispatcher(4, "count", workers=1, cores=None, attachable=True) as dispatcher:
        size = os.fstat(dispatcher.memory_fd).st_size
        whole = os.pread(dispatcher.memory_fd, 1 << 20, 0)
    root = int.from_bytes(whole[40:48], "little")
    assert 0 < root < 1 << 20
    for at, damage, reason in (
        (0, b"nonsense", "it is not a dispatcher's memory"),
        (8, bytes([99, 0, 0, 0]), "another build of strand made it: its layout is 99"),
        (16, bytes(8), "it is damaged: its size is not the one in its header"),
        (40, size.to_bytes(8, "little"), "it is damaged: its root is not a valid offset"),
        (root, bytes(400), "it is damaged: its sizes and offsets do not fit together"),
    ):
        fd = os.memfd_create("copy")
        os.ftruncate(fd, size)
        os.pwrite(fd, whole[:at] + damage + whole[at + len(damage) :], 0)
        with pytest.raises(AttachError, match=f"descriptor {fd}: {reason}"):
            strand.attach(fd=fd)
        os.close(fd)


def test_a_run_has_ended_once_it_stops_also_where_its_process_lives_on() -> None:
    with Dispatcher(SYMBOLS, "count", workers=1, attachable=True, name="ends") as dispatcher:
        attached = strand.attach(os.getpid(), name="ends")
        dispatcher.publish(some_ticks())
        dispatcher.drain()
        assert not attached.has_ended
    assert attached.has_ended
    assert attached.statistics().handled == len(some_ticks())


def test_a_run_has_ended_when_its_process_was_killed_and_nobody_has_waited_for_it() -> None:
    code = "import strand, sys\nwith strand.Dispatcher(2, 'count', attachable=True):\n print(flush=True)\n input()"
    line = [sys.executable, "-c", code]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        attached = strand.attach(child.pid)
        assert not attached.has_ended
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert attached.has_ended
