"""Looking by a descriptor: of a dispatcher's memory, handed from one process to another, and of anything else."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from engine_support import ticks_for

import strand
from strand import Dispatcher
from strand.errors import AttachError, ConfigurationError

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
