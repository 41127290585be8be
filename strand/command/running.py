"""Options of the commands that run a handler."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from strand.command.configured import ordering
from strand.command.parameters import CoreList, StrandCount, declared
from strand.dispatch.options import grouped
from strand.dispatch.pool import Pool
from strand.options import options_in

__all__ = ["running"]


def running(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options, as one argument ``run``: those of ``strand.replay``, by name. A command's own ``--workers`` is
    among them, as a file may say how many there are."""

    @click.option(
        "--cores", type=CoreList(), help="Cores to pin the workers to, such as 1,2-5. [default: the last cores]"
    )
    @click.option(
        "--strands",
        default="auto",
        type=StrandCount(),
        help="One strand per symbol, or N strands that all symbols share.",
    )
    @ordering
    @declared(options_in(Pool)["idle"])
    @click.option(
        "--on-error",
        type=click.Choice(["stop", "quarantine"]),
        default="stop",
        help="When a handler fails: stop the run, or set its strand aside and go on.",
    )
    @click.option("--strict", is_flag=True, help="Treat warnings of the run as an error, with exit status 2.")
    @click.option("--attachable", is_flag=True, help="Let `strand stat` look at the run from another process.")
    @functools.wraps(command)
    def with_run(
        *, cores: list[int] | None, strands: str | int, order: dict[str, Any], idle: str | None, on_error: str,
        strict: bool, attachable: bool, **others: Any,
    ) -> None:  # fmt: skip
        run: dict[str, Any] = {
            "cores": "auto" if cores is None else cores,
            "strands": strands,
            "idle": idle or Pool().idle,
        }
        run = grouped(**run, on_error=on_error, **order) | {"strict": strict}
        # A plain loop has no option ``attachable``.
        command(run=run | ({"attachable": True} if attachable else {}), **others)

    return with_run
