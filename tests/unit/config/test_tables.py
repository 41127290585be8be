"""The tables of a configuration file, and what the dispatcher has in their place."""

from __future__ import annotations

import inspect

import msgspec
import pytest

import strand
from strand.config.tables import TABLES, ResourceLimits, RetryPolicy, WorkerPool
from strand.dispatch.pool import MAX_CAPACITY
from strand.spans import span_ns

pytestmark = pytest.mark.python


def test_defaults_and_bounds_are_the_dispatchers() -> None:
    default = inspect.signature(strand.Dispatcher.__init__).parameters["capacity_ticks"].default
    assert WorkerPool().queue_capacity == default
    assert WorkerPool().max_workers is None
    most = MAX_CAPACITY
    [kind] = [field.type for field in msgspec.structs.fields(WorkerPool) if field.name == "queue_capacity"]
    assert msgspec.convert(most, kind) == most
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(most + 1, kind)


def test_tables_are_frozen_and_their_spans_are_spans() -> None:
    for kind in TABLES.values():
        with pytest.raises(AttributeError):
            setattr(kind(), kind.__struct_fields__[0], 1)
    assert span_ns("", RetryPolicy().initial_backoff) < span_ns("", RetryPolicy().max_backoff)


def test_there_are_no_limits_unless_given() -> None:
    assert ResourceLimits() == ResourceLimits(cpu_threshold=None, memory_threshold=None, io_queue_threshold=None)
