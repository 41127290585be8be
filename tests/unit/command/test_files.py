"""The commands of files, and strand bench."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bench_command import SMALL, invoke, printed
from click.testing import CliRunner
from command_here import run_here
from record_files import output, write
from recorded_runs import record
from small_files import FILES

import strand
from strand import feeds
from strand.command.cli import cli
from strand.diff import diff_runs
from strand.errors import EngineError
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.feeds.write.npy import write_npy
from strand.ticks import zeros

pytestmark = pytest.mark.python


DAY = ["--date", SAMPLE_DATE]


def convert(*args: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli, ["convert", str(sample_path()), *args, *DAY])
    return done.exit_code, done.output


def test_chosen_ticks_are_written_and_counted(tmp_path: Path) -> None:
    status, output = convert(str(tmp_path / "day.npz"), "--limit", "500", "--json")
    assert status == 0
    said = json.loads(output)
    with feeds.open(tmp_path / "day.npz") as feed:
        ticks = np.concatenate(list(feed.batches()))
    assert said["ticks"] == len(ticks) == 500
    assert said["file_bytes"] == (tmp_path / "day.npz").stat().st_size
    with feeds.open(sample_path(), date=SAMPLE_DATE) as feed:
        first = next(iter(feed.batches()))[:500]
    assert ticks["order_id"].tolist() == first["order_id"].tolist()


def test_people_are_told_in_a_line(tmp_path: Path) -> None:
    status, output = convert(str(tmp_path / "day.npz"), "--limit", "500")
    assert status == 0
    assert f"{tmp_path / 'day.npz'}: 500 ticks of " in output
    assert ": 1 tick of 1 symbol, " in convert(str(tmp_path / "one.npz"), "--limit", "1")[1]


def test_an_ending_that_is_none_leaves_no_file(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["convert", str(sample_path()), str(tmp_path / "day.xyz"), *DAY])
    assert done.exit_code != 0
    assert list(tmp_path.iterdir()) == []


def test_one_file_alone_is_said_to_lack_the_other() -> None:
    done = CliRunner().invoke(cli, ["convert", str(sample_path())])
    assert done.exit_code == 2
    assert f"then the file to write: only {sample_path()} is given" in done.output


# ---- strand info


SAMPLE = str(sample_path())


def test_info_counts_what_the_file_holds() -> None:
    done = run_here("info", SAMPLE, "--date", "2026-01-05", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["format"], found["ticks"], found["symbols"]) == ("itch50", 200_500, 500)
    assert found["statistics"]["messages"] == 201_507
    assert found["last_ns"] > found["first_ns"]
    assert found["share_of_ticks"]["top_500"] == 1.0


def test_info_counts_symbols_without_a_name_by_their_number(tmp_path: Path) -> None:
    write_npy(tmp_path / "day.npz", zeros(3), ())
    found = json.loads(run_here("info", tmp_path / "day.npz", "--json").stdout)
    assert found["busiest"] == [{"symbol": "#0", "ticks": 3}]


def test_info_of_several_days_says_both_and_asks_for_a_date_where_times_lack_one(tmp_path: Path) -> None:
    ticks = zeros(2)
    ticks["ts_recv"] = ticks["ts_event"] = [1_767_600_000_000_000_000, 1_767_700_000_000_000_000]
    write_npy(tmp_path / "days.npz", ticks, ["A"])
    shown = " ".join(run_here("info", str(tmp_path / "days.npz")).stdout.split())
    assert "2026-01-05 08:00:00.000000 to 2026-01-06 11:46:40.000000 UTC" in shown
    assert "give --date" not in shown
    assert " date " not in shown, "the span has the days"
    assert "give --date" in run_here("info", SAMPLE).stdout


def test_types_of_dbn_records_have_their_name_beside_their_number(tmp_path: Path) -> None:
    pytest.importorskip("databento_dbn")
    file = next(one for one in FILES if one.name == "dbn of orders")
    shown = " ".join(run_here("info", str(file.write(tmp_path))).stdout.split())
    assert " record types mbo (0xa0) 90" in shown


def test_counters_of_reading_are_shown_when_asked_and_in_json() -> None:
    plain, verbose = (run_here("info", SAMPLE, *more).stdout for more in ((), ("-v",)))
    told = json.loads(run_here("info", SAMPLE, "--json").stdout)["statistics"]
    assert {"bytes_in", "bytes_out", "bytes_decoded", "read_ns", "type_A"} <= told.keys()
    names = [line.split("  ")[0].strip() for line in plain.splitlines()]
    assert names[-4:] == ["share of ticks", "busiest", "messages", "message types"]
    assert "_" not in "".join(names)
    assert "message types   A 85,311, D 77,730, U 17,457, " in plain
    assert "share of ticks  top 1 2.3%, top 10 13.7%, top 100 46.5%  " in plain
    assert [name for name in told if told[name] and f" {name} " not in verbose] == []


# ---- strand diff


def test_the_command_ends_with_0_1_or_2(tmp_path: Path, order_day: Any) -> None:
    ticks, names = order_day
    a, b = record(tmp_path, "a", ticks, names), record(tmp_path, "b", ticks, names, workers=2)
    done = run_here("diff", a, b)
    assert done.returncode == 0, done.stderr
    assert "the same at every fingerprint" in done.stdout
    ticks["size"][1234] += 1
    c = record(tmp_path, "c", ticks, names)
    done = run_here("diff", a, c)
    assert done.returncode == 1, done.stderr
    symbol = names[int(ticks["instrument_id"][1234])]
    for words in (
        "the same after 1,000 ticks, not after 1,500",
        f"the first different tick: {symbol}, sequence",
        "size  A",
    ):
        assert words in done.stdout, words
    done = run_here("diff", a, c, "--json")
    assert done.returncode == 1
    plain = json.loads(done.stdout)
    assert plain["exact"]["position"] == 1234
    assert not plain["same"]
    (of_symbol,) = [each for each in plain["symbols"] if each["symbol"] == symbol]
    assert of_symbol["a"]["ticks"] == of_symbol["b"]["ticks"] > 0
    assert json.loads(run_here("diff", a, c, "--json", "--no-narrow").stdout)["exact"] is None
    for args, words in (
        ((a, tmp_path / "nothing"), "No such file"),
        ((a, tmp_path / "a.npz"), "is a fingerprint file, but"),
        ((tmp_path / "a.npz", tmp_path / "c.npz"), "not an npy, Parquet"),
    ):
        done = run_here("diff", *args)
        assert done.returncode == 2
        assert words in done.stderr
    a.write_bytes(a.read_bytes()[:-100])
    done = run_here("diff", a, b)
    assert done.returncode == 2
    assert "a.jsonl, line" in done.stderr


def test_the_command_shows_the_record_and_its_fields(tmp_path: Path) -> None:
    records = output()
    a = write(tmp_path / "a.npy", records)
    assert run_here("diff", a, a).returncode == 0
    records["price"][5] = 77
    b = write(tmp_path / "b.npy", records)
    done = run_here("diff", a, b)
    assert done.returncode == 1, done.stderr
    assert "they differ at record 5 (from 0), 5, number 15, sequence 36" in done.stdout
    assert "price  A 0  B 77" in done.stdout
    assert json.loads(run_here("diff", a, b, "--json").stdout)["difference"]["fields"] == {"price": [0, 77]}


# ---- Fingerprints that strand replay prints and writes


def test_replay_s_command_prints_and_writes_fingerprints(tmp_path: Path, order_day: Any) -> None:
    write_npy(tmp_path / "day.npz", *order_day)
    base = ("replay", tmp_path / "day.npz", "--handler", "vwap")
    expected = strand.replay(tmp_path / "day.npz", "vwap", workers=1).fingerprint
    done = run_here(*base, "--workers", "0", "--fingerprint-every", "1000", "--fingerprints", tmp_path / "run.jsonl")
    assert done.returncode == 0, done.stderr
    assert f"fingerprint: {expected}" in done.stdout
    full = run_here(*base, "-v", "--workers", "0", "--fingerprint-every", "1000")
    assert "at 1,000 ticks: fingerprint" in full.stdout
    plain = json.loads(run_here(*base, "--fingerprint-every", "1000", "--json").stdout)
    assert plain["fingerprint"] == expected == plain["intervals"][-1]["fingerprint"]
    assert plain["intervals"][0]["ticks"] == 1000
    assert diff_runs(tmp_path / "run.jsonl", tmp_path / "run.jsonl").same


# ---- The command ``strand bench``: what it prints, and what it refuses


def test_bench_is_a_command_of_strand() -> None:
    assert CliRunner().invoke(cli, ["bench", "route", "--help"]).exit_code == 0


@pytest.mark.parametrize(
    ("args", "name"),
    [
        (("route", "--ticks", "0"), "ticks"),
        (("route", "--symbols", "0"), "symbols"),
        (("route", "--skew", "steep"), "skew"),
        (("route", "--skew", "-1"), "skew"),
        (("route", "--work", "-1"), "work"),
        (("route", "--workers", "256"), "workers"),
        (("route", "--batch", "65537"), "batch"),
        (("route", "--strands", "-4"), "strands"),
        (("route", "--strands", "0"), "strands"),
        (("route", "--rounds", "0"), "rounds"),
        (("route", "--cores", "0,x"), "cores"),
        (("route", "--cores", "0,4000", "--workers", "1"), "cores"),
        (("route", "--idle", "doze"), "idle"),
        (("scenarios", "--only", "nothing"), "only"),
        (("scenarios", "--ticks", "1"), "ticks"),
        (("scenarios", "--plot", "figure.txt"), "plot"),
        (("scenarios", "--plot", "no/such/folder/figure.png"), "plot"),
        (("latency", "--spinning", "0"), "spinning"),
        (("latency", "--parked", "0"), "parked"),
    ],
)
def test_arguments_that_cannot_work_are_named_and_end_with_status_2(args: tuple[str, ...], name: str) -> None:
    result = invoke(*args)
    assert result.exit_code == 2
    assert name in result.output
    assert "Traceback" not in result.output
    assert result.output.startswith(f"strand: {name}: ") or "Usage:" in result.output


def test_a_run_that_loses_ticks_ends_with_status_1(monkeypatch: pytest.MonkeyPatch) -> None:
    def lose(*_: object) -> None:
        raise EngineError("static: symbol 3 handled 1 of its 2 ticks, and 0 others are wrong")

    monkeypatch.setattr("strand.bench.ways._check", lose)
    result = invoke("route", *SMALL)
    assert result.exit_code == 1
    assert result.output.startswith("strand: static: symbol 3")


def test_policies_are_compared_and_told_as_tables_and_json(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("strand.bench.policies._capacity", lambda options, cores: 20_000.0)
    args = ["policies", "--seconds", "0.1", "--load", "0.5", "--symbols", "30", "--work", "200", "--workers", "1"]
    args += ["--policy", "fair", "--policy", "levels", "--timeout", "low=1s", "--weight", "immediate=2"]
    picture = tmp_path / "policies.svg"
    result = invoke(*args, "--plot", str(picture))
    assert result.exit_code == 0, result.output
    assert "1,000 made-up ticks of 30 symbols at 50%" in result.output
    assert "at most 2,000 ticks pending" in " ".join(result.output.split())
    assert "<svg" in picture.read_text()
    found = printed(*args, "--share", "high=0.5", "--bound-ms", "0")
    assert (found["arrivals"], found["bound_ticks"], found["source"]) == (1_000, None, None)
    assert [outcome["name"] for outcome in found["policies"]] == ["fair", "levels"]
    for outcome in found["policies"]:
        assert list(outcome["levels"]) == ["high", "low"]
        assert sum(level["handled"] for level in outcome["levels"].values()) == 1_000


def test_letters_are_told_as_a_table_and_as_json() -> None:
    args = ["policies", "--scenario", "letters", "--seconds", "0.2", "--load", "0.3", "--workers", "2", "--seed", "3"]
    result = invoke(*args)
    assert result.exit_code == 0, result.output
    assert "12 letters in 0.2 s, 30% of the time of 2 workers" in " ".join(result.output.split())
    assert "Peak load: the largest share" in result.output
    found = printed(*args)
    assert (found["scenario"], found["arrivals"], found["hold_ms"]) == ("letters", 12, 2_000)
    assert [outcome["name"] for outcome in found["policies"]] == ["fifo", "napoleon"]
    assert found["policies"][1]["levels"]["low"]["in_vain"] == 0


@pytest.mark.parametrize(
    "given", [("--symbols", "3"), ("--policy", "fifo"), ("--timeout", "low=1s"), ("--plot", "a.png")]
)
def test_letters_take_no_options_of_ticks(given: tuple[str, str]) -> None:
    result = invoke("policies", "--scenario", "letters", *given)
    assert result.exit_code == 2
    assert f"{given[0]}: the scenario letters does not have this option" in result.output


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--share", "urgent=0.1"), "shares.urgent: 'urgent' is not a level"),
        (("--share", "high=much"), "shares.high: 'much' is not a number from 0 to 1"),
        (("--load", "0"), "load: 0.0 is not a number above 0"),
        (("--policy", "fifo", "--timeout", "low=1s"), "--timeout: give --policy levels too"),
        (("--policy", "fair", "--burst-ms", "5"), "--burst-ms: give --cpu-share too"),
        (("no-such-file",), "no-such-file"),
        (("--plot", "figure.txt"), "plot: figure.txt does not end in"),
    ],
)
def test_policies_that_cannot_be_compared_are_refused(args: tuple[str, ...], says: str) -> None:
    result = invoke("policies", *args)
    assert result.exit_code == 2
    assert says in result.output
