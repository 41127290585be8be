"""A run by every code, shape, number of workers and stop leaves what the plain run in tests/support/plain.py leaves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import marked
import numpy as np
import plain
import pytest
from all_pairs import Cell, every, name_of, pairwise

import strand
from strand.errors import ConfigurationError, HandlerError, SavedStateError

pytestmark = pytest.mark.python
pytest.importorskip("numba")

NAMES = ["A", "B", "C", "D", "E"]
BASKETS = {"pair": ["A", "C"], "more": ["C", "B", "D"]}
PARAMS = {
    "*": {"factor": 6364136223846793005, "span": 120, "fail_at": 0},
    "B": {"factor": 99, "span": 40, "fail_at": 0},
}
FAILING = {**PARAMS, "B": {"factor": 99, "span": 40, "fail_at": 17}}
TICKS = 400
#: Clear records of these symbols stand before the tick of this position: the first is the end of a day for all.
CLEARS = {150: [0, 1, 2, 3, 4], 300: [1, 4]}

FACTORS: Mapping[str, Any] = {
    "stop": [
        "none", "limit", "until a tick", "until a time", "days", "snapshots", "fingerprints", "files", "fails",
        "quarantine", "saved", "dispatcher",
    ],
    "code": ["C", "compiled", "batch", "object"],
    "shape": ["symbol", "basket"],
    "workers": [0, 1, 2, 4],
    "batch": [1, 7, 4096],
    "strands": ["auto", "per-symbol", 2],
    "seed": [1, 2, 3],
}  # fmt: skip


def refused(cell: Cell) -> type[Exception] | None:
    """The error of a combination that the pages say cannot be."""
    if cell["workers"] == 0 and cell["stop"] in ("quarantine", "saved"):
        return ConfigurationError
    if cell["stop"] == "saved" and cell["shape"] == "basket" and cell["code"] == "object":
        return SavedStateError
    if cell["stop"] == "days" and cell["shape"] == "basket":
        return ConfigurationError  # the second boundary is one of some members
    return None


def possible(cell: Cell) -> bool:
    """Baskets have no code in C; a dispatcher has workers; a strand of several symbols is set aside as a whole."""
    return not (
        (cell["shape"] == "basket" and cell["code"] == "C")
        or (cell["stop"] == "dispatcher" and cell["workers"] == 0)
        or (cell["stop"] == "quarantine" and cell["strands"] != "per-symbol")
    )


def draw(seed: int) -> Any:
    """Ticks of all kinds, some with times that run back, and clear records."""
    rng = np.random.default_rng(seed)
    ticks = strand.ticks.zeros(TICKS)
    ticks["instrument_id"] = rng.integers(0, len(NAMES) - 1, TICKS)
    ticks["ts_recv"] = 1_000 + np.maximum(np.cumsum(rng.integers(-3, 30, TICKS)), 0)
    ticks["ts_event"] = ticks["ts_recv"] - rng.integers(0, 5, TICKS)
    ticks["price"], ticks["size"] = rng.integers(1, 10**12, TICKS), rng.integers(0, 2**40, TICKS)
    ticks["kind"], ticks["action"] = rng.choice([0, 1, 2, 3], TICKS), rng.choice([b"A", b"C", b"T", b"N"], TICKS)
    ticks["side"], ticks["publisher_id"] = rng.choice([b"A", b"B", b"N"], TICKS), rng.integers(0, 2**16, TICKS)
    ticks["order_id"] = rng.integers(0, 2**64, TICKS, dtype=np.uint64)
    ticks["sequence"] = 2**33 + np.arange(TICKS)
    for at, keys in CLEARS.items():
        clears = ticks[at : at + len(keys)]
        clears["instrument_id"], clears["ts_recv"] = keys, ticks["ts_recv"][at : at + len(keys) + 1].max()
        clears["kind"], clears["action"], clears["side"] = strand.ticks.KIND_STATUS, b"R", b"N"
        clears["price"], clears["size"] = strand.UNDEF_PRICE, 0
    return ticks


@cache
def drawn(seed: int) -> Any:
    return draw(seed)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


def source(folder: Path, seed: int) -> Path:
    path = folder / f"{seed}.npz"
    if not path.exists():
        np.savez(path, ticks=drawn(seed), symbols=NAMES)
    return path


def plain_handler(cell: Cell) -> plain.Plain:
    return marked.plain_basket(BASKETS) if cell["shape"] == "basket" else marked.PLAIN


@cache
def expected(shape: str, seed: int, stop: str) -> plain.Ran:
    """The plain run; each is asked for by many combinations."""
    handler = plain_handler({"shape": shape})
    failing = stop in ("fails", "quarantine")
    return plain.plain_run(
        handler, NAMES, plain.ticks_of(drawn(seed)), params=FAILING if failing else PARAMS,
        quarantine=stop == "quarantine", **_plain_stop(stop, seed),
    )  # fmt: skip


def _plain_stop(stop: str, seed: int) -> dict[str, Any]:
    return {
        "limit": {"limit": 123},
        "until a tick": {"until": ("B", 17)},
        "until a time": {"until": int(drawn(seed)["ts_recv"][200])},
        "days": {"per_day": True},
        "snapshots": {"every_ns": 700},
    }.get(stop, {})


def of_strand(cell: Cell, folder: Path) -> Any:
    if cell["shape"] == "basket":
        handler = marked.in_baskets(cell["code"], BASKETS)
    else:
        handler = marked.of_code(cell["code"], folder)
    return handler.with_params(FAILING if cell["stop"] in ("fails", "quarantine") else PARAMS)


def options_of(cell: Cell) -> dict[str, Any]:
    return {"workers": cell["workers"], "strands": cell["strands"], "cores": None}


def replayed(cell: Cell, folder: Path, **options: Any) -> strand.ReplayResult:
    reading = {"batch_ticks": cell["batch"], "ticks": "plain"}
    path = source(folder, cell["seed"])
    return strand.replay(path, of_strand(cell, folder), feed_options=reading, **options_of(cell), **options)


# ---- what is compared


def records_of(outputs: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Records as tuples, with names in the place of indices."""
    found = {}
    for name, records in outputs.items():
        columns = {field: records[field].tolist() for field in records.dtype.names}
        columns["instrument_id"] = [NAMES[key] for key in columns["instrument_id"]]
        found[name] = list(zip(*columns.values(), strict=True))
    return found


def assert_rows(rows: Any, ran: plain.Ran, *but: str) -> None:
    found = {name: tuple(rows[name].tolist()) for name in ran.rows if name not in but}
    assert found == {name: tuple(row.values()) for name, row in ran.rows.items() if name not in but}


def assert_baskets(baskets: Any, ran: plain.Ran) -> None:
    found = {name: tuple(baskets[name].tolist()) for name in ran.baskets}
    assert found == {name: tuple(row.values()) for name, row in ran.baskets.items()}


def assert_same(result: strand.ReplayResult, ran: plain.Ran, handler: plain.Plain) -> None:
    assert result.ticks == ran.ticks
    assert_rows(result.rows, ran)
    assert_baskets(result.baskets, ran)
    assert records_of(result.outputs) == ran.outputs
    assert result.fingerprint == plain.fingerprint_of(handler, ran.rows, ran.counts, ran)
    assert {NAMES[key]: n for key, n in enumerate(result.ticks_by_symbol.tolist()) if n} == ran.counts


# ---- runs, by stop


def runs(cell: Cell, folder: Path) -> None:
    """One of ``limit``, ``until`` and none."""
    ran, handler = expected(cell["shape"], cell["seed"], cell["stop"]), plain_handler(cell)
    assert_same(replayed(cell, folder, **_plain_stop(cell["stop"], cell["seed"])), ran, handler)


def runs_by_day(cell: Cell, folder: Path) -> None:
    ran, handler = expected(cell["shape"], cell["seed"], "days"), plain_handler(cell)
    result = replayed(cell, folder, per_day=True)
    assert_same(result, ran, handler)
    assert len(result.days) == len(ran.days) == 3
    for day, (rows, counts) in zip(result.days, ran.days, strict=True):
        assert dict(zip(day.symbols, day.ticks_by_symbol.tolist(), strict=True)) == counts
        assert {name: tuple(day.rows[name].tolist()) for name in rows} == {
            n: tuple(r.values()) for n, r in rows.items()
        }
        assert day.fingerprint == plain.fingerprint_of(handler, rows, counts)


def runs_with_snapshots(cell: Cell, folder: Path) -> None:
    ran, handler = expected(cell["shape"], cell["seed"], "snapshots"), plain_handler(cell)
    result = replayed(cell, folder, snapshot=strand.snapshot(every="700ns", fields=["ticks", "hash"]))
    assert_same(result, ran, handler)
    taken = result.snapshots
    assert taken is not None
    assert taken.times.tolist() == [time for time, _ in ran.snapshots]
    for field in ("ticks", "hash"):
        wanted = [[rows[name][field] if name in rows else None for name in taken.symbols] for _, rows in ran.snapshots]
        assert taken[field].array.tolist() == wanted


def runs_with_fingerprints(cell: Cell, folder: Path) -> None:
    handler = plain_handler(cell)
    result = replayed(cell, folder, fingerprint_every=150)
    assert_same(result, expected(cell["shape"], cell["seed"], "none"), handler)
    assert [interval.ticks for interval in result.intervals] == [150, 300, TICKS]
    for interval in result.intervals[:2]:
        until = plain.plain_run(
            handler, NAMES, plain.ticks_of(drawn(cell["seed"])[: interval.ticks]), params=PARAMS, ends=False
        )
        assert interval.fingerprint == plain.fingerprint_of(handler, until.rows, until.counts, until)
    assert result.intervals[-1].fingerprint == result.fingerprint


def runs_into_files(cell: Cell, folder: Path) -> None:
    """Files of exact integers."""
    ran, handler = expected(cell["shape"], cell["seed"], "none"), plain_handler(cell)
    paths = {name: folder / f"{name}-{name_of(cell)}.npy" for name in handler.outputs}
    result = replayed(cell, folder, out=paths)
    assert records_of({name: np.load(path) for name, path in paths.items()}) == ran.outputs
    assert {name: records for name, (_, records) in result.written.items()} == {
        n: len(r) for n, r in ran.outputs.items()
    }
    assert result.fingerprint == plain.fingerprint_of(handler, ran.rows, ran.counts, ran)


def fails(cell: Cell, folder: Path) -> None:
    """The first failure ends the run. A batch handler with workers names the first tick of its batch."""
    ran = expected(cell["shape"], cell["seed"], "fails")
    (failure,) = ran.failures
    with pytest.raises(HandlerError) as raised:
        replayed(cell, folder)
    error, batches = raised.value, cell["code"] == "batch" and (cell["workers"] > 0 or cell["shape"] == "basket")
    if cell["shape"] == "symbol" or not batches:
        assert error.symbol == failure.symbol
    if batches:
        assert error.sequence is not None
        assert failure.sequence is not None
        assert error.sequence <= failure.sequence
    else:
        assert error.sequence == failure.sequence
        assert error.tick["ts_event"] == drawn(cell["seed"])["ts_event"][failure.position]
        assert error.row.tolist() == tuple(failure.row.values())
        assert error.number in (failure.number, None)
        assert (error.number is None) <= (cell["shape"] == "basket" or cell["strands"] != "per-symbol")
        found = records_of(error.partial.outputs)
        if cell["workers"]:  # other symbols' ticks behind it may have been handled before the workers saw it
            more = {name: records[len(ran.outputs[name]) :] for name, records in found.items()}
            assert all(record[0] > failure.position for records in more.values() for record in records)
            found = {name: records[: len(ran.outputs[name])] for name, records in found.items()}
        assert found == ran.outputs
    if cell["code"] == "C":
        assert error.code == marked.CODE
    elif cell["code"] != "compiled":
        assert isinstance(error.__cause__, marked.AskedError)


def goes_on(cell: Cell, folder: Path) -> None:
    """All other strands are handled to the last tick."""
    ran = expected(cell["shape"], cell["seed"], "quarantine")
    result = replayed(cell, folder, on_error="quarantine")
    (text,) = result.failures
    aside = set(NAMES[:4]) if cell["shape"] == "basket" else {"B"}
    assert any(f" {name} " in text for name in aside)
    batches = cell["code"] == "batch"
    assert_rows(result.rows, ran, *(aside if batches else ()))
    if not batches:
        assert_baskets(result.baskets, ran)
    for name, records in records_of(result.outputs).items():
        kept = aside if batches else set()
        assert [r for r in records if r[3] not in kept] == [r for r in ran.outputs[name] if r[3] not in kept]


def goes_on_elsewhere(cell: Cell, folder: Path) -> None:
    """A saved state goes on in another run: the rows are those of one run, and the records follow each other."""
    ran, state = expected(cell["shape"], cell["seed"], "none"), folder / f"{name_of(cell)}.strand"
    first = replayed(cell, folder, limit=200, save=state)
    second = replayed(cell, folder, load=state)
    assert (first.ticks, second.ticks) == (200, TICKS - 200)
    assert_rows(second.rows, ran)
    assert_baskets(second.baskets, ran)
    begun, ended = records_of(first.outputs), records_of(second.outputs)
    assert {name: begun[name] + ended[name] for name in begun} == ran.outputs


def dispatches(cell: Cell, folder: Path) -> None:
    """A dispatcher of one's own."""
    ran = expected(cell["shape"], cell["seed"], "none")
    with strand.Dispatcher(NAMES, of_strand(cell, folder), feed="plain", **options_of(cell)) as dispatcher:
        for at in range(0, TICKS, max(cell["batch"], 5)):
            dispatcher.publish(drawn(cell["seed"])[at : at + max(cell["batch"], 5)])
        dispatcher.drain()
    assert_rows(dispatcher.rows, ran)
    assert_baskets(dispatcher.baskets, ran)
    assert records_of({name: output.array() for name, output in dispatcher.outputs.items()}) == ran.outputs
    counts = dispatcher.statistics()
    assert (counts.accepted, counts.handled, counts.pending) == (TICKS, TICKS, 0)


WAYS: dict[str, Callable[[Cell, Path], None]] = {
    "days": runs_by_day, "snapshots": runs_with_snapshots, "fingerprints": runs_with_fingerprints,
    "files": runs_into_files, "fails": fails, "quarantine": goes_on, "saved": goes_on_elsewhere,
    "dispatcher": dispatches,
}  # fmt: skip


def hold(cell: Cell, folder: Path) -> None:
    way, error = WAYS.get(cell["stop"], runs), refused(cell)
    if error is None:
        way(cell, folder)
    else:
        with pytest.raises(error):
            way(cell, folder)


@pytest.mark.parametrize("cell", pairwise(FACTORS, possible), ids=name_of)
def test_a_run_leaves_what_the_plain_run_leaves(cell: Cell, folder: Path) -> None:
    hold(cell, folder)


@pytest.mark.parametrize("stop", FACTORS["stop"])
def test_every_combination_leaves_what_the_plain_run_leaves(stop: str, folder: Path, exhaustive: None) -> None:
    for cell in every({**FACTORS, "stop": [stop], "seed": [1]}, possible):
        hold(cell, folder)
