"""One name on the package index, wherever something says what to install."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

import strand
from strand.errors import DISTRIBUTION, install_command

pytestmark = pytest.mark.python

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def test_the_name_is_that_of_the_project_and_what_is_imported_is_strand() -> None:
    assert PROJECT["name"] == DISTRIBUTION
    assert version(DISTRIBUTION) == PROJECT["version"]
    assert strand.__name__ == "strand"


def test_documents_and_messages_say_what_can_be_installed() -> None:
    """``strand`` on the package index is somebody else's."""
    said = re.compile(r"pip install +'?([A-Za-z0-9_-]+)(?:\[([a-z,]+)\])?'?")
    folders = [(ROOT / "docs").rglob("*.md"), (ROOT / "examples").glob("*"), (ROOT / "strand").rglob("*.py")]
    files = [ROOT / "README.md", *(file for folder in folders for file in folder if file.is_file())]
    found = [match for file in files for match in said.finditer(file.read_text("utf-8"))]
    assert found
    for match in found:
        assert match[1] != "strand", match[0]
        if match[2] is not None:
            assert match[1] == DISTRIBUTION
            assert set(match[2].split(",")) <= set(PROJECT["optional-dependencies"])


def test_the_command_for_an_extra() -> None:
    assert install_command("csv") == "pip install 'tickstrand[csv]'"
