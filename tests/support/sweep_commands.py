"""``strand sweep`` in a folder with handlers of its own."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner, Result

from strand.command.cli import cli
from strand.feeds.sample import SAMPLE_DATE, sample_path

__all__ = ["run", "sweep", "write_handlers"]

HANDLERS = """
import strand

LEAST = 1
SHOWN = 1

@strand.batch_handler(
    state=[("n", "i8")], params=[("least", "u4"), ("times", "i4")], outputs={"seen": [("size", "i8")]}
)
def large(symbol, ticks, row, ctx):
    for at, size in enumerate(ticks["size"].tolist()):
        if size >= ctx.params["least"] * LEAST:
            row["n"] += ctx.params["times"]
            ctx.emit((size * SHOWN,), at=at)
"""


def write_handlers(folder: Path) -> None:
    """Three modules with a handler ``large``, whose code differs: the second leaves other rows and records than the
    first one, the third other records."""
    (folder / "signals_of_sweep.py").write_text(HANDLERS)
    (folder / "other_of_sweep.py").write_text(HANDLERS.replace("LEAST = 1", "LEAST = 2"))
    (folder / "third_of_sweep.py").write_text(HANDLERS.replace("SHOWN = 1", "SHOWN = 2"))


def run(*words: str) -> Result:
    """The command with these words."""
    return CliRunner().invoke(cli, list(words), catch_exceptions=False)


def sweep(handler: str, *words: str) -> Result:
    """A sweep over the sample."""
    return run(
        "sweep", str(sample_path()), "--handler", handler, "--date", str(SAMPLE_DATE), "--symbols", "AAAA*",
        "--out", "out", "--workers", "1", *words,
    )  # fmt: skip
