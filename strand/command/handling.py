"""``--handler`` and ``--set``: what runs over the ticks, and its options."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from strand.command.completing import complete_handlers, complete_settings
from strand.handlers.loading import load_handler

__all__ = ["NAME", "given_options", "handling"]

#: Forms of a handler's name.
NAME = "NAME|MODULE:FUNCTION"


def handling(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options, as one argument ``handler``."""

    @click.option(
        "--handler",
        "names",
        multiple=True,
        metavar=NAME,
        shell_complete=complete_handlers,
        help="The handler to run on each symbol's ticks. `strand handlers` lists the built-in ones. [default: count]",
    )
    @click.option(
        "--set",
        "options",
        multiple=True,
        metavar="OPTION=VALUE",
        shell_complete=complete_settings,
        help="Set an option of the handler. Repeatable. `strand handlers NAME` lists the options.",
    )
    @functools.wraps(command)
    def with_handler(*, names: tuple[str, ...], options: tuple[str, ...], **others: Any) -> None:
        if len(names) > 1:
            raise click.UsageError(
                f"--handler: it is given {len(names)} times, and a run has one handler: name a function of a module "
                f"that returns strand.chain({', '.join(map(repr, names))}), as --handler MODULE:FUNCTION"
            )
        name = names[0] if names else "count"
        command(handler=load_handler(name, given_options("--set", options)), **others)

    return with_handler


def given_options(option: str, given: tuple[str, ...]) -> dict[str, str]:
    """Values by name, of texts like ``fill=yes``; ``option``: the command's, for messages. Raises UsageError."""
    found: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise click.UsageError(f"{option}: {text!r} is not OPTION=VALUE")
        if name.strip() in found:
            raise click.UsageError(f"{option}: {name.strip()!r} is given twice")
        found[name.strip()] = value
    return found
