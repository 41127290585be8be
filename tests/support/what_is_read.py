"""The tables of docs/feeds/reads.md and docs/tick.md, from the registry of formats, the built-in profiles and the small
files of tests.

.venv/bin/python tests/support/what_is_read.py --write   writes them into the pages
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from csv_files import KINDS
from feed_samples import SAMPLES
from json_documents import DOCUMENTS
from small_files import FILES

from strand.feeds.formats.csv import profile as csv_profiles
from strand.feeds.formats.json import profile as json_profiles
from strand.feeds.formats.registry import formats

PAGE = Path(__file__).resolve().parents[2] / "docs" / "feeds" / "reads.md"
#: What each format becomes; its table stands there, too.
TICKS = PAGE.parents[1] / "tick.md"


def _samples() -> dict[str, list[str]]:
    """The names of the small files by format, else of the sample that is damaged; those of profiles stand in the second
    table."""
    found: dict[str, list[str]] = {}
    for file in FILES:
        if file.name.removeprefix(f"{file.format} ") in KINDS or file.name.removeprefix("json ") in DOCUMENTS:
            continue
        with tempfile.TemporaryDirectory() as folder:
            found.setdefault(file.format, []).append(file.write(Path(folder)).name)
    return {sample.format: [sample.file] for sample in SAMPLES} | found


def _row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def tables() -> list[str]:
    """The tables, as text. Raises KeyError for a format without a page or a sample, and for a profile without one."""
    samples = _samples()
    lines = ["| format | files | sample made by the tests | source |", "|---|---|---|---|"]
    made = ["| format | kinds and actions | page |", "|---|---|---|"]
    for known in formats():
        if not (known.page and known.makes and known.described):
            raise KeyError(f"{known.name} does not say its page, what it makes, or where it is described")
        named = ", ".join(f"`{name}`" for name in dict.fromkeys(samples[known.name]))
        lines.append(_row(f"[`{known.name}`]({known.page})", known.words, named, known.described))
        made.append(_row(f"`{known.name}`", known.makes, f"[{known.words}](feeds/{known.page})"))
    profiles = ["| profile | files | sample made by the tests | source |", "|---|---|---|---|"]
    told = [(each.name, each.about, each.described, KINDS, "csv.md") for each in csv_profiles.built_in()]
    told += [
        (name, str(table["about"]), str(table["described"]), DOCUMENTS, "json.md#documents")
        for name, table in json_profiles.built_in().items()
    ]
    for name, about, described, kinds, page in told:
        if not described:
            raise KeyError(f"{name} does not say where its format is described")
        profiles.append(_row(f"[`{name}`]({page})", about, f"`{kinds[name].file}`", described))
    return ["\n".join(lines), "\n".join(profiles), "\n".join(made)]


def page(text: str) -> str:
    """The page with its tables in their places: each between its first and its last line."""
    for table in tables():
        head = table.partition("\n")[0]
        begin = text.find(head)
        if begin < 0:
            continue
        end = text.find("\n\n", begin)
        text = text[:begin] + table + (text[end:] if end >= 0 else "\n")
    return text


if __name__ == "__main__" and "--write" in sys.argv:
    for written in (PAGE, TICKS):
        written.write_text(page(written.read_text("utf-8")), "utf-8")
