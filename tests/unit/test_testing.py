"""``strand.testing``: ticks from a list, the plain loop beside a run, runs that a seed decides, a clock to move."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs/testing.md"


def test_importing_strand_does_not_import_it() -> None:
    program = "import sys, strand, strand.dispatch.dispatcher, strand.replaying.replay; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=True)
    assert not {"strand.testing", "strand._scheduled"} & set(done.stdout.split())


@pytest.mark.python
def test_the_examples_of_its_page_run() -> None:
    names: dict[str, Any] = {}
    exec("\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.S)), names)
    tests = [value for name, value in names.items() if name.startswith("test_")]
    assert len(tests) == 5
    for test in tests:
        test()
