"""What the pages about feeds show does what they say."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs" / "feeds"


def code_of(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (DOCS / page).read_text("utf-8"), re.DOTALL)


def test_the_feed_of_ones_own_runs_and_prints_what_the_page_says() -> None:
    code = code_of("own-feed.md")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile("\n".join(code), "own-feed.md", "exec"), {"__name__": "own_feed"})
    said = re.findall(r"print\(.*\)  # (.*)", code[1])
    assert printed.getvalue().splitlines() == said != []


def test_the_feed_of_ones_own_takes_about_twenty_lines() -> None:
    code = code_of("own-feed.md")[0]
    assert len([line for line in code.splitlines() if line.strip()]) <= 22
