"""What a ``__del__`` finds: the collector may run it after the finalisers of everything it refers to."""

from __future__ import annotations

import gc
import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from book_runs import run
from engine_support import run_python, ticks_for
from feed_samples import itch, pcap, pitch

import strand.binding
from strand.binding import ffi, lib, memory
from strand.binding.decoders import PitchDecoder
from strand.binding.itch import ItchDecoder, PcapDecoder
from strand.binding.memory import Space

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


def interrupting() -> Callable[[object], Any]:
    """What says of one symbol that it is not wanted, and is interrupted at the next."""
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
