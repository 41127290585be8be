"""What the command shows to people."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from strand.report.tables import print_skipped

pytestmark = pytest.mark.python


def test_what_was_passed_over_is_counted_and_shown_with_its_place() -> None:
    shown = io.StringIO()
    sample = {"reason": "bad [field]", "offset": 70, "line": 3, "text": "[x]"}
    found = {"counts": {"bad [field]": 1200}, "samples": [sample, sample | {"offset": None, "text": ""}]}
    print_skipped(Console(file=shown, width=100), found)
    assert shown.getvalue().splitlines() == [
        "skipped: 1,200 bad [field]",
        "  bad [field] at byte 70 at line 3 [x]",
        "  bad [field] at line 3",
    ]


def test_where_nothing_was_passed_over_nothing_is_shown() -> None:
    shown = io.StringIO()
    print_skipped(Console(file=shown), {"counts": {}, "samples": []})
    assert shown.getvalue() == ""
