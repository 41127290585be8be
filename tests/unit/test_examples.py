"""Every example runs as its first lines say, on the sample, and prints and writes what it is there to show."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from warm_python import run_warm

import strand
from strand.feeds.sample import SAMPLE_DATE, sample_path

pytestmark = pytest.mark.python

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SCRIPTS = sorted(path.name for path in EXAMPLES.glob("*.py"))
SECONDS = 100


def run(name: str, *args: str, cwd: Path) -> str:
    done = run_warm(EXAMPLES / name, *args, cwd=cwd, timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


def test_vwap_of_ones_own_is_the_built_in_one(tmp_path: Path) -> None:
    pytest.importorskip("numba")
    printed = run("vwap_numba.py", cwd=tmp_path)
    rows = strand.replay(sample_path(), "vwap", feed_options={"date": SAMPLE_DATE}).rows
    found = re.findall(r"^(\S+) +([\d,]+) trades +([\d,]+) shares +VWAP +([\d.]+)$", printed, re.MULTILINE)
    assert len(found) == 5
    for name, trades, volume, price in found:
        row = rows[name]
        assert (int(trades.replace(",", "")), int(volume.replace(",", ""))) == (row["trades"], row["volume"])
        assert price == f"{row['vwap']:.4f}"


def test_books_show_levels_that_do_not_cross(tmp_path: Path) -> None:
    printed = run("books_top.py", cwd=tmp_path)
    levels = re.findall(r"^ +([\d,]+) +\d+ +([\d.]+)   ([\d.]+) +([\d,]+) +\d+$", printed, re.MULTILINE)
    bids, asks = ([float(level[at]) for level in levels] for at in (1, 2))
    assert len(levels) == 5
    assert bids == sorted(bids, reverse=True)
    assert asks == sorted(asks)
    assert bids[0] < asks[0]
    assert re.search(r"has \d+ orders before it", printed)


def test_the_signal_in_python_sees_every_tick_of_its_symbols(tmp_path: Path) -> None:
    printed = run("python_signal.py", cwd=tmp_path)
    counted = strand.replay(sample_path(), "count", feed_options={"date": SAMPLE_DATE})
    found = re.findall(r"^(\w+): ([\d,]+) ticks, order flow (-[\d,]+) to (\+[\d,]+) shares$", printed, re.MULTILINE)
    assert len(found) == 3
    for name, ticks, _, _ in found:
        assert int(ticks.replace(",", "")) == counted.rows[name]["ticks"]


def test_a_live_feed_loses_what_both_lines_lost_and_nothing_else(tmp_path: Path) -> None:
    printed = run("live_loopback.py", cwd=tmp_path)
    lines = re.findall(r"^line \S+: ([\d,]+) messages, ([\d,]+) of the session missing$", printed, re.MULTILINE)
    both = re.search(r"both: ([\d,]+) messages in order, ([\d,]+) missing on both", printed)
    assert len(lines) == 2
    assert both is not None
    delivered, missing = (int(n.replace(",", "")) for n in both.groups())
    assert delivered + missing == 201_507
    assert all(missing < int(lost.replace(",", "")) for _, lost in lines)


def test_static_and_dynamic_routing_are_compared(tmp_path: Path) -> None:
    printed = run("compare_static.py", "50000", cwd=tmp_path)
    found = re.findall(
        r"symbols: serial [\d.]+, static [\d.]+, static lpt [\d.]+, strand [\d.]+$", printed, re.MULTILINE
    )
    assert len(found) == 2


def test_the_report_leaves_a_page_and_a_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    printed = run("report.py", cwd=tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"report.html", "prices.png"}
    assert (tmp_path / "prices.png").read_bytes().startswith(b"\x89PNG")
    assert len(re.findall(r"moments of its book, median spread 0\.0\d", printed)) == 4


def test_bars_in_the_file_are_those_of_the_run(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    printed = run("bars_to_parquet.py", cwd=tmp_path)
    handler = strand.bars("1m", book=True, sessions="09:30-16:00 America/New_York")
    bars = strand.replay(sample_path(), handler, workers=1, feed_options={"date": SAMPLE_DATE}).outputs["bars"]
    found = re.search(
        r"^([\d,]+) bars of ([\d,]+) symbols in .*\n([\d,]+) shares in ([\d,]+) trades$", printed, re.MULTILINE
    )
    assert found is not None
    expected = [len(bars), len(np.unique(bars["instrument_id"])), bars["volume"].sum(), bars["trades"].sum()]
    assert [int(n.replace(",", "")) for n in found.groups()] == expected
    assert {path.name for path in tmp_path.iterdir()} == {"bars.parquet"}


def test_letters_go_out_by_urgency_and_those_that_were_opened_do_not(tmp_path: Path) -> None:
    lines = run("email_by_urgency.py", cwd=tmp_path).splitlines()
    sent = [line for line in lines if line.startswith("sent: ")]
    assert sent[:3] == [f"sent: reset for {name}" for name in ("ann", "bob", "eve")]
    assert sorted(sent[3:]) == [f"sent: news for reader {n}" for n in (4, 9)]
    assert lines[-1] == "8 of 10 newsletters were dropped: their readers had opened them on the page"


def test_slow_requests_leave_a_worker_to_quick_ones(tmp_path: Path) -> None:
    printed = run("slow_requests.py", cwd=tmp_path)
    line = r"^(\S.*): 6 slow and 800 quick requests; quick ones took [\d.]+ ms at p99$"
    found = re.findall(line, printed, re.MULTILINE)
    assert found == ["as they come", "slow ones one at a time"]


def test_end_of_day_jobs_run_beside_the_book(tmp_path: Path) -> None:
    printed = run("end_of_day.py", cwd=tmp_path)
    assert "500 closing jobs" in printed
    assert printed.endswith("handled 200,500: all\n")


def test_every_script_is_tried_here_and_says_how_to_start_it() -> None:
    tried = Path(__file__).read_text("utf-8")
    assert len(SCRIPTS) >= 5
    for name in SCRIPTS:
        assert f'"{name}"' in tried
        said = ast.get_docstring(ast.parse((EXAMPLES / name).read_text("utf-8")))
        assert said is not None
        assert f"python examples/{name}" in said


def cells() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((EXAMPLES / "quickstart.ipynb").read_text("utf-8"))["cells"]
    return found


def test_the_notebook_runs_from_top_to_bottom() -> None:
    pytest.importorskip("numba")
    pytest.importorskip("matplotlib")
    names: dict[str, Any] = {"__name__": "__main__"}
    shown = []
    for cell in cells():
        if cell["cell_type"] != "code":
            continue
        tree = ast.parse("".join(cell["source"]))
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(tree, "quickstart.ipynb", "exec"), names)
            if last is not None:
                assert isinstance(last, ast.Expr)
                shown.append(eval(compile(ast.Expression(last.value), "quickstart.ipynb", "eval"), names))
    result, row, high, bids, prices, latency, rate = shown
    assert "200,500" in result._repr_html_()
    assert row["trades"] > 0
    assert 5 < high < 7
    assert len(bids) == 3
    assert prices._repr_png_() != latency._repr_png_()
    assert rate > 0
    assert np.array_equal(names["mine"].rows.array, names["alone"].rows.array)


def test_the_notebook_is_kept_without_output_and_small() -> None:
    assert all(
        not cell["outputs"] and cell["execution_count"] is None for cell in cells() if cell["cell_type"] == "code"
    )
    assert (EXAMPLES / "quickstart.ipynb").stat().st_size < 10_000


def test_what_the_page_about_results_shows_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    page = (EXAMPLES.parent / "docs" / "results.md").read_text("utf-8")
    printed = io.StringIO()
    monkeypatch.chdir(tmp_path)
    with contextlib.redirect_stdout(printed):
        exec(compile("\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL)), "results.md", "exec"), {})
    assert (tmp_path / "prices.png").exists()
    assert len(re.findall(r"^\w+ after 200500 ticks: [\d.]+ [\d.]+$", printed.getvalue(), re.MULTILINE)) == 2
    for path in EXAMPLES.iterdir():
        if path.is_file():
            assert f"`{path.name}`" in page


def test_figures_by_level_and_alerts_are_those_that_a_program_counts_itself(tmp_path: Path) -> None:
    lines = run("counted_from_outside.py", cwd=tmp_path).splitlines()
    figures = [re.fullmatch(r"(\w+ \w+): ([\d.]+) ([\d.]+)(?: ms)?", line) for line in lines]
    found = {each[1]: (float(each[2]), float(each[3])) for each in figures if each is not None}
    assert sum(name.endswith("depth") for name in found) == 4
    assert sum(name.endswith("P99") for name in found) >= 3
    assert found["low promotions"][0] > 0
    assert found["normal success"][0] == 0.9
    for name, (own, told) in found.items():
        if name.endswith(("P95", "P99")):  # by two clocks, and threads that may wait for a core between them
            assert own / 1.07 - 30 <= told <= own * 1.07 + 30, name
        else:
            assert own == told, name
    assert [line.partition(",")[0] for line in lines if line.startswith("sample")] == [
        "sample 8: firing", "sample 11: recovered",
    ]  # fmt: skip
