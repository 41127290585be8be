"""What a file of a saved dispatcher says, and which dispatchers go on with it."""

from __future__ import annotations

import json
import random
import zipfile
from pathlib import Path
from typing import Any

import pytest

import strand
from strand.dispatch.options import grouped
from strand.errors import SavedStateError
from tests.support.saved_handlers import dispatcher_of, made_ticks


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"workers": 1}, "workers"),
        ({"policy": strand.Levels()}, "saved with the policy fifo, and this dispatcher has levels"),
        ({"handler": lambda: strand.bars("5m")}, "its handler 'bars' had every=1m, and here it has every=5m"),
        ({"handler": lambda: strand.bars("1m", fill=True)}, "'bars' had no fill, and here it has fill=yes"),
        ({"handler": lambda: "count"}, "it was saved with handler 'bars', and this dispatcher has handler 'count'"),
        ({"symbols": 7}, "symbols"),
        ({"max_publishers": 3}, "max_publishers"),
        ({"capacity_ticks": 128}, "memory_bytes, capacity_ticks or batch_ticks"),
        ({"output_memory": 1 << 25}, "output_memory"),
        ({"attachable": True}, "attachable"),
    ],
)
def test_another_dispatcher_is_refused_with_what_differs(options: dict[str, Any], what: str, tmp_path: Path) -> None:
    given: dict[str, Any] = {"workers": 2, "symbols": 8}
    first = strand.Dispatcher(given.pop("symbols"), strand.bars("1m"), feed="plain", cores=None, **given).start()
    first.save(tmp_path / "state")
    other = {"workers": 2, "symbols": 8} | options
    handler = other.pop("handler", lambda: strand.bars("1m"))()
    with pytest.raises(SavedStateError, match=what):
        strand.Dispatcher(
            other.pop("symbols"), handler, feed="plain", load=tmp_path / "state", **grouped(cores=None, **other)
        )


def made(**fields: str) -> Any:
    @strand.batch_handler(state=list(fields.items()), params=[("least", "i8")], name="made")
    def handle(symbol: str, ticks: Any, row: Any, params: Any) -> None:
        pass

    return handle.with_params({"*": {"least": 1}})


def both(every: str) -> Any:
    return strand.chain(strand.book(), strand.bars(every))


@pytest.mark.parametrize(
    ("before", "now", "what"),
    [
        (lambda: both("1m"), lambda: both("5m"), "had bars.every=1m, and here it has bars.every=5m"),
        (lambda: both("1m"), strand.book, r"saved with handler 'book\+bars', and this dispatcher has handler 'book'"),
        (lambda: made(n="i8"), lambda: made(m="i8"), "the rows of its handler 'made' have other fields than here"),
        (
            lambda: made(n="i8"),
            lambda: made(n="i8").with_params({"*": {"least": 2}}),
            "had least=1, and here it has least=2",
        ),
    ],
)
def test_it_is_said_what_differs_of_a_handler(before: Any, now: Any, what: str, tmp_path: Path) -> None:
    strand.Dispatcher(2, before(), feed="orders", workers=1, cores=None).start().save(tmp_path / "state")
    with pytest.raises(SavedStateError, match=what):
        strand.Dispatcher(2, now(), feed="orders", workers=1, cores=None, load=tmp_path / "state")


def test_other_names_are_refused(tmp_path: Path) -> None:
    strand.Dispatcher(["A", "B"], "count", workers=1, cores=None).start().save(tmp_path / "state")
    with pytest.raises(SavedStateError, match="symbol 1 is 'B' there and 'C' here"):
        strand.Dispatcher(["A", "C"], "count", workers=1, cores=None, load=tmp_path / "state")


def parts(saved: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(saved) as packed:
        return {name: packed.read(name) for name in packed.namelist()}


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    ticks, symbols = made_ticks("orders")
    first = dispatcher_of("books and bars", symbols).start()
    first.publish(ticks)
    first.save(tmp_path / "state")
    whole, parts_of_whole = (tmp_path / "state").read_bytes(), parts(tmp_path / "state")
    draw = random.Random(5)
    refused = 0
    for _ in range(60):
        damaged = bytearray(whole)
        if draw.random() < 0.5:
            del damaged[draw.randrange(len(damaged)) :]
        else:
            damaged[draw.randrange(len(damaged))] ^= 1 << draw.randrange(8)
        (tmp_path / "state").write_bytes(damaged)
        try:
            dispatcher_of("books and bars", symbols, load=tmp_path / "state")
        except SavedStateError:
            refused += 1
        else:
            # The bit says nothing (a date), or where in a stretch of zeros zeros are copied from.
            assert parts(tmp_path / "state") == parts_of_whole
    assert refused >= 30
    (tmp_path / "state").write_bytes(b"no state")
    with pytest.raises(SavedStateError, match="not a saved state"):
        dispatcher_of("books and bars", symbols, load=tmp_path / "state")
    with pytest.raises(SavedStateError, match="cannot be read"):
        dispatcher_of("books and bars", symbols, load=tmp_path / "nowhere")


def test_another_release_is_refused(tmp_path: Path) -> None:
    strand.Dispatcher(2, "count", workers=1, cores=None).start().save(tmp_path / "state")
    with zipfile.ZipFile(tmp_path / "state") as packed:
        parts = {name: packed.read(name) for name in packed.namelist()}
    about = json.loads(parts["state.json"]) | {"build": "strand 0.0.1, layout 1, abacus"}
    with zipfile.ZipFile(tmp_path / "state", "w") as packed:
        for name, data in (parts | {"state.json": json.dumps(about).encode()}).items():
            packed.writestr(name, data)
    with pytest.raises(SavedStateError, match=r"saved by strand 0\.0\.1, layout 1"):
        strand.Dispatcher(2, "count", workers=1, cores=None, load=tmp_path / "state")


@pytest.mark.parametrize(
    "change",
    [
        lambda about, parts: about["memory"].update(pieces=[[1 << 40, 4096]]),
        lambda about, parts: about["memory"].update(pieces=[[-4096, 4096]]),
        lambda about, parts: about["memory"].update(pieces=[]),
        lambda about, parts: about["memory"].update(end=12),
        lambda about, parts: about["memory"].update(end="far"),
        lambda about, parts: about["memory"].pop("pieces"),
        lambda about, parts: about.update(python=[[99, 0, False]]),
        lambda about, parts: about.update(python=[[-1, 0, False]]),
        lambda about, parts: about.update(python=5),
        lambda about, parts: about.update(symbols=[3]),
        lambda about, parts: about.update(rows_read=None),
        lambda about, parts: about.update(handlers=[]),
        lambda about, parts: about.update(configuration=[]),
        lambda about, parts: parts.update({"tables/map": b"\xff" * len(parts["tables/map"])}),
        lambda about, parts: parts.update({"tables/rows": parts["tables/rows"] + b"1"}),
        lambda about, parts: parts.update({"tables/rows": parts["tables/rows"][1:]}),
        lambda about, parts: parts.pop("tables/strands"),
        lambda about, parts: parts.pop("memory"),
    ],
)
def test_a_file_whose_parts_do_not_fit_together_is_refused(change: Any, tmp_path: Path) -> None:
    def dispatcher(load: Path | None = None) -> strand.Dispatcher:
        return strand.Dispatcher(8, strand.chain("book", "bars"), feed="orders", workers=1, cores=None, load=load)

    ticks, _ = made_ticks("orders")
    first = dispatcher().start()
    first.publish(ticks[ticks["instrument_id"] < 8])
    first.save(tmp_path / "state")
    with zipfile.ZipFile(tmp_path / "state") as packed:
        parts = {name: packed.read(name) for name in packed.namelist()}
    about = json.loads(parts["state.json"])
    change(about, parts)
    parts["state.json"] = json.dumps(about).encode()
    with zipfile.ZipFile(tmp_path / "state", "w") as packed:
        for name, data in parts.items():
            packed.writestr(name, data)
    with pytest.raises(SavedStateError):
        dispatcher(tmp_path / "state")
