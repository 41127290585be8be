"""A dispatcher that is saved, and goes on in another process: the records of both parts are those of one run."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import strand
from strand.dispatch.configuration import grouped
from strand.errors import FeedError, SavedStateError, StoppedError
from tests.support.saved_handlers import HANDLERS, RECORD, Counted, Forgetful, dispatcher_of, made_ticks

ROOT = Path(__file__).resolve().parents[3]
SAMPLE = ROOT / "strand/data/sample.itch50.gz"
PLACES = 6


def outputs_of(dispatcher: strand.Dispatcher) -> dict[str, npt.NDArray[Any]]:
    return {name: output.array() for name, output in dispatcher.outputs.items()}


def strands_apart(dispatcher: strand.Dispatcher, symbols: list[int]) -> list[int]:
    """One of the symbols for each strand that has any of them."""
    return list({dispatcher.strand_of(symbol): symbol for symbol in symbols}.values())


def sample() -> tuple[npt.NDArray[Any], int]:
    with strand.feeds.open(SAMPLE) as feed:
        return np.concatenate([batch.copy() for batch in feed.batches()]), feed.max_symbols


def joined(first: dict[str, npt.NDArray[Any]], second: dict[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
    return {name: np.concatenate([first[name], second[name]]) for name in first}


def assert_same_outputs(found: dict[str, npt.NDArray[Any]], expected: dict[str, npt.NDArray[Any]]) -> None:
    assert found.keys() == expected.keys()
    for name, records in expected.items():
        assert len(records), f"{name} has nothing to compare"
        np.testing.assert_array_equal(found[name], records)


def run_apart(folders: dict[str, Path]) -> None:
    """The rest of each run, all in one new process: a folder by the name of its handler."""
    # Behind the package that is under test, which may be another build.
    script = (
        "import sys\nsys.path.append(sys.argv[1])\n"
        "from tests.support.saved_handlers import finish_apart\n"
        "for name, folder in zip(sys.argv[2::2], sys.argv[3::2]):\n    finish_apart(name, folder)\n"
    )
    arguments = [str(ROOT), *(str(word) for pair in folders.items() for word in pair)]
    subprocess.run([sys.executable, "-c", script, *arguments], cwd=ROOT, check=True)


@pytest.fixture(scope="module")
def halves(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, dict[str, npt.NDArray[Any]]]]:
    """For each handler, the folder in which a new process has finished a run that was saved, and what came before."""
    found = {}
    for number, (name, (_, kind)) in enumerate(HANDLERS.items()):
        ticks, symbols = made_ticks(kind)
        folder, cut = tmp_path_factory.mktemp(f"{number}"), len(ticks) * 3 // 5
        np.savez(folder / "rest.npz", ticks=ticks[cut:], symbols=symbols)
        first = dispatcher_of(name, symbols).start()
        first.publish(ticks[:cut])
        first.save(folder / "state")
        found[name] = folder, outputs_of(first)
    run_apart({name: folder for name, (folder, _) in found.items()})
    return found


@pytest.mark.parametrize("name", HANDLERS)
def test_a_new_process_goes_on_as_if_nothing_had_been(name: str, halves: Any) -> None:
    ticks, symbols = made_ticks(HANDLERS[name][1])
    with dispatcher_of(name, symbols) as whole:
        whole.publish(ticks)
    folder, first = halves[name]
    with np.load(folder / "left.npz") as file:
        left = {name: file[name] for name in file.files}
    np.testing.assert_array_equal(left.pop("rows"), whole.rows.array)
    assert_same_outputs(joined(first, left), outputs_of(whole))


@pytest.mark.python
def test_the_sample_day_is_the_same_wherever_it_was_saved(tmp_path: Path) -> None:
    ticks, symbols = sample()
    with dispatcher_of("books and bars", symbols) as whole:
        whole.publish(ticks)
    expected, seen = outputs_of(whole), np.unique(ticks["instrument_id"]).tolist()
    draw = random.Random(17)
    for place in sorted(draw.randrange(len(ticks) + 1) for _ in range(PLACES)):
        first = dispatcher_of("books and bars", symbols).start()
        first.publish(ticks[:place])
        first.save(tmp_path / "state")
        with dispatcher_of("books and bars", symbols, load=tmp_path / "state") as second:
            second.publish(ticks[place:])
        second.verify()
        np.testing.assert_array_equal(second.rows.array, whole.rows.array)
        assert_same_outputs(joined(outputs_of(first), outputs_of(second)), expected)
        for side in ("bid", "ask"):
            for symbol in (0, symbols // 2, symbols - 1):
                np.testing.assert_array_equal(second.books[symbol].orders(side), whole.books[symbol].orders(side))
        both = second.statistics()
        assert (both.accepted, both.handled, both.pending) == (len(ticks) - place, len(ticks) - place, 0)
        assert sum(second.inspect(symbol).handled for symbol in strands_apart(second, seen)) == len(ticks)


def test_it_may_be_saved_again_and_again(tmp_path: Path) -> None:
    ticks, symbols = made_ticks("orders")
    with dispatcher_of("books and bars", symbols) as whole:
        whole.publish(ticks)
    parts, load = [], None
    for number, part in enumerate(np.array_split(ticks, 5)):
        one = dispatcher_of("books and bars", symbols, load=load).start()
        one.publish(part)
        if number < 4:
            load = tmp_path / f"state{number}"
            one.save(load)
        else:
            one.stop()
        parts.append(outputs_of(one))
    np.testing.assert_array_equal(one.rows.array, whole.rows.array)
    assert_same_outputs({name: np.concatenate([part[name] for part in parts]) for name in parts[0]}, outputs_of(whole))


@pytest.mark.parametrize("options", [{"attachable": True}, {"strands": "per-symbol"}, {"strands": 3}])
def test_however_the_dispatcher_is_made(options: dict[str, Any], tmp_path: Path) -> None:
    ticks, symbols = made_ticks("orders")
    with dispatcher_of("books and bars", symbols, **options) as whole:
        whole.publish(ticks)
    first = dispatcher_of("books and bars", symbols, **options).start()
    first.publish(ticks[:1000])
    first.save(tmp_path / "state")
    with dispatcher_of("books and bars", symbols, load=tmp_path / "state", **options) as second:
        second.publish(ticks[1000:])
    np.testing.assert_array_equal(second.rows.array, whole.rows.array)
    assert_same_outputs(joined(outputs_of(first), outputs_of(second)), outputs_of(whole))


def test_memory_that_changes_while_it_is_saved_is_saved_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An idle worker that asks for the watermark takes a lock, which stands in what is saved. zipfile reads bytes once
    for their sum, and once more to write them."""
    ticks, symbols = made_ticks("plain")
    first = dispatcher_of("bars", symbols).start()
    first.publish(ticks)
    changing, crc32 = first._engine.saved_tables()["feed_time"], zipfile.crc32

    def then_changed(*arguments: Any) -> int:
        found: int = crc32(*arguments)
        changing[-1] ^= 1
        return found

    monkeypatch.setattr(zipfile, "crc32", then_changed)
    first.save(tmp_path / "state")
    monkeypatch.undo()
    with dispatcher_of("bars", symbols, load=tmp_path / "state") as again:
        assert again.watermark() == len(ticks)


def test_names_that_were_learned_are_known(tmp_path: Path) -> None:
    first = strand.Dispatcher(4, "count", workers=1, cores=None).start()
    first.learn_symbols(["", "B", "C"])
    first.save(tmp_path / "state")
    second = strand.Dispatcher(4, "count", workers=1, cores=None, load=tmp_path / "state")
    assert list(second.symbols[:]) == ["#0", "B", "C", "#3"]


def test_saving_ends_the_run(tmp_path: Path) -> None:
    ticks, symbols = made_ticks("plain")
    with dispatcher_of("bars", symbols) as one:
        one.publish(ticks[:100])
        one.save(tmp_path / "state")
        with pytest.raises(StoppedError):
            one.publish(ticks[100:])
        with pytest.raises(StoppedError):
            one.save(tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_ticks_of_paused_strands_would_be_lost(tmp_path: Path) -> None:
    ticks, symbols = made_ticks("plain")
    one = strand.Dispatcher(
        symbols, "count", workers=1, cores=None, strands="per-symbol", publisher_drains=False
    ).start()
    one.pause(int(ticks["instrument_id"][0]))
    one.publish(ticks[:10])
    with pytest.raises(SavedStateError, match="paused strands"):
        one.save(tmp_path / "state")
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("published", [1, 100])
def test_a_handler_that_failed_has_left_a_tick_half_done(published: int, tmp_path: Path) -> None:
    @strand.batch_handler(state=[("n", "i8")])
    def fails(symbol: str, ticks: npt.NDArray[Any], row: Any) -> None:
        raise ValueError("no")

    ticks, symbols = made_ticks("plain")
    one = strand.Dispatcher(symbols, fails, feed="plain", workers=1, cores=None, on_error="quarantine").start()
    one.publish(ticks[:published])
    assert one.drain()
    assert (one.statistics().pending > 0) == (published > 1)  # ticks of the strands in quarantine wait
    with pytest.raises(SavedStateError, match="a handler has failed"):
        one.save(tmp_path / "state")


def test_a_state_that_cannot_be_written_ends_the_run_with_what_was_final(tmp_path: Path) -> None:
    ticks, symbols = made_ticks("plain")
    one = dispatcher_of("bars", symbols, out={"bars": tmp_path / "bars.npy"}).start()
    one.publish(ticks)
    with pytest.raises(FeedError, match="nowhere"):
        one.save(tmp_path / "nowhere" / "state")
    with pytest.raises(StoppedError):
        one.publish(ticks)
    assert len(np.load(tmp_path / "bars.npy"))


# ---- What a file of a saved dispatcher says, and which dispatchers go on with it


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


# ---- What objects and contexts of handlers in Python save


def test_objects_that_cannot_save_themselves_are_refused_by_name(tmp_path: Path) -> None:
    ticks, symbols = made_ticks("plain")
    one = strand.Dispatcher(symbols, Forgetful, feed="plain", workers=1, cores=None).start()
    one.publish(ticks)
    with pytest.raises(SavedStateError, match=r"handler 'Forgetful'.*save\(self\) -> bytes"):
        one.save(tmp_path / "state")
    assert not (tmp_path / "state").exists()
    assert one.publish(ticks) == len(ticks)  # it goes on
    one.stop()


def test_a_handler_that_keeps_something_in_its_context_is_refused(tmp_path: Path) -> None:
    @strand.batch_handler(state=[("n", "i8")])
    def keeps(symbol: str, ticks: npt.NDArray[Any], row: Any, ctx: Any) -> None:
        ctx.last = ticks[-1]["price"]

    ticks, symbols = made_ticks("plain")
    one = strand.Dispatcher(symbols, keeps, feed="plain", workers=1, cores=None).start()
    one.publish(ticks)
    with pytest.raises(SavedStateError, match=r"handler 'keeps' keeps ctx\.last"):
        one.save(tmp_path / "state")
    one.stop()


class SavesText(Counted):
    def save(self) -> Any:
        return "no bytes"


def test_a_save_that_returns_no_bytes_is_refused(tmp_path: Path) -> None:
    ticks, symbols = made_ticks("plain")
    handler = strand.object_handler(outputs={"counted": RECORD})(SavesText)
    one = strand.Dispatcher(symbols, handler, feed="plain", workers=1, cores=None).start()
    one.publish(ticks)
    with pytest.raises(SavedStateError, match="save returned str"):
        one.save(tmp_path / "state")
    assert not (tmp_path / "state").exists()


def test_a_state_that_is_saved_and_loaded_again_and_again_does_not_grow(tmp_path: Path) -> None:
    sizes: list[int] = []
    symbols, path = [f"S{n}" for n in range(5_000)], tmp_path / "state"
    for turn in range(4):
        load = {"load": path} if turn else {}
        with strand.Dispatcher(
            symbols, strand.chain("vwap", strand.bars("1s")), feed="plain", workers=1, **load
        ) as run:
            run.publish(strand.ticks.zeros(1))
            run.save(path)
        sizes.append(path.stat().st_size)
    assert sizes[3] < sizes[1] * 1.05
