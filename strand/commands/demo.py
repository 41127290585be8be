"""``strand demo``: the sample day that ships."""

from __future__ import annotations

import click

from strand.demo import run_demo

__all__ = ["demo"]


@click.command("demo")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def demo(as_json: bool) -> None:
    """Replay the sample that ships with strand, and compare with static routing."""
    run_demo(as_json)
