"""A dispatcher's memory, seen from another process."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from outside_ticks import SYMBOLS, some_ticks

import strand
from strand import Dispatcher
from strand.binding.outside import OutsideView
from strand.dispatch.configuration import grouped
from strand.errors import AttachError

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
from test_outside import MEMORY_BYTES, _copy_of
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
