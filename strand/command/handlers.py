"""``strand handlers``: what handlers there are, and what each takes, keeps and emits."""

from __future__ import annotations

import inspect
from typing import Any, Final

import click
import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from strand.command.completing import complete_handlers
from strand.command.handling import NAME, given_options
from strand.command.parameters import show
from strand.handlers import BUILTIN, CompiledHandler
from strand.handlers.builtin.definition import Builtin
from strand.handlers.loading import Makes, configured, find, needs, options_of

__all__ = ["handlers"]

#: Text for options that are not given, if it is not empty.
UNSAID: Final = {"book": "by the feed", "fills": "by the feed"}


@click.command("handlers")
@click.argument("name", required=False, metavar=f"[{NAME}]", shell_complete=complete_handlers)
@click.option(
    "--set", "given", multiple=True, metavar="OPTION=VALUE", help="Show the handler with this option set. Repeatable."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def handlers(name: str | None, given: tuple[str, ...], as_json: bool) -> None:
    """List the built-in handlers, or show the options, the row and the outputs of one.

    `strand replay` and `strand listen` take the options as --set OPTION=VALUE.
    """
    options = given_options("--set", given)
    if name is None:
        if given:
            raise click.UsageError("--set: give the name of the handler too")
        found = {name: _summary(BUILTIN[name]) for name in sorted(BUILTIN)}
        show(as_json, found, lambda console: _print_all(console, found))
    else:
        plain = _describe(name, find(name), options)
        show(as_json, plain, lambda console: _print_one(console, plain))


def _text_of(like: Makes) -> str:
    """The documentation of what makes a handler, or of what the user wrote."""
    if isinstance(like, Builtin):
        return inspect.getdoc(like.make) or ""
    if inspect.isfunction(like):
        return inspect.getdoc(like) or ""
    return (inspect.getdoc(like.on_tick) or "") if isinstance(like, CompiledHandler) else ""


def _summary(like: Makes) -> str:
    """Summary of a handler: the first paragraph of its text, on one line."""
    return " ".join(_text_of(like).partition("\n\n")[0].split()).replace("``", "")


def _describe(name: str, like: Makes, given: dict[str, str]) -> dict[str, Any]:
    options, lacking = options_of(like), needs(like)
    # Its state may depend on options that have to be given.
    waits = not given and lacking and options.keys() >= set(lacking)
    made = None if waits else configured(like, given, name)
    return {
        "handler": name,
        "about": _summary(like),
        "options": {
            option.name: {"takes": option.kind.words, "default": option.default, "about": option.about}
            for option in options.values()
        },
        "row": None if made is None else _fields(made.state),
        "outputs": None if made is None else {output: _fields(dtype) for output, dtype in made.emitted},
    }


def _fields(dtype: np.dtype[Any]) -> list[str]:
    return list(dtype.names or ())


def _print_all(console: Console, found: dict[str, str]) -> None:
    table = Table(show_header=False, box=None)
    for name, about in found.items():
        table.add_row(f"[bold]{escape(name)}[/]", escape(about))
    console.print(table)
    console.print(
        "`strand handlers NAME` lists the options of a handler; set them with --set OPTION=VALUE", style="dim"
    )


def _print_one(console: Console, found: dict[str, Any]) -> None:
    console.print(f"[bold]{escape(found['handler'])}[/]  {escape(found['about'])}", highlight=False)
    if found["options"]:
        table = Table("option", "takes", "default", "", box=SIMPLE_HEAD)
        for name, option in found["options"].items():
            default = option["default"] or UNSAID.get(name, "")
            table.add_row(*map(escape, (name, option["takes"], default, option["about"])))
        console.print(table)
    else:
        console.print("It has no options.")
    for what, fields in (("row", found["row"]), *((f"output {n}", f) for n, f in (found["outputs"] or {}).items())):
        if fields:
            console.print(f"{escape(what)}: {escape(', '.join(fields))}", highlight=False)
