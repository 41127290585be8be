"""How a run is done: the options of the commands that run a handler."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from strand.binding.engine_config import ON_FULL
from strand.command.configured import ordering
from strand.command.handling import given_options
from strand.command.parameters import CoreList, ErrorChoice, StrandCount

__all__ = ["running"]


def running(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options, as one argument ``run``: those of ``strand.replay``, by name. A command's own ``--workers`` is
    among them, as a file may say how many there are."""

    @click.option("--cores", type=CoreList(), help="Cores to pin the workers to, like 1,2-5. [default: the last ones]")
    @click.option("--strands", default="auto", type=StrandCount(), help="Which symbols share a strand.")
    @ordering
    @_bounding
    @click.option(
        "--idle",
        type=click.Choice(["spin", "backoff", "park"]),
        default="backoff",
        help="What a worker without work does.",
    )
    @click.option("--on-error", type=ErrorChoice(), default="stop", help="What a failing handler does.")
    @click.option("--strict", is_flag=True, help="Warnings of the run are an error, and exit status 2.")
    @click.option("--attachable", is_flag=True, help="Let strand stat look at the run from another process.")
    @functools.wraps(command)
    def with_run(
        *, cores: list[int] | None, strands: str | int, order: dict[str, Any], idle: str, on_error: str, strict: bool,
        attachable: bool, **others: Any,
    ) -> None:  # fmt: skip
        run: dict[str, Any] = {"cores": "auto" if cores is None else cores, "strands": strands, "idle": idle}
        run |= {"on_error": on_error, "strict": strict} | order
        # A plain loop has no option ``attachable``.
        command(run=run | ({"attachable": True} if attachable else {}), **others)

    return with_run


def _bounding(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options of overload that no file has, bounds and active workers, to what ``ordering`` gives."""

    @click.option("--min-workers", type=int, help="Workers active at least; more are as the load asks. [default: all]")
    @click.option("--on-full", type=click.Choice(list(ON_FULL)), help="What happens at a bound. [default: block]")
    @click.option("--total-capacity-ticks", type=int, help="The bound on all strands together. [default: none]")
    @click.option(
        "--level-capacity-ticks",
        metavar="LEVEL=TICKS",
        multiple=True,
        help="With --policy levels: the bound on the strands of a level, like low=10000. [default: none]",
    )
    @functools.wraps(command)
    def with_bounds(*, order: dict[str, Any], level_capacity_ticks: tuple[str, ...], **others: Any) -> None:
        for name in ("min_workers", "on_full", "total_capacity_ticks"):
            if (value := others.pop(name)) is not None:
                order |= {name: value}
        levels = given_options("--level-capacity-ticks", level_capacity_ticks)
        if levels:
            order |= {"level_capacity_ticks": {level: _number(ticks) for level, ticks in levels.items()}}
        command(order=order, **others)

    return with_bounds


def _number(text: str) -> int | str:
    """What is no number is refused where it is used, by its option."""
    return int(text) if text.isdecimal() else text
