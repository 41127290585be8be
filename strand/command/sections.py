"""The help of a command with many options: sections with headings, those that a new user needs first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import click

__all__ = ["SECTIONS", "SectionedCommand"]

#: Options by heading, in the order of the help. A command shows the options that it has.
SECTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "Handler": ("--handler", "--set"),
    "Output": ("--out", "--report", "--report-symbols", "--top", "--sort", "--verbose", "--json", "--escape-formulas"),
    "Input": (
        "--symbols", "--start", "--end", "--limit", "--date", "--profile", "--feed", "--allow-empty",
        "--on-bad-record", "--reorder-ns", "--on-disorder", "--venue-in-name", "--new-day", "--carry-over",
    ),
    "Running": (
        "--workers", "--cores", "--speed", "--per-day", "--on-error", "--strict", "--config", "--save", "--load",
        "--attachable",
    ),
    "Debugging and comparing runs": ("--only", "--until", "--pdb", "--fingerprints", "--fingerprint-every"),
    "Queues": (
        "--capacity-ticks", "--total-capacity-ticks", "--on-full", "--strands", "--idle", "--min-workers",
    ),
    "Scheduling policy": ("--policy", "--priority"),
    "With --policy levels": ("--timeout", "--since", "--guard", "--mark", "--level-capacity-ticks"),
    "With --policy aging": ("--coefficient", "--class", "--low-every", "--max-wait"),
    "With --policy fair": ("--fair-group", "--weight", "--slice-ms", "--cpu-share", "--burst-ms"),
}  # fmt: skip
_REST: Final = "Other"
#: Width of the column of options, in letters. The text of a wider option begins on the next line.
_WIDEST: Final = 30


class SectionedCommand(click.Command):
    """A command whose help shows options in sections. ``sections``: its own, which come first."""

    def __init__(self, *args: Any, sections: Mapping[str, tuple[str, ...]] | None = None, **options: Any) -> None:
        super().__init__(*args, **options)
        own = dict(sections or {})
        self.sections = own | {title: names for title, names in SECTIONS.items() if title not in own}

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the sections, then the options that are in none. See ``click.Command.format_options``."""
        records = {
            option.opts[-1]: record
            for option in self.get_params(ctx)
            if isinstance(option, click.Option) and (record := option.get_help_record(ctx)) is not None
        }
        # All sections have their texts in one column.
        width = min(max(len(term) for term, _ in records.values()), _WIDEST)
        parts = [
            (title, [records.pop(name) for name in names if name in records]) for title, names in self.sections.items()
        ]
        for title, found in [*parts, (_REST, list(records.values()))]:
            if found:
                with formatter.section(title):
                    formatter.write_dl([(term.ljust(width), text) for term, text in found], col_max=_WIDEST)
