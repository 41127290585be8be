"""``strand sweep``, as a user calls it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sweep_commands import sweep

from strand.command import cli
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
