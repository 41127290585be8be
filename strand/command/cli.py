"""The command ``strand``: its commands, each in a module that is imported when it is called."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from typing import Final

import click

from strand.command.ending import run_to_its_end
from strand.errors import DISTRIBUTION
from strand.machine import get_include

#: The module of each command, which has it under the command's name, and its line in the list of commands.
COMMANDS: Final = {
    "alerts": ("strand.command.dispatchers", "Watch a run by rules, and write the rules for Prometheus."),
    "bench": ("strand.command.bench", "Compare strand with one core and with static routing."),
    "cat": ("strand.command.contents", "Show the ticks of files: as a table, CSV, JSON lines or Arrow."),
    "config": ("strand.command.dispatchers", "Write, check and show configuration files."),
    "convert": ("strand.command.files", "Write ticks as Parquet, Arrow, numpy, ITCH 5.0 or DBN."),
    "dashboard": ("strand.command.live", "Serve a live page of a running process, or of a paced replay."),
    "demo": ("strand.command.bench", "Replay the sample file, and compare with static routing."),
    "describe": ("strand.command.dispatchers", "Show what was chosen for a run of another process."),
    "diff": ("strand.command.files", "Find the first symbol and sequence at which two runs differ."),
    "gen": ("strand.command.files", "Generate files of synthetic markets that behave like real ones."),
    "handlers": ("strand.command.files", "List the built-in handlers and their options."),
    "http": ("strand.command.live", "Serve an application whose requests are tasks."),
    "include": ("strand.command.cli", "Print the folder of the C headers."),
    "info": ("strand.command.contents", "Show what files contain: format, symbols, times, skew."),
    "listen": ("strand.command.live", "Run a handler on a live feed."),
    "metrics": ("strand.command.dispatchers", "Print or serve the metrics of a running process for Prometheus."),
    "policy": ("strand.command.policy", "Plan workers and queues for a load."),
    "replay": ("strand.command.replay", "Replay recorded files through a handler on all cores."),
    "runs": ("strand.command.sweep", "Show and compare the results of sweeps."),
    "serve": ("strand.command.live", "Send a recorded file as a live feed."),
    "stat": ("strand.command.dispatchers", "Show a running dispatcher of another process."),
    "sweep": ("strand.command.sweep", "Run many sets of parameters over many files."),
    "top": ("strand.command.dispatchers", "Show a running process in the terminal, once a second."),
}


class _LazyGroup(click.Group):
    """A group that imports a command only when it is called: numpy and the core take most of the time of a start."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context | None, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = getattr(import_module(COMMANDS[cmd_name][0]), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


_SETTINGS: Final = {"help_option_names": ["-h", "--help"], "max_content_width": 110, "show_default": True}


@click.group(cls=_LazyGroup, context_settings=_SETTINGS)
@click.version_option(package_name=DISTRIBUTION, prog_name="strand")
def cli() -> None:
    """Run market-data ticks through per-symbol handlers on all cores, in order."""


def main() -> None:
    """The command as a process of its own; ``strand.command.ending`` says how it ends."""
    # The command is imported here, where an interrupt ends the process at once, and not in the midst of its run.
    cli.get_command(None, next((word for word in sys.argv[1:] if not word.startswith("-")), ""))
    run_to_its_end(lambda: cli.main(standalone_mode=False))


@click.command("include")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def include(as_json: bool) -> None:
    """Print the folder of the C headers: cc -I"$(strand include)" -shared -fPIC ..."""
    click.echo(json.dumps({"include": get_include()}) if as_json else get_include())
