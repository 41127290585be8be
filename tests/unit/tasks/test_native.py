"""The functions of tasks in C."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from strand import NativeTask, Scheduler
from strand.errors import ConfigurationError


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
