"""``strand sweep`` and ``strand runs``, as a user calls them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from strand.command.cli import cli
from strand.feeds.sample import SAMPLE_DATE, sample_path

pytest.importorskip("numba")
pytest.importorskip("loky")

HANDLERS = """
import strand

LEAST = 1

@strand.handler(state=[("n", "i8")], params=[("least", "u4"), ("times", "i4")])
def large(row, tick, params):
    if tick.size >= params.least * LEAST:
        row.n += params.times
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "signals_of_sweep.py").write_text(HANDLERS)
    (tmp_path / "other_of_sweep.py").write_text(HANDLERS.replace("LEAST = 1", "LEAST = 2"))
    return tmp_path


def _run(*words: str) -> Result:
    return CliRunner().invoke(cli, list(words), catch_exceptions=False)


def _sweep(handler: str, *words: str) -> Result:
    return _run(
        "sweep", str(sample_path()), "--handler", handler, "--date", str(SAMPLE_DATE), "--symbols", "AAAA*",
        "--out", "out", "--workers", "1", *words,
    )  # fmt: skip


def test_every_combination_is_a_set_and_what_is_there_is_not_run_again(folder: Path) -> None:
    words = ("signals_of_sweep:large", "--each", "least=1,500", "--each", "times=1,2,3")
    first = json.loads(_sweep(*words, "--json").stdout)
    assert list(first["sets"].values())[:4] == [
        {"least": 1, "times": 1}, {"least": 1, "times": 2}, {"least": 1, "times": 3}, {"least": 500, "times": 1},
    ]  # fmt: skip
    assert first["ran"] == first["files"] == [sample_path().name]
    assert len({run["fingerprint"] for run in first["runs"]}) == 6
    said = _sweep(*words).stdout
    assert "6 sets over 1 files" in said
    assert "0 files run, 1 were there" in said
    assert 'set 5: {"least": 500, "times": 3}' in said


def test_runs_are_listed_shown_and_compared(folder: Path) -> None:
    each = ("--each", "least=1,500", "--each", "times=1")
    for module in ("signals_of_sweep", "other_of_sweep"):
        assert _sweep(f"{module}:large", *each).exit_code == 0
    codes = json.loads(_run("runs", "list", "out", "--json").stdout)["codes"]
    assert [(code["files"], code["sets"], code["runs"]) for code in codes] == [(1, 2, 2)] * 2
    a, b = (code["code"] for code in codes)
    shown = json.loads(_run("runs", "show", "out", a[:12], "--json").stdout)
    assert [run["parameters"] for run in shown["runs"]] == [{"least": 1, "times": 1}, {"least": 500, "times": 1}]
    assert _run("runs", "diff", "out", a[:12], a[:12]).exit_code == 0
    parted = _run("runs", "diff", "out", a, b, "--json")
    assert parted.exit_code == 1
    assert {each["why"] for each in json.loads(parted.stdout)["different"]} == {"rows"}
    assert a[:12] in _run("runs", "list", "out").stdout
    assert "500" in _run("runs", "show", "out", b).stdout
    assert _run("runs", "diff", "out", a, b).stdout.count("rows") == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "--each: name a parameter"),
        (("--each", "least"), "'least' is not OPTION=VALUE"),
        (("--each", "lest=1"), "no parameter 'lest'; it has least, times"),
        (("--each", "least=many"), "least takes a whole number, not 'many'"),
    ],
)
def test_what_cannot_work_is_refused(folder: Path, words: tuple[str, ...], said: str) -> None:
    try:
        result = _sweep("signals_of_sweep:large", *words)
    except Exception as error:
        assert said in str(error)
    else:
        assert result.exit_code == 2
        assert said in result.output


def test_a_folder_without_a_data_set_is_refused(folder: Path) -> None:
    with pytest.raises(Exception, match="there is no data set of a sweep"):
        _run("runs", "list", str(folder))
