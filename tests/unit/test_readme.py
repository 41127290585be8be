"""The README is short, and says what it has to. What it shows is run by test_pages.py."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.python

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text("utf-8")


def section(title: str) -> str:
    return TEXT.split(f"## {title}\n")[1].split("\n## ")[0]


def test_it_has_120_lines_at_most() -> None:
    assert len(TEXT.splitlines()) <= 120


def test_its_two_commands_are_targets_of_make() -> None:
    commands = re.findall(r"^    make (\w+) ", section("Two commands"), flags=re.M)
    assert commands == ["demo", "test"]
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert all(re.search(rf"^{command}: ", makefile, flags=re.M) for command in commands)


def test_it_has_one_example_with_its_output() -> None:
    assert re.findall(r"^```(\w+)$", TEXT, flags=re.M) == ["python", "text"]


def test_each_guarantee_of_the_contract_has_a_line() -> None:
    names = r"^\d\. \*\*(.*?)\.\*\* "
    contract = (ROOT / "docs/design.md").read_text("utf-8").split("## 1. The contract\n")[1].split("\n## ")[0]
    of_the_contract = re.findall(names, contract, flags=re.M)
    assert len(of_the_contract) == 6
    assert re.findall(names, section("Guarantees"), flags=re.M) == of_the_contract
    assert re.findall(names, (ROOT / "docs/guarantees.md").read_text("utf-8"), flags=re.M) == of_the_contract


def test_the_comparison_has_ten_rows() -> None:
    rows = [line for line in section("Beside other ways").splitlines() if line.startswith("| ")]
    assert len(rows) == 1 + 10
    assert len({row.count("|") for row in rows}) == 1


def test_no_measured_figure_is_in_it() -> None:
    assert not re.search(r"\d (?:ns|us|ms)\b|\d per second|million ticks", TEXT)
