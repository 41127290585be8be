"""``strand config``: a file of options, written with the defaults, checked, shown."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from strand.command.parameters import show
from strand.config.configuration import Config, check_file, has_monitoring
from strand.config.file import NOT_EVALUATED, format_of, template
from strand.errors import ConfigurationError
from strand.report.quantities import printable

__all__ = ["config"]

_WRONG = 2


@click.group("config")
def config() -> None:
    """Write, check and show configuration files, for `strand replay --config` and strand.Config."""


@config.command("init")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--yaml", "as_yaml", is_flag=True, help="Write strand.yaml when no FILE is given.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
def init(file: Path | None, as_yaml: bool, as_json: bool) -> None:
    """Write all options with their defaults and meanings to FILE.

    FILE is strand.toml by default; its ending selects TOML or YAML. It is an error if FILE already exists.
    """
    path = file or Path("strand.yaml" if as_yaml else "strand.toml")
    form = format_of(path)
    if as_yaml and form != "yaml":
        raise click.UsageError(f"--yaml: {path} ends in {path.suffix}: leave out one of the two")
    try:
        with path.open("x", encoding="utf-8") as out:
            out.write(template(form))
    except FileExistsError:
        raise ConfigurationError(f"{path}: already exists: give another name, or remove it") from None
    show(as_json, {"file": str(path), "format": form}, lambda console: console.print(f"{escape(str(path))} written"))


@config.command("check")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
def check(file: Path, as_json: bool) -> None:
    """Check FILE, and list all problems. The exit status is 0, or 2 if there is a problem."""
    _, problems = check_file(file)
    if as_json:
        listed = [{"field": problem.field, "problem": problem.reason} for problem in problems]
        click.echo(json.dumps({"file": str(file), "problems": listed}))
    for problem in () if as_json else problems:
        click.echo(printable(f"strand: {file}: {problem}"), err=True)
    if problems:
        sys.exit(_WRONG)
    if not as_json:
        click.echo(printable(f"{file}: no problems"))
        if has_monitoring(file):
            click.echo(printable(f"{file}: {NOT_EVALUATED}"))


@config.command("show")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
def show_(file: Path, as_json: bool) -> None:
    """Show the options that FILE gives: each key, its value, and where the value comes from."""
    entries = Config.load(file).entries()
    plain: dict[str, Any] = {"file": str(file), "entries": [asdict(entry) for entry in entries]}

    def human(console: Console) -> None:
        origins = Column("from", overflow="fold")
        table = Table(Column("key", no_wrap=True), Column("value", overflow="fold"), origins)
        for entry in entries:
            value = "not set" if entry.value is None else json.dumps(entry.value, ensure_ascii=False)
            table.add_row(*map(escape, (entry.key, value, entry.origin)))
        console.print(table)

    show(as_json, plain, human)
