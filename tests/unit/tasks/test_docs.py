"""Every block of code on the pages about tasks runs, and prints what the page says."""

from __future__ import annotations

import contextlib
import io
import linecache
import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.python

DOCS = Path(__file__).resolve().parents[3] / "docs"
SAID = re.compile(r"print\(.*\)  # (.*)")


@pytest.mark.parametrize("page", ["tasks.md", "napoleon.md"])
def test_the_code_of_the_page_runs_and_prints_what_it_says(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "page"}
    blocks = re.findall(r"^```python\n(.*?)^```$", (DOCS / page).read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert blocks
    for number, code in enumerate(blocks):
        source = tmp_path / f"{page.removesuffix('.md')}_{number}.py"
        source.write_text(code, "utf-8")
        linecache.checkcache(str(source))
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(source), "exec", dont_inherit=True), names)
        assert SAID.search(code), code
        for said in SAID.findall(code):
            assert said in printed.getvalue().splitlines(), printed.getvalue()
        assert "never printed" not in printed.getvalue()
