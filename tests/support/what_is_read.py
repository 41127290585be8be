"""The tables of docs/feeds/reads.md, from the registry of formats, the built-in profiles and the small files of tests.

.venv/bin/python tests/support/what_is_read.py --write   writes them into the page
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from csv_files import KINDS
from json_documents import DOCUMENTS
from small_files import FILES

from strand.feeds.formats.csv import profile as csv_profiles
from strand.feeds.formats.json import profile as json_profiles
from strand.feeds.formats.registry import formats

PAGE = Path(__file__).resolve().parents[2] / "docs" / "feeds" / "reads.md"
#: The page of each format, and the public description of the format.
DESCRIBED = {
    "npy": ("npy.md", 'numpy.org, "NumPy file format"; github.com/nkaz001/hftbacktest, "Data"'),
    "dbn": ("dbn.md", 'databento.com/docs, "Databento Binary Encoding"'),
    "parquet": (
        "parquet.md",
        'parquet.apache.org; arrow.apache.org, "Columnar format"; freqtrade.io, "Data downloading"',
    ),
    "iex": ("iex.md", 'IEX, "Transport", "TOPS", "DEEP" and "DEEP+"'),
    "pcap": ("pcap.md", 'Nasdaq, "MoldUDP64"; ietf.org, the drafts of pcap and pcapng'),
    "websocket": ("live.md", "Strand's own"),
    "bi5": ("dukascopy.md", "the public decoders dukascopy-node, duka and lib-dukascopy"),
    "scid": ("sierra-chart.md", 'sierrachart.com, "Intraday data file format"'),
    "lean": ("csv.md", "github.com/QuantConnect/Lean, the readme of Data/equity"),
    "recording": ("live.md", "Strand's own"),
    "itch": ("itch.md", 'Nasdaq, "TotalView-ITCH 5.0"'),
    "pitch": ("pitch.md", 'Cboe, "US Equities TCP Depth of Book (PITCH)"'),
    "jsonl": ("json.md", "the venue's own description, in each profile"),
    "csv": ("csv.md", "that which each profile names"),
}


def _samples() -> dict[str, list[str]]:
    """The names of the small files by format; those of profiles stand in the second table."""
    found: dict[str, list[str]] = {}
    for file in FILES:
        if file.name.removeprefix(f"{file.format} ") in KINDS or file.name.removeprefix("json ") in DOCUMENTS:
            continue
        with tempfile.TemporaryDirectory() as folder:
            found.setdefault(file.format, []).append(file.write(Path(folder)).name)
    return found


def _row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def tables() -> list[str]:
    """Both tables, as text. Raises KeyError for a format without a page or a sample, and for a profile without one."""
    samples = _samples()
    lines = ["| format | files | sample in the tests | description |", "|---|---|---|---|"]
    for known in formats():
        page, described = DESCRIBED[known.name]
        named = ", ".join(f"`{name}`" for name in dict.fromkeys(samples[known.name]))
        lines.append(_row(f"[`{known.name}`]({page})", known.words, named, described))
    profiles = ["| profile | files | sample in the tests | description |", "|---|---|---|---|"]
    told = [(each.name, each.about, each.described, KINDS, "csv.md") for each in csv_profiles.built_in()]
    told += [
        (name, str(table["about"]), str(table["described"]), DOCUMENTS, "json.md#documents")
        for name, table in json_profiles.built_in().items()
    ]
    for name, about, described, kinds, page in told:
        if not described:
            raise KeyError(f"{name} does not say where its format is described")
        profiles.append(_row(f"[`{name}`]({page})", about, f"`{kinds[name].file}`", described))
    return ["\n".join(lines), "\n".join(profiles)]


def page(text: str) -> str:
    """The page with both tables in their places: each between its first and its last line."""
    for table in tables():
        head = table.partition("\n")[0]
        begin = text.index(head)
        end = text.find("\n\n", begin)
        text = text[:begin] + table + (text[end:] if end >= 0 else "\n")
    return text


if __name__ == "__main__" and "--write" in sys.argv:
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
