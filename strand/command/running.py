"""How a run is done: the options of the commands that run a handler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import click

from strand.command.parameters import CoreList, StrandCount

__all__ = ["running"]

_OPTIONS: Final = (
    click.option("--cores", type=CoreList(), help="Cores to pin the workers to, like 1,2-5. [default: the last ones]"),
    click.option("--strands", default="auto", type=StrandCount(), help="Which symbols share a strand."),
    click.option(
        "--idle",
        type=click.Choice(["spin", "backoff", "park"]),
        default="backoff",
        help="What a worker without work does.",
    ),
    click.option("--strict", is_flag=True, help="Warnings of the run are an error, and exit status 2."),
    click.option("--attachable", is_flag=True, help="Let strand stat look at the run from another process."),
)


def running(command: Callable[..., None]) -> Callable[..., None]:
    """Adds ``cores``, ``strands``, ``idle``, ``strict`` and ``attachable``."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
