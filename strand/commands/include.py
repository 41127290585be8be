"""The command ``strand include``."""

from __future__ import annotations

import click

from strand.headers import get_include

__all__ = ["include"]


@click.command("include")
def include() -> None:
    """Print the folder of the C headers: cc -I"$(strand include)" -shared -fPIC ..."""
    click.echo(get_include())
