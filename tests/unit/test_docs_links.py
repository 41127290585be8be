"""What the documents point to is there: files, headings in them, and the rooms that the design draws."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.python

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md"), *(ROOT / "csrc").rglob("*.md")])
FOR_DEVELOPERS = [
    ROOT / "CONTRIBUTING.md",
    ROOT / "docs/design.md",
    *sorted((ROOT / "docs/internals").glob("*.md")),
    *sorted((ROOT / "docs/decisions").glob("*.md")),
]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
TOCTREE = re.compile(r"^```\{toctree\}\n(.*?)^```$", re.DOTALL | re.MULTILINE)
#: A name in backticks that is a path from the root of the repository.
PATH = re.compile(r"`((?:bench|csrc|docs|examples|feeds|strand|tests|tools)/[\w./]*)`")


def anchors_of(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ +(.+?) *$", FENCED.sub("", text), flags=re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        anchor = first = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        repeated = 0
        while anchor in found:
            repeated += 1
            anchor = f"{first}-{repeated}"
        found.add(anchor)
    return found


def links_of(text: str) -> list[str]:
    """What a page links to beside the web."""
    found: list[str] = LINK.findall(FENCED.sub("", text))
    return [link for link in found if not re.match(r"[a-z]+:", link)]


def broken_links(page: Path) -> list[str]:
    """The links of a page that lead nowhere, each with what is missing."""
    text = page.read_text("utf-8")
    wrong = []
    for link in links_of(text):
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists():
            wrong.append(f"{link}: there is no such file")
        elif anchor and anchor not in anchors_of(target.read_text("utf-8")):
            wrong.append(f"{link}: there is no such heading")
    return wrong


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_of_a_page_leads_to_a_file_and_to_a_heading_in_it(page: Path) -> None:
    assert broken_links(page) == []


@pytest.mark.parametrize("page", FOR_DEVELOPERS, ids=name_of)
def test_every_path_that_a_page_for_developers_names_is_there(page: Path) -> None:
    made = {"docs/proof.md", "tests/fuzz/corpus"}  # by `make proof` and `make fuzz`
    named = {path for path in PATH.findall(page.read_text("utf-8")) if "NAME" not in path} - made
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


def test_every_page_about_a_part_or_a_decision_is_linked_from_another_page() -> None:
    linked = {
        (page.parent / link.partition("#")[0]).resolve()
        for page in PAGES
        for link in links_of(page.read_text("utf-8"))
        if link.partition("#")[0] and (page.parent / link.partition("#")[0]).resolve() != page
    }
    pages = [page for folder in ("internals", "decisions") for page in (ROOT / "docs" / folder).glob("*.md")]
    assert len(pages) > 10
    assert [name_of(page) for page in pages if page not in linked] == []


def test_every_page_of_the_site_is_in_its_table_of_contents() -> None:
    """Sphinx warns of it too, and of a page that a table of contents names and that is not there."""
    named: set[Path] = set()
    for page in (ROOT / "docs").rglob("*.md"):
        for block in TOCTREE.findall(page.read_text("utf-8")):
            entries = [line for line in block.splitlines() if line and not line.startswith(":")]
            assert entries
            for entry in entries:
                found = {target.resolve() for target in page.parent.glob(f"{entry}.md")}
                assert found, f"{name_of(page)}: {entry} is no page"
                named |= found - {page}
    pages = {*(ROOT / "docs").rglob("*.md")} - {ROOT / "docs/index.md"}
    assert len(pages) > 80
    assert sorted(map(name_of, pages - named)) == []


def test_the_rooms_that_the_design_draws_are_those_of_the_list_in_their_order() -> None:
    drawing = next(text for text in FENCED.findall((ROOT / "docs/design.md").read_text("utf-8")) if "csrc/" in text)
    in_c, in_python = drawing.split("strand/, feeds/", 1)
    rooms = tomllib.loads((ROOT / "tools/rooms.toml").read_text("utf-8"))
    for drawn, listed in ((in_c, rooms["c"]), (in_python, rooms["python"])):
        assert re.findall(r"^    ([\w.]+) ", drawn, flags=re.MULTILINE) == list(listed)


def test_a_missing_file_and_a_missing_heading_are_reported(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    (tmp_path / "other.md").write_text("# One `thing`, done\n## Twice\n## Twice\n```\n# No heading\n```\n")
    page.write_text(
        "[a](other.md#one-thing-done) [b](other.md#twice-1) [c](https://example.org/x) [d](#here)\n# Here\n"
        "[e](gone.md) [f](other.md#no-heading)\n"
    )
    assert broken_links(page) == ["gone.md: there is no such file", "other.md#no-heading: there is no such heading"]
