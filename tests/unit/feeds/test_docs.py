"""What the pages about feeds show runs, on files of the names they use, and prints what they say."""

from __future__ import annotations

import contextlib
import datetime as dt
import gzip
import io
import re
import shutil
from pathlib import Path
from types import ModuleType

import dbn_reference as dbn_ref
import feed_samples as samples
import numpy as np
import pytest
from click.testing import CliRunner
from shown_commands import check_command, commands_on, words_of

import strand
from strand.command.cli import cli
from strand.feeds.trading_day import midnight_ns
from strand.feeds.write.conversion import convert
from strand.feeds.write.npy import write_npy
from strand.ticks import zeros

pytestmark = pytest.mark.python

DOCS = Path(__file__).resolve().parents[3] / "docs" / "feeds"
PAGES = sorted(path.name for path in DOCS.glob("*.md"))
COMMANDS = [(page, line) for page in PAGES for line in commands_on(DOCS / page)]
# What waits for others: tests of their own hold them against each other.
LIVE = ("listen", "serve")
# Of a default day of a million messages there is enough in its beginning.
SHORTER = ["--messages", "20000"]


def code_of(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (DOCS / page).read_text("utf-8"), re.DOTALL)


def day(path: Path, date: dt.date, count: int = 400) -> None:
    """Orders of two symbols in 20 ms from half past nine on."""
    ticks = zeros(count)
    ticks["ts_event"] = ticks["ts_recv"] = midnight_ns(date) + 34_200 * 10**9 + np.arange(count) * 50_000
    ticks["order_id"], ticks["sequence"] = np.arange(count), np.arange(1, count + 1)
    ticks["price"], ticks["size"] = 10**11 + np.arange(count) * 10**7, 100
    ticks["instrument_id"] = np.arange(count) % 2
    ticks["action"], ticks["side"], ticks["kind"] = b"A", b"B", 1
    write_npy(path, ticks, ["AAPL", "AAL"])


def dbn(path: Path, schema: str, **changes: object) -> None:
    import databento_dbn as library

    name = [(dt.date(2024, 1, 1), dt.date(2025, 1, 1), "7")]
    at = int(dt.datetime(2024, 5, 8, 14, tzinfo=dt.UTC).timestamp()) * 10**9
    start = {"start": at, "schema": library.Schema.from_str(schema)}
    ten_levels = dbn_ref.record(0x0A, dbn_ref.head() + dbn_ref.levels(10), event=at)
    records = dbn_ref.mbo(received=at, event=at) if schema == "mbo" else ten_levels
    path.write_bytes(samples.zstd(dbn_ref.metadata(3, {"AAPL": name}, **(start | changes)) + records))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all files that the pages name."""
    parquet = pytest.importorskip("pyarrow.parquet")
    pytest.importorskip("databento_dbn")
    pytest.importorskip("zstandard")
    folder = tmp_path_factory.mktemp("files")
    day(folder / "day.npz", dt.date(2026, 1, 5))
    convert(folder / "day.npz", folder / "20260105.itch50")
    convert(folder / "day.npz", folder / "20260105.itch50.gz")
    (folder / "20260105.itch50").rename(folder / "day.itch50")
    (folder / "20260105.itch50.gz").rename(folder / "day.itch50.gz")
    day(folder / "2019.npz", dt.date(2019, 1, 30))
    convert(folder / "2019.npz", folder / "01302019.NASDAQ_ITCH50.gz", to="itch")
    for part in range(2):
        convert(folder / "2019.npz", folder / f"part-{part}.parquet", limit=100 + part)
    (folder / "2026-01-05").mkdir()
    for name in "ab":
        day(folder / "2026-01-05" / f"{name}.npz", dt.date(2026, 1, 5))
    dbn(folder / "glbx.mbo.dbn.zst", "mbo")
    dbn(folder / "glbx-mdp3-20240508.mbo.dbn.zst", "mbo")
    dbn(folder / "glbx-mdp3-20240508.mbp-10.dbn.zst", "mbp-10")
    dbn(folder / "xnas-itch-20240508.mbp-10.dbn.zst", "mbp-10", dataset="XNAS.ITCH")
    for name in ("XNAS", "XNYS"):
        dbn(folder / f"{name.lower()}.dbn.zst", "mbo", dataset=f"{name}.PILLAR")
    event = [("ev", "<u8"), ("exch_ts", "<i8"), ("local_ts", "<i8"), ("px", "<f8"), ("qty", "<f8"),
             ("order_id", "<u8"), ("ival", "<i8"), ("fval", "<f8")]  # fmt: skip
    np.savez(folder / "btcusdt.20240808.npz", data=np.array([(0xE0000002, 1, 2, 9.5, 0.001, 0, 0, 0)] * 2, event))
    table = pytest.importorskip("pyarrow").table
    trades = {"ts_event": [10**18], "symbol": ["X"], "price": [9.5], "size": [3]}
    parquet.write_table(table(trades), folder / "trades.parquet")
    bids = {"received": [10**12], "cents": [950], "taker": ["buyer"], "amount": [0.25]}
    parquet.write_table(table(bids), folder / "bids.parquet")
    coins = {"ts_event": [10**18], "arrived": [10**18 + 1], "p": [9.5], "flags": [1 << 40], "size": [3]}
    parquet.write_table(table(coins), folder / "coins.parquet")
    (folder / "lines.pcap").write_bytes(samples.pcap())
    (folder / "today.ws").write_bytes(samples.websocket())
    (profile,) = re.findall(r"```toml\n(.*?)```", (DOCS / "json.md").read_text("utf-8"), re.DOTALL)
    (folder / "binance.toml").write_text(profile)
    deal = (
        b'1723161254024619568 {"data": {"e": "trade", "T": 1, "s": "ETHUSDT", "p": "2", "q": "3", "t": 7, "m": true}}\n'
    )
    (folder / "binance.jsonl.gz").write_bytes(gzip.compress(deal))
    (folder / "mymodule.py").write_text(
        "import strand\n\n\n@strand.batch_handler(state=[('n', 'u8')])\ndef quotes(symbol, ticks, row):\n"
        "    row['n'] += len(ticks)\n"
    )
    return folder


@pytest.fixture
def folder(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it to work in: commands write there."""
    shutil.copytree(files, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("page", "line"), COMMANDS, ids=[f"{page}-{line[:40]}" for page, line in COMMANDS])
def test_every_command_shown_has_the_subcommand_and_options_it_names(page: str, line: str) -> None:
    check_command(line)


@pytest.mark.parametrize("page", sorted({page for page, line in COMMANDS if words_of(line)[0] not in LIVE}))
def test_the_commands_of_the_page_run(page: str, folder: Path) -> None:
    for line in commands_on(DOCS / page):
        words = words_of(line)
        if words[0] in LIVE:
            continue
        if made := re.match(r"mkdir (\S+) &&", line):
            (folder / made[1]).mkdir()
        # What a shell does with names, where nobody has quoted them.
        names = [[str(path) for path in sorted(Path().glob(word))] if "/*" in word else [word] for word in words]
        words = [name for of_a_word in names for name in of_a_word]
        done = CliRunner().invoke(cli, words + (SHORTER if words[0] == "gen" else []), catch_exceptions=False)
        assert done.exit_code == 0, (line, done.output)


@pytest.mark.parametrize("page", [page for page in PAGES if code_of(page)])
def test_the_code_of_the_page_runs_and_prints_what_it_says(page: str, folder: Path) -> None:
    module = ModuleType("page")
    for code in code_of(page):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, page, "exec", dont_inherit=True), vars(module))
        for said in re.findall(r"print\(.*\)  # (.*)", code):
            assert said in printed.getvalue().splitlines(), printed.getvalue()


def test_the_feed_of_ones_own_takes_about_twenty_lines_and_its_page_says_what_is_printed() -> None:
    own, use = code_of("own-feed.md")
    assert len([line for line in own.splitlines() if line.strip()]) <= 22
    assert re.search(r"print\(.*\)  # \d", use)


def test_an_option_by_which_a_page_names_a_symbol_does_so(folder: Path) -> None:
    (line,) = [code for code in code_of("npy.md")[0].splitlines() if "feeds.open(" in code]
    (name,) = re.findall(r"symbol=\"(\w+)\"", line)
    with strand.feeds.open("btcusdt.20240808.npz", size_unit="0.001", symbol=name, symbols=[name]) as feed:
        assert sum(len(batch) for batch in feed) == 2
