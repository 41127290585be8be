"""Bad input: the class of its error, the option or place that it names, and what the error carries.

refusals.json and damage.json have what today's code does: tests/support/bad_values.py and damage.py write them.
"""

from __future__ import annotations

import contextlib
import json
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bad_values
import damage
import numpy as np
import pytest

import strand
from strand import testing
from strand.errors import (
    AttachError,
    BackpressureError,
    CallTimeoutError,
    ConfigurationError,
    DifferenceError,
    DisorderError,
    EmptyFeedError,
    FeedError,
    FormatError,
    HandlerError,
    PlaceError,
    QuarantinedError,
    QueueFull,
    RecordTypeError,
    SavedStateError,
    SinkError,
    StoppedError,
    StrictError,
    TaskDropped,
    TaskExpired,
    TruncatedFeedError,
    UnknownFormatError,
    UnknownNameError,
    UnknownOptionError,
    UnknownSymbolError,
    WouldDeadlockError,
)

pytestmark = pytest.mark.python
pytest.importorskip("pyarrow")
pytest.importorskip("databento_dbn")

REFUSALS: dict[str, dict[str, dict[str, str]]] = json.loads(bad_values.PATH.read_text("utf-8"))
DAMAGE: dict[str, dict[str, Any]] = json.loads(damage.PATH.read_text("utf-8"))


# ---- options


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bad_values.Call]:
    return bad_values.calls(tmp_path_factory.mktemp("refused"))


def better(now: str, before: str) -> bool:
    """An error that names the option, in the place of one that did not or was not Strand's."""
    return (
        now.endswith(" names it")
        and not now.startswith("other ")
        and (before.startswith("other ") or now == f"{before} names it")
    )


@pytest.mark.parametrize("name", REFUSALS)
def test_each_option_takes_and_refuses_what_it_did_and_the_error_names_it(
    name: str, calls: dict[str, bad_values.Call], tmp_path: Path, one_in: Callable[[int], int]
) -> None:
    """Of the values that end alike one in six is tried, and each of them by ``make contract``."""
    differs, draw = [], random.Random(name)
    with contextlib.chdir(tmp_path):
        for option, endings in REFUSALS[name].items():
            for ending, told in endings.items():
                labels = told.split(", ") if ending != bad_values.DEFAULT else []
                for label in draw.sample(labels, -(-len(labels) // one_in(6))):
                    now = bad_values.ended(calls[name], option, bad_values.VALUES[label])
                    if now != ending and not better(now, ending):
                        differs.append(f"{option}={label}: {ending} -> {now}")
    assert differs == []


def test_every_refusal_is_one_of_strands_errors() -> None:
    assert not [name for name, options in REFUSALS.items() for told in options.values() if "other " in " ".join(told)]


def test_no_public_call_option_or_default_is_gone(calls: dict[str, bad_values.Call]) -> None:
    for name, options in REFUSALS.items():
        assert options.keys() <= set(calls[name].options()), name
        before = {option: endings["default"] for option, endings in options.items() if "default" in endings}
        assert calls[name].defaults().items() >= before.items(), name


@pytest.mark.parametrize("name", [*REFUSALS])
def test_an_option_that_is_none_is_refused(name: str, calls: dict[str, bad_values.Call]) -> None:
    call = calls[name]
    with pytest.raises(TypeError) as raised:
        call.call(**call.base, no_such_option=1)
    assert "no_such_option" in str(raised.value)


# ---- files


@pytest.mark.parametrize("file", DAMAGE)
def test_a_damaged_file_is_refused_at_its_place_after_the_ticks_before_it(file: str, tmp_path: Path) -> None:
    assert damage.of_file(file, tmp_path) == DAMAGE[file]


# ---- configuration files


BAD_KEYS = [
    ("[policy]\nname = 'best'", "policy.name"),
    ("[policy]\nname = 'levels'\nsince = 'never'", "policy.since"),
    ("[policy]\nname = 'levels'\nslice_ms = 5", "policy.slice_ms"),
    ("[policy]\nname = 'fair'\nslice_ms = 0", "policy.slice_ms"),
    ("[policy]\nname = 'fair'\nburst_ms = -1", "policy.burst_ms"),
    ("[policy]\nname = 'fair'\ncpu_share = 2.0", "policy.cpu_share"),
    ("[policy]\nname = 'aging'\nlow_every = 0", "policy.low_every"),
    ("[priorities]\nlow_timeout = '30 parsecs'", "priorities.low_timeout"),
    ("[priorities]\nlow_timeout = 30", "priorities.low_timeout"),
    ("[priorities]\nimmediate_timeout = '1s'", "priorities.immediate_timeout"),
    ("[policy]\nname = 'levels'\n[priorities.symbols]\nAAPL = 'highest'", "priorities.symbols.AAPL"),
    ("[policy]\nname = 'levels'\n[resource_limits]\ncpu_threshold = 0.5\n[marks]\nAAPL = 'gpu'", "marks.AAPL"),
    ("[worker_pool]\nmax_wokers = 2", "worker_pool.max_wokers"),
    ("[worker_pool]\nmax_workers = -1", "worker_pool.max_workers"),
    ("[worker_pool]\nmax_workers = 'all'", "worker_pool.max_workers"),
    ("[worker_pool]\nmin_workers = 0", "worker_pool.min_workers"),
    ("[worker_pool]\nqueue_capacity = 0", "worker_pool.queue_capacity"),
    ("[worker_pool]\non_full = 'explode'", "worker_pool.on_full"),
    ("[worker_pool]\nlevel_capacity_ticks = {lowest = 5}", "worker_pool.level_capacity_ticks"),
    ("[retry_policy]\nmax_attempts = 0", "retry_policy.max_attempts"),
    ("[retry_policy]\nmax_retries = -1", "retry_policy.max_retries"),
    ("[retry_policy]\ninitial_backoff = '-1s'", "retry_policy.initial_backoff"),
    ("[retry_policy]\nmultiplier = 0.5", "retry_policy.multiplier"),
    ("[retry_policy]\njitter = 2.0", "retry_policy.jitter"),
    ("[resource_limits]\ncpu_threshold = 1.5", "resource_limits.cpu_threshold"),
    ("[resource_limits]\nmemory_threshold = 0", "resource_limits.memory_threshold"),
    ("[resource_limits]\nio_queue_threshold = 0", "resource_limits.io_queue_threshold"),
    ("[no_such_table]\nkey = 1", "no_such_table"),
    ("policy = 5", "policy"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "key"), BAD_KEYS, ids=[f"{key} {at}" for at, (_, key) in enumerate(BAD_KEYS)])
def test_a_bad_key_of_a_configuration_file_is_named_by_its_path(text: str, key: str, tmp_path: Path) -> None:
    path = tmp_path / "strand.toml"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as raised:
        strand.Config.load(path)
    assert key in str(raised.value)


# ---- what errors carry


@strand.batch_handler(state=[("n", "i8")])
def fails_on_b(symbol: str, ticks: Any, row: Any) -> None:
    row["n"] += len(ticks)
    if symbol == "B":
        raise ZeroDivisionError


TICKS = [("A", 1_000, 1.0, 1), ("B", 2_000, 2.0, 2), ("A", 3_000, 3.0, 3)]


def _handler_error(folder: Path) -> None:
    strand.replay(testing.feed(TICKS), fails_on_b, workers=1, cores=None)


def _unknown_symbol(folder: Path) -> None:
    strand.replay(testing.feed(TICKS), "count", watch=["Z"], workers=1, cores=None)


def _unknown_key(folder: Path) -> None:
    ticks = strand.ticks.zeros(3)
    ticks["instrument_id"] = [0, 1, 9]
    with strand.Dispatcher(["A", "B"], "count", workers=1, cores=None) as dispatcher:
        dispatcher.publish(ticks)


def _backpressure(folder: Path) -> None:
    with strand.Dispatcher(
        ["A"], "count", workers=1, cores=None, capacity_ticks=2, on_full="raise", publisher_drains=False
    ) as dispatcher:
        dispatcher.pause("A")
        try:
            dispatcher.publish(strand.ticks.zeros(5))
        finally:
            dispatcher.resume("A")


def _disorder(folder: Path) -> None:
    ticks = strand.ticks.zeros(3)
    ticks["ts_recv"] = [10, 5, 20]
    np.savez(folder / "back.npz", ticks=ticks, symbols=["A"])
    strand.replay(folder / "back.npz", "count", feed_options={"on_disorder": "raise"}, workers=0)


def _sink(folder: Path) -> None:
    class Sink:
        def write(self, batch: Any) -> None:
            raise OSError("full")

        def close(self) -> None:
            """Do nothing."""

        def abort(self) -> None:
            """Do nothing."""

    @strand.batch_handler(state=[], outputs={"out": [("n", "i8")]})
    def emits(symbol: str, ticks: Any, row: Any, ctx: Any) -> None:
        ctx.emit((1,), at=0)

    strand.replay(testing.feed(TICKS), emits, workers=0, out={"out": Sink()})


def _place(folder: Path) -> None:
    @strand.batch_handler(state=[], outputs={"out": [("n", "i8")]})
    def emits(symbol: str, ticks: Any, row: Any, ctx: Any) -> None:
        ctx.emit((1,), at=len(ticks))

    try:
        strand.replay(testing.feed(TICKS), emits, workers=0)
    except HandlerError as error:
        raise error.__cause__ or error from None


def _strict(folder: Path) -> None:
    backwards = [("A", 3_000, 1.0, 1), ("A", 1_000, 1.0, 1)]
    strand.replay(testing.feed(backwards), "count", workers=0, strict=True)


def _difference(folder: Path) -> None:
    one, other = (strand.replay(testing.feed(TICKS[:n]), "count", workers=0) for n in (2, 3))
    testing.assert_same(other, one)


def _call_timeout(folder: Path) -> None:
    with strand.Dispatcher(["A"], "count", workers=1, cores=None) as dispatcher:
        dispatcher.pause("A")
        try:
            dispatcher.call("A", bad_values._answer, timeout_s=0.01)
        finally:
            dispatcher.resume("A")


def _quarantined(folder: Path) -> None:
    ticks = strand.ticks.zeros(1)
    ticks["instrument_id"] = 1
    with strand.Dispatcher(["A", "B"], fails_on_b, workers=1, cores=None, on_error="quarantine") as dispatcher:
        dispatcher.publish(ticks)
        dispatcher.drain()
        dispatcher.call("B", bad_values._answer, timeout_s=30)


def _would_deadlock(folder: Path) -> None:
    found: list[BaseException] = []
    given: list[Any] = []

    @strand.batch_handler(state=[])
    def drains(symbol: str, ticks: Any, row: Any) -> None:
        try:
            given[0].drain()
        except WouldDeadlockError as error:
            found.append(error)

    with strand.Dispatcher(["A"], drains, workers=1, cores=None) as dispatcher:
        given.append(dispatcher)
        dispatcher.publish(strand.ticks.zeros(1))
    raise found[0]


def _stopped(folder: Path) -> None:
    with strand.Dispatcher(["A"], "count", workers=1, cores=None) as dispatcher:
        dispatcher.publish(strand.ticks.zeros(1))
    dispatcher.publish(strand.ticks.zeros(1))


def _full(folder: Path) -> None:
    gate = threading.Event()
    with strand.Scheduler(workers=1, max_queue=1) as scheduler:
        try:
            for _ in range(4):
                scheduler.submit(gate.wait, 30)
        finally:
            gate.set()


def _expired(folder: Path) -> None:
    with strand.Scheduler(workers=1) as scheduler:
        scheduler.options(expire_if=lambda: True).submit(int).result(timeout=60)


def _record_type(folder: Path) -> None:
    with strand.Dispatcher(["A"], "count", workers=1, cores=None) as dispatcher:
        dispatcher.publish(np.zeros(3, [("price", "f4")]))


def _unknown_output(folder: Path) -> None:
    strand.replay(testing.feed(TICKS), "count", workers=0).outputs["bars"]  # type: ignore[index]


def _unfit_state(folder: Path) -> None:
    (folder / "state").write_bytes(b"no state")
    strand.replay(testing.feed(TICKS), "count", workers=1, cores=None, load=folder / "state")


def _empty(folder: Path) -> None:
    strand.replay(testing.feed([], symbols=["A"]), "count", workers=0)


def _unknown_format(folder: Path) -> None:
    (folder / "what").write_bytes(b"nothing of this is a feed\n" * 9)
    strand.feeds.open(folder / "what")


def _missing_file(folder: Path) -> None:
    strand.feeds.open(folder / "none")


def _cut_feed(folder: Path) -> None:
    strand.replay(testing.feed(TICKS, error=TruncatedFeedError("cut"), error_at=2), "count", workers=1, cores=None)


def _option(folder: Path) -> None:
    strand.replay(testing.feed(TICKS), "count", wokers=1)  # type: ignore[call-arg]


CARRIED: list[tuple[Callable[[Path], None], type[BaseException], dict[str, Any]]] = [
    (_handler_error, HandlerError, {"symbol": "B", "handler": "fails_on_b", "sequence": 2}),
    (_unknown_symbol, UnknownSymbolError, {"position": None}),
    (_unknown_key, UnknownSymbolError, {"position": 2}),
    (_backpressure, BackpressureError, {"rejected": [2, 3, 4]}),
    (_disorder, DisorderError, {"position": 1}),
    (_sink, SinkError, {"output": "out", "method": "write"}),
    (_place, PlaceError, {}),
    (_strict, StrictError, {}),
    (_difference, DifferenceError, {"symbols": ("A",), "outputs": (), "seed": None}),
    (_call_timeout, CallTimeoutError, {"began": False}),
    (_quarantined, QuarantinedError, {}),
    (_would_deadlock, WouldDeadlockError, {}),
    (_stopped, StoppedError, {}),
    (_full, QueueFull, {}),
    (_expired, TaskExpired, {"reason": "expire_if"}),
    (_record_type, RecordTypeError, {}),
    (_unknown_output, UnknownNameError, {}),
    (_unfit_state, SavedStateError, {}),
    (_empty, EmptyFeedError, {}),
    (_unknown_format, UnknownFormatError, {"offset": None, "line": None}),
    (_missing_file, FeedError, {"offset": None, "line": None}),
    (_cut_feed, TruncatedFeedError, {}),
    (_option, UnknownOptionError, {}),
]  # fmt: skip


@pytest.mark.parametrize(("raises", "kind", "carries"), CARRIED, ids=[raises.__name__ for raises, _, _ in CARRIED])
def test_an_error_is_of_its_class_and_carries_what_the_page_says(
    raises: Callable[[Path], None], kind: type[BaseException], carries: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(kind) as raised:
        raises(tmp_path)
    assert type(raised.value) is kind
    assert isinstance(raised.value, strand.StrandError)
    for name, value in carries.items():
        found = getattr(raised.value, name)
        assert (found.tolist() if isinstance(found, np.ndarray) else found) == value, name


def test_a_run_that_ends_early_hands_over_what_it_handled() -> None:
    with pytest.raises(TruncatedFeedError) as raised:
        _cut_feed(Path())
    assert raised.value.partial.ticks == 2
    assert raised.value.partial.rows["A"]["ticks"] == 1
    with pytest.raises(StrictError) as strict:
        _strict(Path())
    assert strict.value.partial.ticks == 2


def test_every_error_of_the_package_is_a_strand_error_and_is_in_a_table() -> None:
    """Some are raised only beside other processes, networks or missing packages: they are named here."""
    elsewhere = {"StrandError", "MissingExtraError", "GapError", "EngineError", "TaskDropped", "AttachError",
                 "FormatError", "ConfigurationError"}  # fmt: skip
    every = {
        name for name, kind in vars(strand.errors).items()
        if isinstance(kind, type) and issubclass(kind, Exception) and kind.__module__ == "strand.errors"
    }  # fmt: skip
    assert all(issubclass(getattr(strand.errors, name), strand.StrandError) for name in every)
    assert every == elsewhere | {kind.__name__ for _, kind, _ in CARRIED}
    assert issubclass(FormatError, FeedError)
    assert not issubclass(TaskDropped, FeedError)
    assert not issubclass(AttachError, FeedError)
