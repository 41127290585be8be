"""Completions for a shell: files, handlers and their options. Commands, options and choices click completes itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

__all__ = ["complete_files", "complete_handlers", "complete_settings"]


def complete_files(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Lets the shell complete the name of a file; behind ``NAME=`` it has to be typed."""
    from click.shell_completion import CompletionItem

    del ctx, param
    return [] if "=" in incomplete else [CompletionItem(incomplete, type="file")]


def complete_handlers(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of built-in handlers, each with the first line of its description."""
    from click.shell_completion import CompletionItem

    from strand.handlers import BUILTIN

    del ctx, param
    return [
        CompletionItem(name, help=(BUILTIN[name].make.__doc__ or "").strip().partition("\n")[0])
        for name in sorted(BUILTIN)
        if name.startswith(incomplete)
    ]


def complete_settings(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """``OPTION=`` for each option of the built-in handler that the line names; none where it names no such one."""
    from click.shell_completion import CompletionItem

    from strand.handlers import BUILTIN
    from strand.handlers.loading import options_of

    del param
    built = BUILTIN.get(*(ctx.params.get("names") or ("count",))[:1])
    options = [] if built is None else list(options_of(built))
    return [CompletionItem(f"{option}=") for option in options if option.startswith(incomplete)]
