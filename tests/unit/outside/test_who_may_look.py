"""Processes that may not be looked at: another user's, and those that forbid it. Real ones."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from engine_support import ticks_for
from warm_python import run_warm

import strand
from strand import Dispatcher
from strand.errors import AttachError, ConfigurationError

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
        pytest.raises(AttachError, match="it has no running dispatcher with attachable=True"),
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
        pytest.raises(ConfigurationError, match="memory_fd: the dispatcher's memory is private"),
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
