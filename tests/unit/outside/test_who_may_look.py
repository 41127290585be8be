"""Processes that may not be looked at: another user's, and those that forbid it. Real ones."""

from __future__ import annotations

import os

import pytest
from warm_python import run_warm

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
