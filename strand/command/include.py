"""The command ``strand include``."""

from __future__ import annotations

import json

import click

from strand.headers import get_include

__all__ = ["include"]


@click.command("include")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def include(as_json: bool) -> None:
    """Print the folder of the C headers: cc -I"$(strand include)" -shared -fPIC ..."""
    click.echo(json.dumps({"include": get_include()}) if as_json else get_include())
