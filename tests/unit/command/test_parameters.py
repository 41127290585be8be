"""Values that commands take, and what they show."""

from __future__ import annotations

import os
from typing import Any

import click
import pytest

from strand.command.parameters import CoreList, StrandCount, progress, show

pytestmark = pytest.mark.python


@pytest.fixture
def six_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(6)))


@pytest.mark.parametrize(("text", "cores"), [("0", [0]), ("0,2-5", [0, 2, 3, 4, 5]), ("5,1", [5, 1])])
def test_cores_are_numbers_and_spans(six_cores: None, text: str, cores: list[int]) -> None:
    assert CoreList().convert(text, None, None) == cores
    assert CoreList().convert(cores, None, None) == cores


@pytest.mark.parametrize("text", ["", "a", "3-1", "1-", "-1", "0,,1", "6", "0-6"])
def test_what_is_no_list_of_cores_is_refused(six_cores: None, text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"is not a list of cores|cannot be used"):
        CoreList().convert(text, None, None)


@pytest.mark.parametrize(("text", "count"), [("auto", "auto"), ("per-symbol", "per-symbol"), ("7", 7)])
def test_strands_are_a_word_or_a_number(text: str, count: Any) -> None:
    assert StrandCount().convert(text, None, None) == count


@pytest.mark.parametrize("text", ["", "seven", "-1", "1.5"])
def test_other_words_are_no_count_of_strands(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not auto, per-symbol or a number"):
        StrandCount().convert(text, None, None)


def test_json_is_one_object_and_people_have_words(capsys: pytest.CaptureFixture[str]) -> None:
    show(True, {"ticks": 3}, lambda console: console.print("three"))
    show(False, {"ticks": 3}, lambda console: console.print("three"))
    assert capsys.readouterr().out == '{"ticks": 3}\nthree\n'


def test_where_nobody_watches_progress_is_silent_and_its_check_is_called(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[Any] = []
    with progress("reading", 10, quiet=False, check=seen.append) as advance:
        advance.opened("feed")  # type: ignore[arg-type]
        advance(5)
    assert seen == ["feed"]
    assert capsys.readouterr() == ("", "")
