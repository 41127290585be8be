"""``strand cat``: the ticks of files as tables, CSV, JSON lines and Arrow."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
import os
import pty
import re
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_here import run_here
from feed_samples import SAMPLES, Sample
from small_files import FILES
from warm_python import run_warm

from strand import feeds
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.feeds.write.conversion import convert
from strand.feeds.write.npy import write_npy
from strand.ticks import KIND_QUOTE, UNDEF_PRICE, named, zeros

pytestmark = pytest.mark.python

STRAND = Path(sys.executable).parent / "strand"
KINDS = {0: None, 1: "order", 2: "trade", 3: "quote", 4: "status"}


def lines(*args: str | Path) -> list[dict[str, Any]]:
    done = run_here("cat", *args, "--to", "jsonl")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def ns_of(text: str) -> int:
    """The ns since the epoch of a time with nine digits and an offset."""
    whole, digits, offset = re.fullmatch(r"(.{19})\.(\d{9})(.*)", text).groups()  # type: ignore[union-attr]
    moment = dt.datetime.fromisoformat(whole + (offset or "Z"))
    return int(moment.timestamp()) * 10**9 + int(digits)


def plain(tick: Any, names: Any, unit: Decimal, number: int) -> dict[str, Any]:
    """A tick as a line has it, times aside, by the rules of docs/tick.md alone."""

    def price(value: int) -> Decimal | None:
        return None if value == UNDEF_PRICE else value * Decimal("1E-9")

    is_quote, side = tick["kind"] == KIND_QUOTE, tick["side"]
    found: dict[str, Any] = {"number": number, "kind": KINDS[int(tick["kind"])], "price": price(int(tick["price"]))}
    found |= {"symbol": names[tick["instrument_id"]], "sequence": int(tick["sequence"])}
    found |= {"action": tick["action"].decode(), "side": side.decode(), "size": int(tick["size"]) * unit}
    for letter, beside in (("bid", "A"), ("ask", "B")):
        own = is_quote and side.decode() != beside
        value = price(int(tick[f"{letter}_price"])) if own else None
        found |= {f"{letter}_price": value}
        found |= {f"{letter}_size": None if value is None else int(tick[f"{letter}_size"]) * unit}
    return found


@pytest.mark.parametrize("sample", [one for one in SAMPLES if one.available], ids=lambda one: one.name)
def test_every_format_is_shown_exactly(sample: Sample, tmp_path: Path) -> None:
    path = sample.build(tmp_path)
    shown = lines(path)
    with feeds.open(path) as feed:
        ticks = named(np.concatenate([batch.copy() for batch in feed.batches()]))
        unit, names, undated = Decimal(str(feed.info.size_unit)), list(feed.symbols), feed.info.undated
    assert len(shown) == len(ticks)
    for number, (line, tick) in enumerate(zip(shown, ticks, strict=True)):
        expected = plain(tick, [name or f"#{at}" for at, name in enumerate(names)], unit, number)
        exact = {
            name: Decimal(line[name]) if isinstance(value, Decimal) and line[name] is not None else line[name]
            for name, value in expected.items()
        }
        assert exact == expected
        for name in ("ts_event", "ts_recv"):
            assert line[name] is None or ns_of(line[name]) == tick[name]
            assert undated is not line[name].endswith(("Z", "00", "30")) or undated is (len(line[name]) == 29)


def test_prices_and_sizes_keep_all_their_digits(tmp_path: Path) -> None:
    ticks = zeros(6)
    ticks["price"] = [1, -1, 10**9, UNDEF_PRICE - 1, -37_630_000_000, UNDEF_PRICE]
    ticks["size"] = [0, 1, 10**8, 123_456_789, 2**62, 5]
    ticks["kind"], ticks["action"], ticks["side"] = 2, b"T", b"N"
    write_npy(tmp_path / "t.npz", ticks, ["A"])
    made = list(csv.DictReader(io.StringIO(run_here("cat", tmp_path / "t.npz", "--to", "csv").stdout)))
    assert [one["price"] for one in made] == [
        "0.000000001", "-0.000000001", "1", "9223372036.854775806", "-37.63", ""
    ]  # fmt: skip
    assert [int(one["size"]) for one in made] == ticks["size"].tolist()


def test_sizes_in_parts_of_a_coin_are_decimals(tmp_path: Path) -> None:
    (tmp_path / "coins.csv").write_text(
        "exchange,symbol,timestamp,local_timestamp,id,side,price,amount\n"
        "binance,BTCUSDT,1580394600000000,1580394600000900,1,buy,9300.25,0.00000001\n"
        "binance,BTCUSDT,1580394600000001,1580394600000901,2,sell,9300.5,1000000\n"
    )
    pytest.importorskip("pyarrow")
    assert [line["size"] for line in lines(tmp_path / "coins.csv")] == ["0.00000001", "1000000"]
    from pyarrow import ipc

    ran = subprocess.run([STRAND, "cat", tmp_path / "coins.csv", "--to", "arrow"], capture_output=True, check=True)
    with ipc.open_stream(ran.stdout) as stream:
        table = stream.read_all()
    assert table["size"].to_pylist() == [Decimal("0.00000001"), Decimal(1000000)]
    assert table["price"].to_pylist() == [Decimal("9300.25"), Decimal("9300.5")]


def test_times_are_in_the_zone_of_the_files_also_where_its_clocks_change(tmp_path: Path) -> None:
    ticks = zeros(3)
    before = 1_772_953_199 * 10**9  # 2026-03-08T01:59:59-05:00
    ticks["ts_event"] = ticks["ts_recv"] = [before + 999_999_999, before + 10**9, before + 3600 * 10**9]
    write_npy(tmp_path / "t.npz", ticks, ["A"])
    pytest.importorskip("pyarrow")
    source = tmp_path / "t.npz"
    assert [line["ts_recv"] for line in lines(source)][1] == "2026-03-08T07:00:00.000000000Z"
    convert(source, tmp_path / "t.parquet", feed_options={"zone": "America/New_York"})
    assert [line["ts_recv"] for line in lines(source, "--start", "01:00", "--zone", "America/New_York")] == [
        "2026-03-08T01:59:59.999999999-05:00", "2026-03-08T03:00:00.000000000-04:00",
        "2026-03-08T03:59:59.000000000-04:00",
    ]  # fmt: skip


def test_times_of_no_known_day_have_no_offset_and_the_head_asks_for_it() -> None:
    done = run_here("cat", sample_path(), "--head", "1")
    assert "times in America/New_York, date unknown; give --date" in done.stdout
    assert lines(sample_path(), "--head", "1")[0]["ts_recv"] == "1970-01-01T04:00:00.000020000"
    dated = lines(sample_path(), "--head", "1", "--date", SAMPLE_DATE)
    assert dated[0]["ts_recv"] == "2026-01-05T04:00:00.000020000-05:00"


def test_blanks_in_place_of_the_reason_of_a_status_are_no_number() -> None:
    shown = lines(sample_path(), "--head", "600", "--columns", "kind,ref_id")
    reasons = {line["ref_id"] for line in shown if line["kind"] == "status"}
    assert None in reasons
    assert 0x20202020 not in reasons


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The sample, and the same ticks in files that have a way to their end."""
    folder = tmp_path_factory.mktemp("days")
    found = [folder / name for name in ("day.npz", "day.parquet", "day.dbn")]
    convert(sample_path(), found[0], date=SAMPLE_DATE, limit=20_000)
    pytest.importorskip("pyarrow")
    pytest.importorskip("databento_dbn")
    from pyarrow import parquet

    convert(found[0], folder / "whole.parquet")
    with parquet.ParquetFile(folder / "whole.parquet") as file:
        own = {b"strand": file.metadata.metadata[b"strand"]}
        parquet.write_table(file.read().replace_schema_metadata(own), found[1], row_group_size=1000)
    convert(sample_path(), found[2], date=SAMPLE_DATE, limit=30_000, on_unwritable="skip")
    return found


@pytest.mark.cells(1)
@pytest.mark.parametrize("head", [[], ["--head", "3"]], ids=["tail", "head and tail"])
@pytest.mark.parametrize("at", range(3), ids=["npz", "parquet", "dbn"])
def test_a_tail_is_the_end_of_the_whole_and_only_that_is_read(at: int, head: list[str], days: list[Path]) -> None:
    whole = lines(days[at])
    assert lines(days[at], "--tail", "70", *head) == [*whole[: 3 if head else 0], *whole[-70:]]
    assert lines(days[at], "--tail", "999999999", *head) == whole
    said = json.loads(run_here("cat", days[at], "--tail", "70", *head, "--json").stdout)
    assert said["read"] <= (73 if at != 1 else 1003)
    assert said["ticks"] == lines(days[at], "--tail", "70", *head)


@pytest.mark.parametrize("head", [[], ["--head", "3"], ["--head", "19990"]])
def test_a_tail_of_a_file_without_a_way_to_its_end_reads_all_and_says_so(head: list[str]) -> None:
    whole = lines(sample_path(), "--limit", "20000")
    first = int(head[1]) if head else 0
    kept = lines(sample_path(), "--tail", "700", "--limit", "20000", *head)
    assert kept == [*whole[:first], *whole[first:][-700:]]
    done = run_here("cat", sample_path(), "--tail", "700", "--to", "csv")
    assert done.stderr == "read 200,500 ticks for the last 700: these files have no way to their end\n"


def test_a_head_ends_the_reading(days: list[Path]) -> None:
    said = json.loads(run_here("cat", days[0], "--head", "3", "--json").stdout)
    assert (said["shown"], said["read"], said["read_to_the_end"]) == (3, 3, False)
    assert [one["number"] for one in said["ticks"]] == [0, 1, 2]
    assert said["symbols"] == ["AAAAA", "AAAAB", "AAAAC"]


def test_ticks_around_a_time_are_chosen_as_for_a_replay(days: list[Path]) -> None:
    chosen = lines(
        days[1], "--symbols", "AAAH*", "--start", "09:30", "--end", "09:30:01", "--columns", "symbol,ts_recv"
    )
    whole = lines(days[1], "--columns", "symbol,ts_recv")
    wanted = [line for line in whole if line["symbol"].startswith("AAAH") and "T09:30:00" in line["ts_recv"]]
    assert chosen == wanted != []


def test_several_files_are_merged_by_time(tmp_path: Path) -> None:
    for name, start in (("A", 2), ("B", 1)):
        ticks = zeros(3)
        ticks["ts_event"] = ticks["ts_recv"] = 10**18 + np.arange(3) * 2 + start
        write_npy(tmp_path / f"{name}.npz", ticks, [name])
    assert [line["symbol"] for line in lines(tmp_path / "A.npz", tmp_path / "B.npz")] == list("BABABA")


def test_arrow_has_the_files_zone_and_is_read_from_a_pipe(days: list[Path]) -> None:
    ran = subprocess.run([STRAND, "cat", days[1], "--head", "5", "--to", "arrow"], capture_output=True, check=True)
    from pyarrow import ipc

    with ipc.open_stream(ran.stdout) as stream:
        assert str(stream.schema.field("ts_recv").type) == "timestamp[ns, tz=America/New_York]"
        assert "instrument_id" not in stream.schema.names
    again = subprocess.run(
        [STRAND, "cat", "-", "--feed", "nulls=undefined", "--to", "jsonl", "--columns", "symbol,sequence,size"],
        input=ran.stdout, capture_output=True, check=True,
    )  # fmt: skip
    assert [json.loads(line) for line in again.stdout.splitlines()] == lines(
        days[1], "--head", "5", "--columns", "symbol,sequence,size"
    )


@pytest.mark.parametrize("to", ["table", "csv", "jsonl", "arrow", "json"])
def test_columns_come_in_the_order_in_which_they_are_named(to: str, days: list[Path]) -> None:
    named = ["side", "symbol", "number"]
    form = ["--json"] if to == "json" else ["--to", to]
    command = [STRAND, "cat", days[1], "--head", "2", "--columns", "side,symbol,side,number", *form]
    shown = subprocess.run(command, capture_output=True, check=True).stdout
    if to == "arrow":
        from pyarrow import ipc

        found = [ipc.open_stream(shown).read_all().column_names]
    elif to == "table":
        found = [shown.decode().splitlines()[1].split()]
    elif to == "csv":
        found = [shown.decode().splitlines()[0].split(",")]
    else:
        objects = json.loads(shown)["ticks"] if to == "json" else [json.loads(line) for line in shown.splitlines()]
        found = [list(one) for one in objects]
    assert all(names == named for names in found)


@pytest.mark.parametrize("to", ["table", "csv", "jsonl", "arrow"])
def test_a_pipe_that_closes_early_ends_the_command_without_a_word(to: str) -> None:
    with subprocess.Popen(
        [STRAND, "cat", sample_path(), "--to", to], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as ran:
        assert ran.stdout is not None
        assert ran.stderr is not None
        ran.stdout.read(100)
        ran.stdout.close()
        assert ran.stderr.read() == b""
        assert ran.wait() == 0


def on_a_terminal(*args: str | Path, columns: int) -> list[str]:
    """Lines of the command on a terminal of so many columns."""
    leader, follower = pty.openpty()
    environment = os.environ | {"COLUMNS": str(columns)}
    with subprocess.Popen([STRAND, "cat", *args], stdout=follower, env=environment) as ran:
        os.close(follower)
        text = b""
        while True:
            try:
                text += os.read(leader, 1 << 16)
            except OSError:
                break
        assert ran.wait() == 0
    os.close(leader)
    return text.decode().splitlines()


def test_a_table_fits_the_terminal_and_names_what_it_left_out() -> None:
    head, left, names, *rows, _ = on_a_terminal(
        sample_path(), "--date", SAMPLE_DATE, "--start", "09:30", "--head", "5", columns=80
    )
    assert head.endswith("itch50, times in America/New_York")
    assert left == "no room for number, sequence, ts_event, ref_id, flags, depth: choose by --columns"
    assert names.split() == ["ts_recv", "symbol", "kind", "action", "side", "price", "size"]
    assert max(map(len, [names, *rows])) <= 80
    assert len(rows) == 5


def test_a_table_in_a_pipe_is_as_wide_as_it_has_to_be_and_its_points_are_below_each_other(tmp_path: Path) -> None:
    ticks = zeros(3)
    ticks["price"] = [10**9, 12_345_678_900_000, UNDEF_PRICE]
    ticks["kind"], ticks["action"] = 2, b"T"
    write_npy(tmp_path / "t.npz", ticks, ["A"])
    shown = run_here("cat", tmp_path / "t.npz", "--columns", "number,price,symbol,order_id").stdout.splitlines()
    assert shown[1:5] == [
        "number       price  symbol",
        "     0      1       A",
        "     1  12345.6789  A",
        "     2              A",
    ]


def test_columns_that_get_values_later_get_a_head_of_their_own(tmp_path: Path) -> None:
    ticks = zeros(1000)
    ticks["price"] = UNDEF_PRICE
    ticks["price"][999] = 10**9
    write_npy(tmp_path / "t.npz", ticks, ["A"])
    shown = run_here("cat", tmp_path / "t.npz", "--columns", "number,price").stdout.splitlines()
    assert [line.split() for line in shown if "number" in line] == [["number"], ["number", "price"]]
    assert shown[-2].split() == ["999", "1"]


def test_control_characters_do_not_reach_the_terminal_by_a_path(tmp_path: Path) -> None:
    write_npy(tmp_path / "t\x1b.npz", zeros(1), ["A"])
    assert "\x1b" not in run_here("cat", tmp_path / "t\x1b.npz").stdout


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--columns", "prize"], "columns: 'prize' is not one of number, sequence,"),
        (["--symbols", "ZZZ"], "nothing in"),
        (["--head", "0"], "--head"),
        (["--symbols", "ZZ*", "--to", "csv"], "named 'ZZ*'"),
    ],
)
def test_bad_words_are_errors(args: list[str], words: str) -> None:
    done = run_here("cat", sample_path(), *args)
    assert done.returncode == 2
    assert words in done.stderr


def test_a_damaged_file_shows_its_ticks_and_then_the_error(tmp_path: Path) -> None:
    whole = next(one for one in SAMPLES if one.name == "itch").build(tmp_path)
    cut = tmp_path / "20190131.itch"
    cut.write_bytes(whole.read_bytes()[:-3])
    done = run_here("cat", cut, "--to", "jsonl")
    assert done.returncode == 2
    assert "ends inside" in done.stderr
    assert len(done.stdout.splitlines()) > 5


@pytest.mark.parametrize("sample", [one for one in SAMPLES if one.available], ids=lambda one: one.name)
def test_every_format_is_read_from_standard_input(sample: Sample, tmp_path: Path) -> None:
    path, some = sample.build(tmp_path), ["--to", "jsonl", "--columns", "number,sequence,symbol,side,price,size"]
    named_by_file = sample.format == "scid" or sample.name.startswith("json document")
    said = ["--feed", f"symbol={lines(path, *some[2:])[0]['symbol']}"] if named_by_file else []
    if sample.format == "bi5":  # its path alone says all of this
        said = ["--feed", "symbol=EURUSD", "--date", "2020-01-30", "--feed", "hour=10"]
    ran = run_warm("-m", "strand", "cat", "-", *some, *said, stdin=path.read_bytes())
    assert ran.stderr == ""
    assert [json.loads(line) for line in ran.stdout.splitlines()] == lines(path, *some[2:])


@pytest.mark.parametrize("name", ["sierra chart", "hftbacktest"])
def test_a_file_of_standard_input_that_lacks_its_name_asks_for_the_symbol(name: str, tmp_path: Path) -> None:
    data = next(file for file in FILES if file.name == name).write(tmp_path).read_bytes()
    ran = run_warm("-m", "strand", "info", "-", stdin=data)
    assert ran.returncode == 2
    assert "symbol: name the symbol of -, " in ran.stderr


def test_the_folder_of_the_process_says_nothing_of_standard_input(tmp_path: Path) -> None:
    files = {file.name: file for file in FILES}
    here = tmp_path / "kibot" / "1min" / "20240102"
    here.mkdir(parents=True)
    for name, words in (
        ("csv szse-orders in Chinese", "date unknown; give --date"),
        ("csv kibot-bars", "no profile fits its first line"),
    ):
        with files[name].write(tmp_path).open("rb") as data:
            ran = subprocess.run([STRAND, "cat", "-"], stdin=data, cwd=here, capture_output=True, check=False)
        shown = ran.stdout + ran.stderr
        assert words in shown.decode(), shown
        assert b"2024-01-02" not in shown


@pytest.mark.parametrize("command", ["replay", "info", "convert"])
def test_other_commands_read_standard_input_too(command: str, days: list[Path], tmp_path: Path) -> None:
    more = {"replay": ["--handler", "count", "--json"], "info": ["--json"], "convert": [tmp_path / "t.npz", "--json"]}
    for path in days[:2]:
        ran = run_warm("-m", "strand", command, "-", *more[command], stdin=path.read_bytes())
        assert ran.returncode == 0, ran.stderr
        assert json.loads(ran.stdout)["ticks"] == 20_000
