"""Links between pages hold, the reference says what there is, and so do the README and the names of the package."""

from __future__ import annotations

import builtins
import concurrent.futures
import dataclasses
import importlib
import importlib.util
import inspect
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import strand
from strand import errors, feeds, testing
from strand.errors import DISTRIBUTION, install_command
from strand.handlers.builtin import BUILTIN
from strand.options import options_in

pytestmark = pytest.mark.python


ROOT = Path(__file__).parents[2]
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
    """Links of a page, those to the web left out."""
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


# ---- The reference has every public name, and the docstrings list the parameters and errors that there are


DOCS = Path(__file__).resolve().parents[2] / "docs"


def layout() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docstrings", DOCS / "docstrings.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TEXT = layout().with_policies("\n".join(page.read_text("utf-8") for page in sorted((DOCS / "reference").glob("*.md"))))
DOCUMENTED = set(re.findall(r"^\.\. (?:auto\w+|py:data):: ([\w.]+)", TEXT, flags=re.MULTILINE))
#: Not a class or function of its own: the page says in words what it is.
IN_WORDS = {"strand.feeds.TickBatch", "strand.testing.ListFeed"}

ENTRY = re.compile(r"    (\*{0,2}\w+(?:, \w+)*): \S")

#: Functions, and readers, which users make; most other classes are made by strand.
CALLED = set(re.findall(r"^\.\. autofunction:: ([\w.]+)", TEXT, flags=re.MULTILINE)) | {
    name for name in DOCUMENTED if name.startswith("strand.feeds.") and name.endswith("Feed")
} - {"strand.feeds.Feed"}


def named(name: str) -> Any:
    first, *parts = name.split(".")
    path, found = first, importlib.import_module(first)
    for part in parts:
        path += f".{part}"
        found = getattr(found, part) if part in dir(found) else importlib.import_module(path)
    return found


def members(found: Any) -> dict[str, Any]:
    """Attributes of a class from strand's own bases, or of a module; of a property, its getter."""
    kinds = reversed(found.__mro__) if inspect.isclass(found) else [found] if inspect.ismodule(found) else []
    inside: dict[str, Any] = {}
    for kind in kinds:
        if (kind.__module__ if inspect.isclass(kind) else kind.__name__).startswith("strand"):
            inside |= {name: value for name, value in vars(kind).items() if not name.startswith("_")}
    readers = {name: getattr(value, "fget", None) or getattr(value, "func", value) for name, value in inside.items()}
    return {name: getattr(value, "__func__", value) for name, value in readers.items()}


def documented() -> Iterator[tuple[str, Any]]:
    """Each class and function of the reference, and their methods and properties."""
    for name in sorted(DOCUMENTED):
        found = named(name)
        inside = {f"{name}.{one}": value for one, value in members(found).items()}
        for called, value in {name: found, **inside}.items():
            if inspect.isfunction(value) or inspect.isclass(value):
                yield called, value


def entries(about: Any, section: str) -> list[str]:
    """The names that a section of a docstring in Google's style has an entry for."""
    text = inspect.getdoc(about) or ""
    if f"\n{section}:\n" not in text:
        return []
    lines = text.split(f"\n{section}:\n")[1].split("\n\n")[0].splitlines()
    return [name for line in lines if (entry := ENTRY.match(line)) for name in entry[1].split(", ")]


def parameters_of(called: Any) -> list[str]:
    """Its parameters, and before other options those that a class declares for it."""
    function = inspect.unwrap(called.__init__ if inspect.isclass(called) else called)
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    found = [
        stars.get(one.kind, "") + one.name
        for one in inspect.signature(function).parameters.values()
        if one.name not in ("self", "cls") and one.name[0] != "_"
    ]
    if "**options" in found and function is not called:
        at = found.index("**options")
        found[at:at] = [one for one in options_in(called) if one not in found]
    return found


def test_every_public_name_is_in_the_reference() -> None:
    names = {f"strand.{name}" for name in strand.__all__} | {f"strand.feeds.{name}" for name in feeds.__all__}
    names |= {f"strand.testing.{name}" for name in testing.__all__} - IN_WORDS
    missing = names - DOCUMENTED - {"strand.StrandError"} - IN_WORDS
    assert missing == set(), "add them to a page of docs/reference"
    assert "strand.errors" in DOCUMENTED
    assert errors.StrandError.__module__ == "strand.errors"


def test_every_built_in_handler_that_takes_options_is_in_the_reference() -> None:
    made = {name for name, built in BUILTIN.items() if hasattr(strand, name)}
    assert len(made) > 8
    assert {f"strand.{name}" for name in made} - DOCUMENTED == set()


@pytest.mark.parametrize("name", sorted(DOCUMENTED))
def test_what_the_reference_names_is_there_and_has_a_docstring(name: str) -> None:
    assert getattr(named(name), "__doc__", None)


@pytest.mark.parametrize("name", sorted(CALLED))
def test_the_docstring_of_what_users_call_has_an_entry_for_each_parameter(name: str) -> None:
    called = named(name)
    found = entries(called, "Args")
    # Of those with a star the text before may say enough.
    assert found == [one for one in parameters_of(called) if one[0] != "*" or one in found]


@pytest.mark.parametrize("name", sorted(name for name in DOCUMENTED if inspect.isclass(named(name))))
def test_a_class_that_lists_parameters_or_attributes_lists_all_of_them_in_order(name: str) -> None:
    found = named(name)
    if made := entries(found, "Args"):
        assert made == [one for one in parameters_of(found) if one[0] != "*" or one in made]
    if (shown := entries(found, "Attributes")) and dataclasses.is_dataclass(found):
        assert shown == [one.name for one in dataclasses.fields(found) if one.name[0] != "_"]


def test_docstrings_have_entries_for_parameters_and_errors_that_there_are() -> None:
    wrong = []
    n_entries = 0
    for name, about in documented():
        args, raised = entries(about, "Args"), entries(about, "Raises")
        n_entries += len(args) + len(raised)
        text = inspect.getdoc(about) or ""
        wrong += [f"{name}: no parameter {one}" for one in args if one not in parameters_of(about)]
        known = (errors, builtins, concurrent.futures)
        wrong += [f"{name}: no error {one}" for one in raised if not any(hasattr(where, one) for where in known)]
        wrong += [
            f"{name}: an entry without text: {line}" for line in text.splitlines() if re.match(r"    \w+:$", line)
        ]
    assert wrong == []
    assert n_entries > 500


def test_pages_become_links_and_literals_end() -> None:
    assert layout().linked("``x``s do ``it`` (docs/feeds/csv.md).") == "``x``\\ s do ``it`` (:doc:`/feeds/csv`)."


def test_parameters_of_ours_are_not_shown() -> None:
    assert layout().without_private("(a, *, b=1, _c=f(2), d=3)") == "(a, *, b=1, d=3)"
    assert layout().without_private("(path, *, _more=None)") == "(path)"


def test_no_part_of_a_property_s_first_line_is_taken_for_its_type() -> None:
    sphinx: Any = None
    for what, hidden in (("property", True), ("method", False)):
        lines = ["What it has: a word.", "", "More: of it."]
        layout()._begin(sphinx, what, "strand.a", None, None, lines)
        assert (":" not in lines[0]) is hidden
        assert lines[2] == "More: of it."
        layout()._process(sphinx, what, "strand.a", None, None, lines)
        assert lines[0] == "What it has: a word."


# ---- ``tools/prose.py`` finds long sentences, broken lines and long paragraphs, and nothing in tables and code


SOUND = f"""\
# A heading of any length {"and more " * 40}

A first sentence. A second one has `code {"and more " * 40}`, and [text](https://example.org/{"a" * 300}):
the next line begins behind a colon.

| a table | {"and more " * 40} |
|---|---|
| a | b |

- An item that ends (in brackets.)
  And **another line.**

```python
line = "ends
within" {"and more " * 40}
```
"""


@pytest.fixture(scope="module")
def prose() -> ModuleType:
    spec = importlib.util.spec_from_file_location("prose", ROOT / "tools/prose.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_sound_document_has_no_fault(prose: ModuleType) -> None:
    assert [*prose.faults(SOUND)] == []


@pytest.mark.parametrize(
    ("text", "line", "fault"),
    [
        ("# One\n\nIt ends here.\nA line that\nis broken.\n", 4, "the line ends within a sentence"),
        ("- an item, whose line\n  is broken\n", 1, "the line ends within a sentence"),
        ("One.\n\n" + "word " * 25 + "`code`.\n", 3, "a sentence has 26 words: " + ("word " * 8) + "..."),
        ("One.\n" * 7, 1, "the paragraph has 7 lines"),
    ],
)
def test_each_fault_is_found_with_its_line(prose: ModuleType, text: str, line: int, fault: str) -> None:
    assert [*prose.faults(text)] == [(line, fault)]


def test_the_documents_of_all_folders_are_looked_at(prose: ModuleType) -> None:
    found = {str(path.relative_to(ROOT)) for path in prose.documents(ROOT)}
    assert {"README.md", "CHANGELOG.md", "docs/design.md", "docs/howto/pairs.md", "csrc/engine/README.md"} <= found
    assert "docs/proof.md" not in found


MODULE = '''"""What a module is."""


class Rows:
    """Rows of a run. What they hold is theirs."""

    def at(self, key):
        """
        Whether a row is there.
        """

    async def wait(self):
        """Waits for ``it, its, them``, how long it takes."""


def whole(value):
    """Howard's rule."""
    """What comes second is no docstring."""
'''


def test_a_docstring_that_begins_with_a_question_is_a_fault(prose: ModuleType) -> None:
    found = [(line, fault.partition(":")[0]) for line, fault in prose.docstring_faults(MODULE)]
    assert found == [(1, "the docstring begins with What"), (8, "the docstring begins with Whether")]


@pytest.mark.parametrize("word", ["What", "Which", "How", "Where", "When", "Whether", "Who"])
def test_no_question_begins_a_docstring(prose: ModuleType, word: str) -> None:
    assert len([*prose.docstring_faults(f'"""{word} it is."""')]) == 1


def test_sentences_with_three_pronouns_are_shown_and_code_is_none(prose: ModuleType) -> None:
    assert [*prose.many_pronouns(MODULE)] == [(5, "What they hold is theirs.")]


def test_docstrings_of_the_whole_library_are_looked_at(prose: ModuleType) -> None:
    found = {str(path.relative_to(ROOT)) for path in prose.modules(ROOT)}
    assert {"strand/__init__.py", "strand/handlers/base.py", "feeds/base.py", "feeds/formats/csv/reader.py"} <= found


# ---- The README is short, and says what it has to. What it shows is run by test_pages.py


README = (ROOT / "README.md").read_text("utf-8")


def section_of(title: str) -> str:
    return README.split(f"## {title}\n")[1].split("\n## ")[0]


def test_it_has_120_lines_at_most() -> None:
    assert len(README.splitlines()) <= 120


def test_its_two_commands_are_targets_of_make() -> None:
    commands = re.findall(r"^    make (\w+) ", section_of("Two commands"), flags=re.M)
    assert commands == ["demo", "test"]
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert all(re.search(rf"^{command}: ", makefile, flags=re.M) for command in commands)


def test_it_has_one_example_with_its_output() -> None:
    assert re.findall(r"^```(\w+)$", README, flags=re.M) == ["python", "text"]


def test_each_guarantee_of_the_contract_has_a_line() -> None:
    names = r"^\d\. \*\*(.*?)\.\*\* "
    contract = (ROOT / "docs/design.md").read_text("utf-8").split("## 1. The contract\n")[1].split("\n## ")[0]
    of_the_contract = re.findall(names, contract, flags=re.M)
    assert len(of_the_contract) == 6
    assert re.findall(names, section_of("Guarantees"), flags=re.M) == of_the_contract
    assert re.findall(names, (ROOT / "docs/guarantees.md").read_text("utf-8"), flags=re.M) == of_the_contract


def test_the_comparison_has_ten_rows() -> None:
    rows = [line for line in section_of("Beside other ways").splitlines() if line.startswith("| ")]
    assert len(rows) == 1 + 10
    assert len({row.count("|") for row in rows}) == 1


def test_no_measured_figure_is_in_it() -> None:
    assert not re.search(r"\d (?:ns|us|ms)\b|\d per second|million ticks", README)


# ---- One name on the package index, wherever something says what to install


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


# ---- Tools/dependencies.py, by which make installs what the package and its extras need


def printed(*extras: str) -> list[str]:
    run = [sys.executable, str(ROOT / "tools" / "dependencies.py"), *extras]
    return subprocess.run(run, capture_output=True, text=True, check=True).stdout.splitlines()


def test_each_dependency_of_the_package_and_of_the_extras_is_a_line_of_its_own() -> None:
    assert printed() == PROJECT["dependencies"]
    found = printed("csv", "parquet")
    assert len(found) == len(set(found))
    extras = PROJECT["optional-dependencies"]
    assert set(found) == {*PROJECT["dependencies"], *extras["csv"], *extras["parquet"]}


def test_an_extra_that_there_is_not_fails() -> None:
    run = [sys.executable, str(ROOT / "tools" / "dependencies.py"), "none"]
    assert subprocess.run(run, capture_output=True, check=False).returncode == 1


def test_make_names_extras_that_there_are() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    named = re.findall(r"^EXTRAS := (.*)$", makefile, re.MULTILINE)[0].split()
    named += re.findall(r"\$\(call NEEDED,(\w+)\)", makefile)
    assert set(named) <= set(PROJECT["optional-dependencies"])
    assert {"test", "dev", "fuzz", "bench"} <= set(named)
