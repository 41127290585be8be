"""Memory of C: handles, shared arenas, big tables, counts of ticks, and what a collector finds at the end."""

from __future__ import annotations

import ctypes
import gc
import os
import re
import subprocess
import sys
import textwrap
import threading
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bad_input import SANITIZED
from book_runs import run
from engine_support import run_python, ticks_for
from feed_samples import iex, itch, pcap, pitch
from outside_ticks import SYMBOLS, some_ticks

import strand
import strand.binding
from strand import Aging, Dispatcher, Fair, Fifo, Levels
from strand.binding import CORE, ffi, lib, memory
from strand.binding.captures import IexDecoder, IexPcapDecoder, PcapDecoder
from strand.binding.columns import Seen, TickCounts, count_by_symbol
from strand.binding.decoders import PitchDecoder
from strand.binding.engine import Engine
from strand.binding.engine_words import RunByPython
from strand.binding.gate import Code
from strand.binding.itch import ItchDecoder
from strand.binding.memory import Space
from strand.binding.outside import OutsideView
from strand.dispatch.configuration import grouped
from strand.errors import AttachError
from strand.ticks import TICK, zeros

#: Each makes ``held``, which has a handle of C, and ``uses``: calls that read what the handle points to.
HOLDERS = {
    "a stopped dispatcher": """
        held = Dispatcher(4, "book", workers=1, cores=None)
        with held:
            held.publish(ticks_for([0, 1, 2, 3]))
        rows = held.rows.array
        uses = [held.stop, lambda: held.statistics(), lambda: held.inspect(0), lambda: held.books, lambda: rows.copy()]
    """,
    "a running dispatcher": """
        warnings.simplefilter("ignore", ResourceWarning)
        held = Dispatcher(4, "book", workers=1, cores=None).start()
        held.publish(ticks_for([0, 1, 2, 3]))
        uses = [held.statistics, lambda: held.inspect(0), lambda: held.stop(drain=False)]
    """,
    "books": """
        from strand.binding.books import BookMemory
        held = BookMemory(Space(), 100_000)
        uses = [lambda: held.live_orders, lambda: held.levels(99_999, "B", 5)]
    """,
    "depths": """
        from strand.binding.books import DepthMemory
        held = DepthMemory(Space(), 100_000, top=5, max_levels=50)
        uses = [lambda: held.levels(99_999, "B", 5)]
    """,
}

CASE = """
import ctypes, gc, warnings
import numpy as np
import strand
from strand import Dispatcher
from strand.binding.memory import Space

gc.unfreeze()  # the interpreter's end is to collect the imported modules too
M_PERTURB = -6
ctypes.CDLL(None).mallopt(M_PERTURB, 165)  # what is freed does not look as if it were there

def ticks_for(keys):
    ticks = np.zeros(len(keys), strand.TICK)
    ticks["instrument_id"] = keys
    return ticks

class Owner:
    def __init__(self, uses):
        self.uses, self.me = uses, self

    def __del__(self):
        for use in self.uses:
            use()
            print("answered")
"""


@pytest.mark.cells(1)
@pytest.mark.parametrize("at_exit", [False, True])
@pytest.mark.parametrize("holder", HOLDERS)
def test_a_del_may_call_what_lies_in_the_same_garbage_and_at_exit(holder: str, at_exit: bool) -> None:
    # The owner comes last, and so does its __del__: after the finalisers of what was there before.
    make = textwrap.dedent(HOLDERS[holder]) + "held.owner = Owner(uses)\nreturn held\n"
    end = "" if at_exit else "del held\ngc.collect()\n"
    code = f"{CASE}\ndef make():\n{textwrap.indent(make, '    ')}\nheld = make()\n{end}print('end')\n"
    run = run_python(code)
    assert run.returncode == 0, run.stderr
    if at_exit:  # at the interpreter's own end modules may be gone: then it is an exception in Python
        assert run.stdout.splitlines()[0] == "end"
    else:
        calls = HOLDERS[holder].partition("uses")[2]
        assert run.stdout.splitlines() == ["answered"] * (calls.count(", lambda") + 1) + ["end"]
        assert run.stderr == ""


def test_only_one_module_says_when_c_frees_what_it_made() -> None:
    """A destructor given to ffi.gc by another would run before a __del__ of the same garbage."""
    package = Path(strand.binding.__file__).parent.parent
    users = [path for path in package.rglob("*.py") if re.search(r"\bffi\.gc\(", path.read_text())]
    assert users == [Path(memory.__file__)]


def test_what_a_pointer_owns_is_freed_with_it_and_after_every_del_of_its_garbage() -> None:
    seen: list[Any] = []

    class Garbage:
        def __init__(self, pointer: Any) -> None:
            self.pointer, self.me = pointer, self

        def __del__(self) -> None:
            seen.append(("del", bool(self.pointer)))

    pointer = ffi.new("int *", 7)
    bare = ffi.cast("int *", pointer)
    garbage = [Garbage(memory.owned(bare, lambda p: seen.append(("freed", p[0]))))]
    garbage.append(Garbage(garbage[0]))
    del bare
    gc.collect()
    assert seen == []
    garbage.clear()
    gc.collect()
    assert seen == [("del", True), ("del", True), ("freed", 7)]
    assert not gc.is_tracked(ffi.cast("int *", pointer))
    assert lib is not None


def test_what_lies_within_another_thing_is_freed_first_however_they_are_let_go_of() -> None:
    seen: list[str] = []
    outer = memory.owned(ffi.cast("int *", 8), lambda _: seen.append("outer"))
    inner = memory.owned(ffi.cast("int *", 16), lambda _: seen.append("inner"), outer)
    del outer
    assert seen == []
    del inner
    assert seen == ["inner", "outer"]


def interrupting() -> Callable[[object], Any]:
    """A selection that does not want one symbol, and is interrupted at the next."""
    calls = iter([np.array([False])])

    def keeps(_: object) -> Any:
        for wanted in calls:
            return wanted
        raise KeyboardInterrupt

    return keeps


DECODERS: dict[str, tuple[Callable[[], bytes], Callable[[], Any]]] = {
    "itch": (itch, lambda: ItchDecoder(midnight_ns=0, skip=False, keeps=interrupting())),
    "pitch": (pitch, lambda: PitchDecoder(midnight_ns=0, skip=False, keeps=interrupting())),
    "pcap": (pcap, lambda: PcapDecoder(ItchDecoder(midnight_ns=0, skip=False, keeps=interrupting()), skip=False)),
    "iex": (lambda: iex(0x8004), lambda: IexPcapDecoder(IexDecoder(skip=False, keeps=interrupting()), skip=False)),
}


@pytest.mark.parametrize("name", DECODERS)
def test_an_interrupted_decoder_holds_on_to_nothing_that_the_collector_may_clear(name: str) -> None:
    """A memoryview that is cleared while somebody holds its bytes is a crash: see ``strand.binding.memory.held``."""
    content, new = DECODERS[name]
    data = memoryview(bytearray(content()))
    with pytest.raises(KeyboardInterrupt) as kept:
        new().decode(data, last=True, out=strand.ticks.zeros(1000))
    data.release()
    assert kept.value.__traceback__ is not None


def test_a_structure_is_filled_whole_or_not_at_all() -> None:
    made = memory.filled("sd_range", {"from": 1}, "to")
    assert (getattr(made, "from"), made.to) == (1, 0)
    for numbers in ({"from": 1}, {"from": 1, "to": 2, "step": 3}):
        with pytest.raises(TypeError, match="sd_range: give from, to"):
            memory.filled("sd_range", numbers)


# ---- The addresses that a dispatcher and its handlers share


def test_more_addresses_than_a_process_has_are_refused() -> None:
    with pytest.raises(MemoryError, match=r"GiB of address space: raise its limit \(ulimit -v\)"):
        Space(more=1 << 60)


# ---- Memory of order books in C


def test_an_order_takes_at_most_64_bytes_with_its_share_of_the_index() -> None:
    for n in (1_000, 20_001, 300_000):
        adds = ticks_for(np.zeros(n, np.int64), kind=1)
        adds["order_id"], adds["price"], adds["size"] = np.arange(n) + 1, 100 + np.arange(n) % 200, 1
        adds["action"], adds["side"] = b"A", b"B"
        empty = run(symbols=1).books.bytes
        d = run(adds)
        assert d.books.live_orders == n
        assert d.books.bytes - empty <= 64 * n + 16_384  # and a level for each price


# ---- A table of 2^24 tasks costs what is used of it


TASKS = 1_000_000
WORKERS = 2
#: Of a task: its entry, its place on the stack, and what the policy that keeps most has of it, with some for pages.
BYTES = 320


def resident_bytes() -> int:
    """Bytes of this process that lie in memory."""
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Rss:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no Rss")


def shared_bytes() -> int:
    """Bytes that all attachable spaces of this process take."""
    files = {fd.stat().st_ino: fd.stat() for fd in Path("/proc/self/fd").iterdir() if is_space(fd)}
    return sum(512 * file.st_blocks for file in files.values())


def is_space(fd: Path) -> bool:
    """Tells whether a descriptor is that of a space."""
    try:
        return str(fd.readlink()).startswith("/memfd:strand")
    except FileNotFoundError:
        return False


def engine_of(policy: Any, *, attachable: bool = False) -> Engine:
    """One with a table of 2^24 tasks."""
    with Dispatcher(1, "count", workers=WORKERS, cores=None, policy=policy) as d:
        config = d._engine.config
    engine = Engine(replace(config, n_tasks=1 << 24, attachable=attachable))
    engine.set_handlers([RunByPython()], [()])
    return engine


@pytest.mark.parametrize("attachable", [False, True])
@pytest.mark.parametrize("policy", [Fifo(), Levels(), Aging(), Fair()], ids=lambda p: type(p).__name__)
def test_a_table_of_2_to_24_tasks_takes_no_memory(policy: Any, attachable: bool) -> None:
    first = engine_of(policy, attachable=attachable)  # what all engines share is there then
    before, shared = resident_bytes(), shared_bytes()
    engine = engine_of(policy, attachable=attachable)
    assert SANITIZED or resident_bytes() - before < 16 << 20
    assert (shared_bytes() > shared) == attachable
    assert shared_bytes() - shared < 16 << 20
    for made in (first, engine):
        specs = made.tasks.specs(1)
        specs[0].tag = 1
        assert made.tasks.submit(specs, 1) == 1


@pytest.mark.parametrize("policy", [Fifo(), Levels(), Aging(), Fair()], ids=lambda p: type(p).__name__)
def test_a_million_tasks_wait_and_all_of_them_run(policy: Any, c_handlers: Path) -> None:
    count = ctypes.CDLL(str(c_handlers)).count_task
    ffi = CORE.ffi
    ran = ffi.new("uint64_t *")
    engine = engine_of(policy)
    tasks = engine.tasks
    specs = tasks.specs(TASKS // 20)
    for spec in specs:
        spec.fn = ffi.cast("sd_task_fn", ctypes.cast(count, ctypes.c_void_p).value)
        spec.argument = ran
    before = resident_bytes()
    assert sum(tasks.submit(specs, len(specs)) for _ in range(20)) == TASKS
    assert SANITIZED or resident_bytes() - before < BYTES * TASKS
    engine.verify()

    threads = [threading.Thread(target=engine.batches(i, TICK).more, daemon=True) for i in range(WORKERS)]
    for thread in threads:
        thread.start()
    while engine.drain(None, 10_000_000) == Code.AGAIN:
        assert any(thread.is_alive() for thread in threads)
    assert ran[0] == TASKS
    engine.verify()
    # All places are free again, and as many tasks run a second time.
    assert tasks.submit(specs, len(specs)) == len(specs)
    engine.stop()
    for thread in threads:
        thread.join(60)
    tasks.stop()
    engine.verify()
    assert tasks.totals(on_strands=False).ended == TASKS + len(specs)


# ---- Counting ticks by symbol


def _ticks(symbols: list[int]) -> np.ndarray:
    ticks = zeros(len(symbols))
    ticks["instrument_id"] = symbols
    return ticks


def test_ticks_are_added_to_the_counts_of_their_symbols() -> None:
    counts = np.array([5, 0, 7], np.int64)
    count_by_symbol(_ticks([2, 0, 0, 2, 2]), counts)
    assert counts.tolist() == [7, 0, 10]


def test_a_part_of_an_array_with_gaps_is_counted_as_it_is() -> None:
    counts = np.zeros(4, np.int64)
    count_by_symbol(_ticks([0, 1, 2, 3, 0, 1])[::2], counts)
    assert counts.tolist() == [2, 0, 1, 0]


def test_a_symbol_beyond_the_counts_is_left_out() -> None:
    counts = np.zeros(2, np.int64)
    count_by_symbol(_ticks([1, 2, 0xFFFFFFFF, 0]), counts)
    assert counts.tolist() == [1, 1]


def test_ticks_of_more_symbols_than_a_cache_holds_are_counted_each() -> None:
    n = 1 << 16
    keys = [0, n - 1, n, 0xFFFFFFFF, *(7919 * i % n for i in range(500)), n - 1]
    counts = np.zeros(n, np.int64)
    count_by_symbol(_ticks(keys), counts)
    assert np.array_equal(counts, np.bincount([key for key in keys if key < n], minlength=n))


def test_no_ticks_change_nothing() -> None:
    counts = np.ones(1, np.int64)
    count_by_symbol(_ticks([]), counts)
    assert counts.tolist() == [1]


def test_records_that_are_no_ticks_are_not_read_beyond_their_end() -> None:
    counts = np.zeros(1, np.int64)
    count_by_symbol(np.zeros(13, np.uint64), counts)
    assert counts.tolist() == [13 * 8 // TICK.itemsize]


def test_kinds_and_times_that_run_backwards_are_counted_over_several_calls() -> None:
    ticks = _ticks([0, 1, 2, 0, 1, 2, 0])
    ticks["kind"] = [1, 2, 3, 3, 3, 0, 4]
    ticks["ts_recv"] = [10, 5, 20, -7, 12, 20, 11]
    for cut in range(8):
        seen = Seen()
        count_by_symbol(ticks[:cut], np.zeros(3, np.int64), seen)
        count_by_symbol(ticks[cut:], np.zeros(3, np.int64), seen)
        assert seen.counts() == TickCounts(
            orders=1, trades=1, quotes=3, zero_sizes=1, behind=3, furthest_ns=9, furthest_at=6, furthest_symbol=0
        )


def test_more_ticks_of_a_kind_than_a_stretch_counts_are_all_counted() -> None:
    ticks = zeros((1 << 21) + 10)
    ticks["kind"] = 3
    ticks["kind"][-4:] = [1, 2, 9, 255]
    ticks["ts_recv"][-1], ticks["ts_recv"][-2] = 1, 2
    seen = Seen()
    count_by_symbol(ticks, np.zeros(1, np.int64), seen)
    found = seen.counts()
    assert (found.orders, found.trades, found.quotes) == (1, 1, len(ticks) - 4)
    assert (found.behind, found.furthest_at) == (1, len(ticks) - 1)


# ---- A dispatcher's memory, seen from another process


#: Enough for what is published here. All of the memory is copied.
MEMORY_BYTES = 8 << 20


def _copy_of(dispatcher: Dispatcher) -> int:
    """A file like the dispatcher's, to be damaged."""
    fd = os.memfd_create("strand", os.MFD_CLOEXEC)
    os.ftruncate(fd, os.fstat(dispatcher.memory_fd).st_size)
    os.pwrite(fd, os.pread(dispatcher.memory_fd, dispatcher._engine.space.bytes, 0), 0)
    return fd


def _number(fd: int, at: int, size: int = 8) -> int:
    return int.from_bytes(os.pread(fd, size, at), "little", signed=True)


def test_a_look_from_outside_goes_with_the_last_reference_to_it() -> None:
    with Dispatcher(SYMBOLS, "count", attachable=True) as dispatcher:
        view = OutsideView(dispatcher.memory_fd)
        mapped, strands = weakref.ref(view._o), view.strand_of_symbol
        del view
        assert strands.tolist() == [dispatcher.strand_of(name) for name in SYMBOLS]
        del strands
    assert mapped() is None


@pytest.mark.parametrize("publishers", [1, 3])
def test_a_damaged_count_of_publishers_ends_a_look(publishers: int) -> None:
    ticks = some_ticks(300)
    ticks["instrument_id"], ticks["publisher_id"], ticks["flags"] = 0, 1 + np.arange(300) % publishers, 0x80
    options: Any = grouped(workers=1, cores=None, attachable=True, memory_bytes=MEMORY_BYTES)
    with Dispatcher(SYMBOLS, "book", feed="dbn-orders", **options) as dispatcher:
        dispatcher.publish(ticks)
        dispatcher.drain()
        fd = _copy_of(dispatcher)
    attached = strand.attach(fd=fd)
    books = attached.description.handlers[0].books
    assert books is not None
    # struct sd_books: n, book, publishers; the first sd_publishers: all, n.
    count = books + 16 + _number(fd, books + 16) + 8
    assert _number(fd, count, 4) == publishers
    assert len(attached.book("S0").bids)
    for wrong in (65, 2**32 - 1, *((2,) if publishers == 1 else (0,))):
        os.pwrite(fd, wrong.to_bytes(4, "little"), count)
        with pytest.raises(AttachError, match="it is damaged: the parts of a book do not fit together"):
            attached.book("S0")
    os.close(fd)


def test_damaged_memory_is_refused_or_read_and_never_crashes() -> None:
    """In a process of its own: it would end it."""
    code = """
import os, sys
import numpy as np
sys.path.insert(0, TESTS)
from outside_ticks import SYMBOLS, some_ticks
from test_memory import MEMORY_BYTES, _copy_of
from strand import Dispatcher
from strand.binding.outside import OutsideView
from strand.dispatch.statistics import Description
from strand.dispatch.configuration import grouped
from strand.errors import AttachError, UnknownSymbolError
from strand.outside.attached import Attached
options = grouped(workers=1, cores=None, attachable=True, memory_bytes=MEMORY_BYTES, max_publishers=1)
with Dispatcher(SYMBOLS, "book", **options) as dispatcher:
    dispatcher.publish(some_ticks(2000))
    dispatcher.drain()
    fd = _copy_of(dispatcher)
rng = np.random.default_rng(1)
good = os.pread(fd, 1 << 20, 0)
root = int.from_bytes(good[40:48], "little")
books = Description.of(OutsideView(fd).description).handlers[0].books
end = int.from_bytes(good[32:40], "little")
refused = read = 0
for trial in range(600):
    from_, to = [(0, 64), (root, root + 900), (books, books + 64), (end - (2 << 20), end)][trial % 4]
    at = int(rng.integers(from_, to))
    was = os.pread(fd, 8, at)
    os.pwrite(fd, rng.bytes(int(rng.integers(1, 9))), at)
    try:
        view = OutsideView(fd)
        attached = Attached(view, Description.of(view.description))
        attached.statistics()
        for strand in range(0, attached.n_strands, 7):
            attached.look(strand)
        for symbol in SYMBOLS[:5]:
            attached.book(symbol)
        read += 1
    except AttachError:
        refused += 1
    except UnknownSymbolError:  # its name was damaged
        read += 1
    os.pwrite(fd, was, at)
print(refused, read)
assert refused > 20 and read > 20
""".replace("TESTS", repr(str(Path(__file__).parent)))
    path = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=os.environ | {"PYTHONPATH": path},
    )
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])


def test_memory_of_another_build_is_refused() -> None:
    from strand.binding.outside import OutsideView

    options: Any = grouped(workers=1, cores=None, attachable=True, memory_bytes=MEMORY_BYTES)
    with Dispatcher(4, "count", **options) as dispatcher:
        fd = _copy_of(dispatcher)
    os.pwrite(fd, ctypes.c_uint32(99), 8)
    with pytest.raises(AttachError, match="another build of strand made it: its layout is 99"):
        OutsideView(fd)
    os.pwrite(fd, b"nonsense", 0)
    with pytest.raises(AttachError, match="not a dispatcher's memory"):
        OutsideView(fd)
    os.close(fd)


def test_a_description_of_a_gigabyte_is_refused_unread() -> None:
    from strand.binding.outside import OutsideView

    options: Any = grouped(workers=1, cores=None, attachable=True, memory_bytes=MEMORY_BYTES)
    with Dispatcher(4, "count", **options) as dispatcher:
        fd = _copy_of(dispatcher)
    size = len(OutsideView(fd).description)
    arena = _number(fd, 40)
    at = arena + os.pread(fd, 900, arena).index(size.to_bytes(8, "little"))
    os.pwrite(fd, (1 << 30).to_bytes(8, "little"), at)
    with pytest.raises(AttachError, match="it is damaged: its description cannot be read"):
        OutsideView(fd)
    os.close(fd)
