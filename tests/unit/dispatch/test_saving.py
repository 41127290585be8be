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
from strand.errors import ConfigurationError, FeedError, SavedStateError, StoppedError
from strand.feeds.synthetic.market import SyntheticFeed
from tests.support.saved_handlers import HANDLERS, RECORD, Counted, Forgetful, counted, dispatcher_of, made_ticks

ROOT = Path(__file__).resolve().parents[3]
SAMPLE = ROOT / "strand/data/sample.itch50.gz"
PLACES = 20


def outputs_of(dispatcher: strand.Dispatcher) -> dict[str, npt.NDArray[Any]]:
    return {name: output.array() for name, output in dispatcher.outputs.items()}


def strands_apart(dispatcher: strand.Dispatcher) -> list[int]:
    """A symbol of each strand that has any."""
    return list({dispatcher.strand_of(symbol): symbol for symbol in range(len(dispatcher.symbols))}.values())


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


def run_apart(state: Path, name: str, ticks: npt.NDArray[Any], symbols: int, folder: Path) -> dict[str, Any]:
    """The rest of a run, in a new process: what it left."""
    np.save(folder / "rest.npy", ticks)
    script = "import sys\nfrom tests.support.saved_handlers import finish_apart\nfinish_apart(*sys.argv[1:])\n"
    arguments = [str(state), name, str(symbols), str(folder)]
    subprocess.run([sys.executable, "-c", script, *arguments], cwd=ROOT, check=True)
    with np.load(folder / "left.npz") as left:
        return {name: left[name] for name in left.files}


@pytest.mark.parametrize("name", HANDLERS)
def test_a_new_process_goes_on_as_if_nothing_had_been(name: str, tmp_path: Path) -> None:
    ticks, symbols = made_ticks(HANDLERS[name][1])
    with dispatcher_of(name, symbols) as whole:
        whole.publish(ticks)
    cut = len(ticks) * 3 // 5
    first = dispatcher_of(name, symbols).start()
    first.publish(ticks[:cut])
    first.save(tmp_path / "state")
    left = run_apart(tmp_path / "state", name, ticks[cut:], symbols, tmp_path)
    np.testing.assert_array_equal(left.pop("rows"), whole.rows.array)
    assert_same_outputs(joined(outputs_of(first), left), outputs_of(whole))


def test_the_sample_day_is_the_same_wherever_it_was_saved(tmp_path: Path) -> None:
    ticks, symbols = sample()
    with dispatcher_of("books and bars", symbols) as whole:
        whole.publish(ticks)
    expected = outputs_of(whole)
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
        assert sum(second.inspect(symbol).handled for symbol in strands_apart(second)) == len(ticks)


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


# ---- refused


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


def test_a_handler_that_failed_has_left_a_tick_half_done(tmp_path: Path) -> None:
    @strand.batch_handler(state=[("n", "i8")])
    def fails(symbol: str, ticks: npt.NDArray[Any], row: Any) -> None:
        raise ValueError("no")

    ticks, symbols = made_ticks("plain")
    one = strand.Dispatcher(symbols, fails, feed="plain", workers=1, cores=None, on_error="quarantine").start()
    one.publish(ticks[:1])
    with pytest.raises(SavedStateError, match="a handler has failed"):
        one.save(tmp_path / "state")


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"workers": 1}, "workers"),
        ({"handler": lambda: strand.bars("5m")}, "handler"),
        ({"handler": lambda: "count"}, "handler"),
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
        strand.Dispatcher(other.pop("symbols"), handler, feed="plain", cores=None, load=tmp_path / "state", **other)


def test_other_names_are_refused(tmp_path: Path) -> None:
    strand.Dispatcher(["A", "B"], "count", workers=1, cores=None).start().save(tmp_path / "state")
    with pytest.raises(SavedStateError, match="symbol 1 is 'B' there and 'C' here"):
        strand.Dispatcher(["A", "C"], "count", workers=1, cores=None, load=tmp_path / "state")


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    ticks, symbols = made_ticks("orders")
    first = dispatcher_of("books and bars", symbols).start()
    first.publish(ticks)
    first.save(tmp_path / "state")
    whole = (tmp_path / "state").read_bytes()
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
        # A bit that nobody reads (a date, a comment's length) may leave it whole.
    assert refused >= 50
    (tmp_path / "state").write_bytes(b"no state")
    with pytest.raises(SavedStateError, match="no saved state"):
        dispatcher_of("books and bars", symbols, load=tmp_path / "state")
    with pytest.raises(SavedStateError, match="cannot be read"):
        dispatcher_of("books and bars", symbols, load=tmp_path / "nowhere")


def test_another_release_is_refused(tmp_path: Path) -> None:
    strand.Dispatcher(2, "count", workers=1, cores=None).start().save(tmp_path / "state")
    with zipfile.ZipFile(tmp_path / "state") as packed:
        parts = {name: packed.read(name) for name in packed.namelist()}
    about = json.loads(parts["state.json"]) | {"version": "0.0.1"}
    with zipfile.ZipFile(tmp_path / "state", "w") as packed:
        for name, data in (parts | {"state.json": json.dumps(about).encode()}).items():
            packed.writestr(name, data)
    with pytest.raises(SavedStateError, match=r"strand 0\.0\.1 saved it"):
        strand.Dispatcher(2, "count", workers=1, cores=None, load=tmp_path / "state")


def test_a_state_that_cannot_be_written_ends_the_run_with_what_was_final(tmp_path: Path) -> None:
    ticks, symbols = made_ticks("plain")
    one = dispatcher_of("bars", symbols, out={"bars": tmp_path / "bars.npy"}).start()
    one.publish(ticks)
    with pytest.raises(FeedError, match="nowhere"):
        one.save(tmp_path / "nowhere" / "state")
    with pytest.raises(StoppedError):
        one.publish(ticks)
    assert len(np.load(tmp_path / "bars.npy"))


# ---- replays


@pytest.mark.parametrize("cut", [1, 70_001, 200_499])
def test_a_replay_goes_on_where_it_was_saved(cut: int, tmp_path: Path) -> None:
    whole = strand.replay(SAMPLE, "book", workers=2, cores=None)
    first = strand.replay(SAMPLE, "book", workers=2, cores=None, limit=cut, save=tmp_path / "state")
    second = strand.replay(SAMPLE, "book", workers=2, cores=None, load=tmp_path / "state")
    assert (first.ticks, second.ticks) == (cut, whole.ticks - cut)
    assert second.fingerprint == whole.fingerprint
    np.testing.assert_array_equal(second.ticks_by_symbol, whole.ticks_by_symbol)
    assert list(second.symbols) == list(whole.symbols)


def test_files_of_both_parts_are_those_of_one_replay(tmp_path: Path) -> None:
    options: dict[str, Any] = {"handler": strand.bars("1m"), "workers": 1, "cores": None}
    strand.replay(SAMPLE, out={"bars": tmp_path / "whole.npy"}, **options)
    strand.replay(SAMPLE, out={"bars": tmp_path / "a.npy"}, limit=100_000, save=tmp_path / "state", **options)
    strand.replay(SAMPLE, out={"bars": tmp_path / "b.npy"}, load=tmp_path / "state", **options)
    parts = [np.load(tmp_path / name) for name in ("a.npy", "b.npy")]
    np.testing.assert_array_equal(np.concatenate(parts), np.load(tmp_path / "whole.npy"))


def test_another_source_is_refused(tmp_path: Path) -> None:
    strand.replay(SAMPLE, "count", workers=1, cores=None, limit=10, save=tmp_path / "state")
    other = tmp_path / "other.itch50.gz"
    SyntheticFeed(501, 1000, seed=3, date="2026-01-05").write_itch(other)
    with pytest.raises(SavedStateError, match="another file"):
        strand.replay(other, "count", workers=1, cores=None, load=tmp_path / "state")


@pytest.mark.parametrize(
    ("options", "what"),
    [({"workers": 0}, "workers"), ({"per_day": True}, "per_day"), ({"position": 3}, "position"),
     ({"fingerprint_every": 10}, "fingerprints")],
)  # fmt: skip
def test_what_does_not_go_together_is_refused(options: dict[str, Any], what: str, tmp_path: Path) -> None:
    strand.replay(SAMPLE, "count", workers=1, cores=None, limit=10, save=tmp_path / "state")
    with pytest.raises(ConfigurationError, match=what):
        strand.replay(SAMPLE, "count", **({"workers": 1} | options), load=tmp_path / "state")


def test_an_interrupt_ends_a_replay_with_its_state(tmp_path: Path) -> None:
    def interrupt(ticks: int) -> None:
        if ticks > 50_000:
            raise KeyboardInterrupt

    options: dict[str, Any] = {"handler": "count", "workers": 1, "cores": None}
    whole = strand.replay(SAMPLE, **options)
    with pytest.raises(KeyboardInterrupt) as ended:
        strand.replay(SAMPLE, progress=interrupt, save=tmp_path / "state", **options)
    first: Any = ended.value
    second = strand.replay(SAMPLE, load=tmp_path / "state", **options)
    assert first.partial.ticks + second.ticks == whole.ticks
    assert second.fingerprint == whole.fingerprint


def test_objects_know_what_they_knew(tmp_path: Path) -> None:
    ticks, symbols = made_ticks("plain")
    first = dispatcher_of("counted objects", symbols).start()
    first.publish(ticks[:1500])
    first.save(tmp_path / "state")
    with dispatcher_of("counted objects", symbols, load=tmp_path / "state") as second:
        assert {name: thing.seen for name, thing in second.objects.items()} == counted(ticks[:1500])
        second.publish(ticks[1500:])
    assert {name: thing.seen for name, thing in second.objects.items()} == counted(ticks)
