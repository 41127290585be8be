"""Every block of code and every command on the pages runs, in a folder of its own, and prints what the page says."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from page_files import make_files
from shown_pages import NOT_RUN, Block, blocks_of, differs, run_page

import strand

pytestmark = pytest.mark.python

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [page for page in [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))] if blocks_of(page)]
RUN = {"python", "sh", "console", "command", "c"}
#: What a page's blocks find, beside the files.
NAMES: dict[str, dict[str, object]] = {}


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all files that the pages name."""
    folder = tmp_path_factory.mktemp("files")
    make_files(folder)
    return folder


@pytest.fixture
def folder(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it to work in: commands write there."""
    shutil.copytree(files, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("COLUMNS", "110")
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=name_of)
@pytest.mark.usefixtures("folder")
def test_the_blocks_of_the_page_run_and_print_what_it_says(page: Path) -> None:
    run_page(page, {"__name__": "page"} | NAMES.get(name_of(page), {}))


def test_there_are_blocks_of_each_kind_and_none_of_an_unknown_one() -> None:
    shown = {"", "text", "csv", "json", "toml", "yaml", "{toctree}", "{eval-rst}"}
    languages = {block.language for page in PAGES for block in blocks_of(page)}
    assert languages >= RUN
    assert languages - RUN - shown == set()


def test_a_prompt_is_shown_in_blocks_that_run() -> None:
    outside = {
        f"{name_of(page)}:{number}"
        for page in PAGES
        for number, line in enumerate(page.read_text("utf-8").splitlines(), 1)
        if line.lstrip().startswith("$ ")
        and not any(
            block.language == "console" and block.line <= number < block.line + block.text.count("\n")
            for block in blocks_of(page)
        )
    }
    assert outside == set()


def test_each_command_that_is_not_run_is_run_by_other_tests() -> None:
    folders = (ROOT / "tests/unit/command", ROOT / "tests/unit/http", ROOT / "tests/unit/screens", ROOT / "tests/unit")
    files = [file for folder in folders for file in folder.glob("test_*.py")]
    files += (ROOT / "tests/support").glob("*_commands.py")
    tests = "".join(path.read_text("utf-8") for path in files)
    for command in NOT_RUN:
        assert f'"{command}"' in tests


@pytest.mark.parametrize(
    ("printed", "shown", "said"),
    [
        ("a\nb\n", "a\nb\n", None),
        ("a\nb\nc\nd\n", "a\n...\nd\n", None),
        ("a\nb\n", "...\n", None),
        ("a\nb\n", "a\n", "not shown: 'b'"),
        ("a\n", "a\nb\n", "shown 'b', printed 'no more'"),
        ("a\nc\n", "a\nb\n", "shown 'b', printed 'c'"),
        ("a\nb\nc\n", "a\n...\nd\n", "shown 'd', printed 'no more'"),
    ],
)
def test_what_is_printed_is_held_against_what_is_shown(printed: str, shown: str, said: str | None) -> None:
    assert differs(printed, shown) == said


@pytest.mark.parametrize(
    "text",
    [
        "```python\nprint(1)  # 2\n```\n",
        "```python\nprint(1)\n```\n\n```text\n2\n```\n",
        "```console\n$ echo 1\n2\n```\n",
        "```sh\necho 1\nfalse\n```\n",
        "    strand info --no-such-option\n",
        "    strand info no-such-file\n",
    ],
)
def test_a_page_that_says_what_is_not_so_fails(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises((AssertionError, strand.StrandError)):
        run_page(page, {})


def test_the_blocks_of_a_page_are_found_with_their_lines(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A\n\n```python\nprint(1)\n```\n\n```text\n1\n```\n\n    strand info x\n\nword\n\n```text\n```\n")
    assert blocks_of(page) == [
        Block("python", "print(1)\n", 4),
        Block("text", "1\n", 8, adjoins=True),
        Block("command", "strand info x", 11),
        Block("text", "", 16),
    ]


def test_the_feed_of_ones_own_takes_about_twenty_lines_and_its_page_says_what_is_printed() -> None:
    own, use = (block.text for block in blocks_of(DOCS / "feeds/own-feed.md") if block.language == "python")
    assert len([line for line in own.splitlines() if line.strip()]) <= 22
    assert re.search(r"print\(.*\)  # \d", use)


@pytest.mark.usefixtures("folder")
def test_an_option_by_which_a_page_names_a_symbol_does_so() -> None:
    shown = next(block.text for block in blocks_of(DOCS / "feeds/npy.md") if block.language == "python")
    (line,) = [code for code in shown.splitlines() if "feeds.open(" in code]
    (name,) = re.findall(r"symbol=\"(\w+)\"", line)
    with strand.feeds.open("btcusdt.20240808.npz", size_unit="0.001", symbol=name, symbols=[name]) as feed:
        assert sum(len(batch) for batch in feed) == 2
