"""A replay that goes on where another was saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import strand
from strand.errors import ConfigurationError, SavedStateError, UnknownFormatError
from strand.feeds.synthetic import SyntheticFeed

ROOT = Path(__file__).resolve().parents[3]
SAMPLE = ROOT / "strand/data/sample.itch50.gz"


def test_another_source_is_refused(tmp_path: Path) -> None:
    strand.replay(SAMPLE, "count", workers=1, cores=None, limit=10, save=tmp_path / "state")
    other = tmp_path / "other.itch50.gz"
    SyntheticFeed(501, 1000, seed=3, date="2026-01-05").write_itch(other)
    with pytest.raises(SavedStateError, match="another file"):
        strand.replay(other, "count", workers=1, cores=None, load=tmp_path / "state")
    with pytest.raises(SavedStateError, match=r"it was saved in a replay of 1 file, and here are 2$"):
        strand.replay([SAMPLE, other], "count", workers=1, cores=None, load=tmp_path / "state")


@pytest.mark.parametrize("replay", [False, True])
def test_a_saved_state_is_no_feed_and_said_to_be_a_state(replay: bool, tmp_path: Path) -> None:
    strand.replay(SAMPLE, "book", workers=1, cores=None, limit=10_000, save=tmp_path / "s.strand")
    with pytest.raises(UnknownFormatError, match=r"the saved state of a run is not a feed: .* with --load"):
        if replay:
            strand.replay(tmp_path / "s.strand", "count")
        else:
            strand.feeds.open(tmp_path / "s.strand")


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"workers": 0}, r"workers: a plain loop \(workers=0\) cannot go on from a saved state"),
        ({"per_day": True}, "per_day"),
        ({"position": 3}, "position"),
        ({"fingerprint_every": 10}, "fingerprints"),
    ],
)
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


@pytest.mark.parametrize(
    "options", [{"symbols": ["AA*"]}, {"start": "09:40"}, {"feed_options": {"date": "2026-01-06"}}]
)
def test_another_selection_is_refused(options: dict[str, Any], tmp_path: Path) -> None:
    fixed: dict[str, Any] = {"handler": "count", "workers": 1, "cores": None}
    given = {"feed_options": {"date": "2026-01-05"}} | options
    strand.replay(SAMPLE, limit=10, save=tmp_path / "state", feed_options={"date": "2026-01-05"}, **fixed)
    with pytest.raises(SavedStateError, match="other ticks would be skipped"):
        strand.replay(SAMPLE, load=tmp_path / "state", **(fixed | given))


@pytest.mark.parametrize("ending", ["zip", "gz", "zst"])
def test_a_name_of_a_packed_file_is_refused_before_the_run(ending: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="not compressed again"):
        strand.replay(SAMPLE, "count", workers=1, cores=None, save=tmp_path / f"state.{ending}")
    with strand.Dispatcher(2, "count", workers=1, cores=None) as one:
        with pytest.raises(ConfigurationError, match="not compressed again"):
            one.save(tmp_path / f"state.{ending}")
        assert one.drain()  # it goes on


def test_a_state_is_not_written_over_what_the_run_reads_or_writes(tmp_path: Path) -> None:
    day = tmp_path / "day.itch50"
    day.write_bytes(SAMPLE.read_bytes())
    with pytest.raises(ConfigurationError, match="save"):
        strand.replay(day, "count", workers=1, cores=None, save=day)
    assert day.read_bytes() == SAMPLE.read_bytes()
    with pytest.raises(ConfigurationError, match="save"):
        strand.replay(SAMPLE, "bars", workers=1, cores=None, save=tmp_path / "b.npy", out={"bars": tmp_path / "b.npy"})
