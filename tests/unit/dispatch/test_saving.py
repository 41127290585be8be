"""A dispatcher that is saved, and goes on in another process: the records of both parts are those of one run."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import strand
from strand.errors import FeedError, SavedStateError, StoppedError
from tests.support.saved_handlers import HANDLERS, dispatcher_of, made_ticks

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
