"""``strand sweep``, as a user calls it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from sweep_commands import run, sweep

from strand.command import cli
from strand.errors import ConfigurationError
from strand.feeds.sample import sample_path

pytest.importorskip("numba")
pytest.importorskip("loky")


pytestmark = [pytest.mark.python, pytest.mark.usefixtures("handlers_here")]


def test_every_combination_is_a_set_and_what_is_there_is_not_run_again() -> None:
    words = ("signals_of_sweep:large", "--each", "least=1,500", "--each", "times=1,2,3")
    first = json.loads(sweep(*words, "--json").stdout)
    assert list(first["sets"].values())[:4] == [
        {"least": 1, "times": 1}, {"least": 1, "times": 2}, {"least": 1, "times": 3}, {"least": 500, "times": 1},
    ]  # fmt: skip
    assert first["ran"] == first["files"] == [sample_path().name]
    assert len({run["fingerprint"] for run in first["runs"]}) == 6
    said = sweep(*words).stdout
    assert "6 sets over 1 file of" in said
    assert "0 files run, 1 already there" in said
    assert 'set 5: {"least": 500, "times": 3}' in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "--each: give a parameter"),
        (("--each", "least"), "'least' is not OPTION=VALUE"),
        (("--each", "lest=1"), "no parameter 'lest'; it has least, times"),
        (("--each", "least=many"), "least takes a whole number, not 'many'"),
    ],
)
def test_what_cannot_work_is_refused(words: tuple[str, ...], said: str) -> None:
    try:
        result = sweep("signals_of_sweep:large", *words)
    except Exception as error:
        assert said in str(error)
    else:
        assert result.exit_code == 2
        assert said in result.output


@pytest.mark.parametrize(("done", "said"), [([], "no file done"), ([1, 2], "2 of 3 files done")])
def test_an_interrupt_says_what_is_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], done: list[int], said: str
) -> None:
    def interrupted(*_: Any, progress: Any, **__: Any) -> None:
        for n in done:
            progress(n, 3)
        raise KeyboardInterrupt

    monkeypatch.setattr("strand.command.sweep.run_sweep", interrupted)
    words = ["sweep", str(sample_path()), "--handler", "signals_of_sweep:large", "--each", "least=1", "--out", "out"]
    monkeypatch.setattr("sys.argv", ["strand", *words])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 130
    lines = [line for line in capsys.readouterr().err.splitlines() if line]
    assert lines == [f"{said}, kept in out; the same command continues from there", "interrupted"]


# ---- ``strand runs``, as a user calls it


def test_runs_are_listed_shown_and_compared() -> None:
    each = ("--each", "least=1,500", "--each", "times=1")
    for module in ("signals_of_sweep", "other_of_sweep", "third_of_sweep"):
        assert sweep(f"{module}:large", *each).exit_code == 0
    codes = json.loads(run("runs", "list", "out", "--json").stdout)["codes"]
    assert [(code["files"], code["sets"], code["runs"]) for code in codes] == [(1, 2, 2)] * 3
    a, b, c = (code["code"] for code in codes)
    shown = json.loads(run("runs", "show", "out", a[:12], "--json").stdout)
    assert [run["parameters"] for run in shown["runs"]] == [{"least": 1, "times": 1}, {"least": 500, "times": 1}]
    assert run("runs", "diff", "out", a[:12], a[:12]).exit_code == 0
    parted = run("runs", "diff", "out", a, b, "--json")
    assert parted.exit_code == 1
    assert {each["why"] for each in json.loads(parted.stdout)["different"]} == {"rows, output seen"}
    of_outputs = json.loads(run("runs", "diff", "out", a, c, "--json").stdout)["different"]
    assert {each["why"] for each in of_outputs} == {"output seen"}
    assert a[:12] in run("runs", "list", "out").stdout
    said = run("runs", "show", "out", b).stdout
    assert '{"least": 500, "times": 1}' in said  # no cell is cut where no terminal is
    assert shown["runs"][0]["ended"][:13] in said
    assert run("runs", "diff", "out", a, b).stdout.count("rows") == 2
    seen = [{name: run["outputs"]["seen"][name] for name in ("records", "digest")} for run in shown["runs"]]
    assert seen[0]["records"] > seen[1]["records"] > 0
    assert seen[0]["digest"] != seen[1]["digest"]
    with pytest.raises(ConfigurationError, match=f"runs: no code begins with 'zz'; there are {a[:12]}, "):
        run("runs", "show", "out", "zz")
    assert json.loads(run("runs", "show", "out", "--json").stdout)["code"] == c
    assert sweep("signals_of_sweep:large", *each).exit_code == 0  # back to the first one
    assert json.loads(run("runs", "show", "out", "--json").stdout)["code"] == a


def test_a_folder_without_a_data_set_is_refused() -> None:
    with pytest.raises(Exception, match="there is no data set of a sweep"):
        run("runs", "list", ".")


def test_a_picture_of_the_best_sets_is_written(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    polars = pytest.importorskip("polars")
    sweep("signals_of_sweep:large", "--each", "least=1,500", "--each", "times=1,2")
    drawn = run("runs", "plot", "out", "best.png", "--by", "n")
    assert drawn.exit_code == 0
    assert re.findall(r"\w+", drawn.stdout.splitlines()[1]) == ["set", "parameters", "n"]
    assert "n (" not in drawn.stdout
    assert (tmp_path / "best.png").read_bytes().startswith(b"\x89PNG")
    said = json.loads(run("runs", "plot", "out", "best.png", "--by", "n", "--best", "2", "--json").stdout)
    rows = polars.read_parquet("out/rows/**/*.parquet").group_by("set").agg(polars.col("n").sum())
    best = rows.sort("n", "set", descending=[True, False]).head(2)
    assert [(each["set"], each["score"]) for each in said["best"]] == [*best.iter_rows()]
    assert said["best"][0]["parameters"]["least"] == 1
    sweep("signals_of_sweep:large", "--each", "least=7", "--each", "times=1", "--limit", "1000")  # another code
    with pytest.raises(ConfigurationError, match="'m' is no field of numbers"):
        run("runs", "plot", "out", "best.png", "--by", "m")
    with pytest.raises(ConfigurationError, match="does not end in"):
        run("runs", "plot", "out", "best.gif", "--by", "n")
