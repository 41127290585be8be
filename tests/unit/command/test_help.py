"""Help of every command: options, sections and examples, in text and as data."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner
from command_here import run_here

import strand
from strand import get_include
from strand.command import bench
from strand.command.cli import COMMANDS, cli, main
from strand.command.parameters import CoreList, SectionedCommand, progress
from strand.handlers import BUILTIN
from strand.policies.policy import POLICIES
from strand.ticks import zeros

pytestmark = pytest.mark.python


def test_every_command_has_json() -> None:
    def leaves(command: click.Command) -> Iterator[click.Command]:
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                each = command.get_command(context, name)
                assert each is not None
                yield from leaves(each)
        else:
            yield command

    found = list(leaves(cli))
    assert len(found) > 10
    # A file of rules is JSON, metrics have a format of their own, and screens have none.
    without = [c.name for c in found if not any("--json" in parameter.opts for parameter in c.params)]
    assert sorted(map(str, without)) == ["dashboard", "export", "metrics", "top"]


def test_names_with_brackets_are_shown_as_they_are(tmp_path: Path) -> None:
    folder = tmp_path / "[" / "x]"  # what rich would take for the end of a style
    folder.mkdir(parents=True)
    day = folder / "20260105.itch50"
    for args, words in (
        (["gen", "itch", "--symbols", "5", "--messages", "500", "--out", str(day)], str(day)),
        (["replay", str(day), "--handler", "count", "--out", str(folder / "rows.csv")], "rows written to"),
        (["info", str(day), "--symbols", " AAAAA , AAAAB"], "itch50"),
        (["convert", str(day), str(folder / "day.npz")], str(folder / "day.npz")),
        (["serve", str(day), "--line", "127.0.0.1:9", "--speed", "0"], "messages in"),
    ):
        done = run_here(*args)
        assert done.returncode == 0, done.stderr
        assert "".join(words.split()) in "".join(done.stdout.split())
        assert "[/x]" in "".join(done.stdout.split())


# ---- What the shell completes, and what it prints for that


PAGE = Path(__file__).resolve().parents[3] / "docs/command.md"
STRAND = Path(sys.executable).parent / "strand"


def completed(line: str) -> list[str]:
    """Completions of the last word of a command line."""
    *words, incomplete = line.split(" ")
    items = ShellComplete(cli, {}, "strand", "_STRAND_COMPLETE").get_completions(words, incomplete)
    return ["a file" if item.type == "file" else item.value for item in items]


def test_commands_options_and_choices_are_completed() -> None:
    assert completed("") == sorted(COMMANDS)
    assert completed("re") == ["replay"]
    assert completed("replay --han") == ["--handler"]
    assert completed("replay --policy a") == ["aging"]
    assert completed("gen l") == ["lobster"]


def test_handlers_are_completed_by_name() -> None:
    assert completed("replay day.itch50 --handler ") == sorted(BUILTIN)
    assert completed("listen --handler b") == ["bars", "bbo", "book"]
    assert completed("handlers vw") == ["vwap"]


def test_options_of_the_handler_that_the_line_names_are_completed() -> None:
    assert completed("replay --handler bars --set ev") == ["every="]
    assert completed("listen --handler volatility --set pr") == ["price="]
    assert completed("replay --handler mymodule:mine --set e") == []


@pytest.mark.parametrize(
    "line",
    [
        "replay day", "info day", "convert day", "gen check day", "policy plan --from day", "serve day", "diff a",
        "diff a b --source day", "replay day --out rows", "replay day --config str", "replay day --save st",
        "replay day --fingerprints a", "listen --record to", "gen itch --out day",
    ],
)  # fmt: skip
def test_names_of_files_are_left_to_the_shell(line: str) -> None:
    assert completed(line) == ["a file"]


def test_a_file_behind_the_name_of_an_output_is_not_completed() -> None:
    assert completed("replay day --out bars=ba") == []


def test_the_lines_of_the_page_print_what_each_shell_reads() -> None:
    lines = re.findall(r"_STRAND_COMPLETE=(\w+) strand", PAGE.read_text("utf-8"))
    assert lines == ["bash_source", "zsh_source", "fish_source"]
    for shell in ("bash_source", "zsh_source"):
        environment = os.environ | {"_STRAND_COMPLETE": shell}
        done = subprocess.run([STRAND], env=environment, capture_output=True, text=True, timeout=100, check=False)
        if "Bash" in done.stderr:
            continue  # an older bash than completion needs
        assert (done.returncode, done.stderr) == (0, "")
        assert "_STRAND_COMPLETE" in done.stdout


def test_the_command_answers_a_shell() -> None:
    environment = os.environ | {
        "_STRAND_COMPLETE": "bash_complete",
        "COMP_WORDS": "strand handlers b",
        "COMP_CWORD": "2",
    }
    done = subprocess.run([STRAND], env=environment, capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stdout) == (0, "plain,bars\nplain,bbo\nplain,book\n"), done.stderr


def test_every_argument_that_names_a_file_is_completed() -> None:
    """So that a new command does not forget it."""
    bare = []
    commands: list[tuple[str, click.Command]] = [("strand", cli)]
    while commands:
        name, command = commands.pop()
        if isinstance(command, click.Group):
            context = click.Context(command)
            found = [(f"{name} {one}", command.get_command(context, one)) for one in command.list_commands(context)]
            commands += [(path, one) for path, one in found if one is not None]
            continue
        for parameter in command.params:
            file = "FILE" in (getattr(parameter, "metavar", None) or "") or parameter.name in ("file", "files", "out")
            own = parameter._custom_shell_complete is not None
            if file and not own and not isinstance(parameter.type, (click.Path, click.File)):
                bare.append(f"{name} {parameter.name}")
    assert bare == []


# ---- Values that commands take, and what they show


@pytest.fixture
def six_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(6)))


@pytest.mark.parametrize(("text", "cores"), [("0", [0]), ("0,2-5", [0, 2, 3, 4, 5]), ("5,1", [5, 1])])
def test_cores_are_numbers_and_spans(six_cores: None, text: str, cores: list[int]) -> None:
    assert CoreList().convert(text, None, None) == cores
    assert CoreList().convert(cores, None, None) == cores


@pytest.mark.parametrize("text", ["", "a", "3-1", "1-", "-1", "0,,1", "6", "0-6"])
def test_what_is_no_list_of_cores_is_refused(six_cores: None, text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"is not a list of cores|cannot be used"):
        CoreList().convert(text, None, None)


def test_where_nobody_watches_progress_is_silent_and_its_check_is_called(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[Any] = []
    with progress("reading", 10, quiet=False, check=seen.append) as advance:
        with strand.feeds.open(zeros(1)) as feed:
            advance.opened(feed)
        advance(5)
    assert seen == [feed]
    assert capsys.readouterr() == ("", "")


# ---- strand handlers


def shown(*args: str) -> Any:
    return CliRunner().invoke(cli, ["handlers", *args])


def test_strand_handlers_lists_them_and_their_options(mine: str) -> None:
    found = json.loads(shown("--json").output)
    assert found.keys() == BUILTIN.keys()
    assert all(found.values())
    spread = json.loads(shown("spread", "--set", "every=1m", "--json").output)
    assert spread["options"]["fill"] == {
        "takes": "yes or no", "default": "no", "about": "emit also the stretches in which nothing came",
    }  # fmt: skip
    assert spread["outputs"]["spread"] == list(strand.handlers.SPREAD.names or ())
    bars = shown("bars").output
    assert "zero_sizes" in bars
    assert "output bars: start, end, open" in bars
    own = json.loads(shown(f"{mine}:every_nth", "--json").output)
    assert (own["about"], own["options"]["n"]["takes"], own["row"]) == (
        "Counts some of the ticks.",
        "a whole number",
        None,
    )
    assert "is not one of bars, bbo, book" in str(shown("nothing").exception)
    assert "--set: give the name of the handler too" in shown("--set", "every=1m").output


# ---- strand include


def test_the_folder_of_the_headers_is_printed_as_text_and_as_json() -> None:
    assert run_here("include").stdout.strip() == get_include()
    assert json.loads(run_here("include", "--json").stdout) == {"include": get_include()}


# ---- strand demo


def test_the_demo_shows_rows_and_every_way_of_routing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # The sample once instead of five times, and one round of each way: rates are not asked for here.
    monkeypatch.setattr(bench, "REPEATS", 1)
    monkeypatch.setattr(bench, "ROUNDS", 1)
    monkeypatch.setattr(sys, "argv", ["strand", "demo", "--json"])
    main()
    found = json.loads(capsys.readouterr().out)
    assert found["ticks"] == 200_500
    for row in found["comparison"]:
        assert set(row["mticks_s"]) == {"serial", "static", "static_lpt", "strand"}
        assert min(row["mticks_s"].values()) > 0
    assert set(found["built_in_ns"]) == {"count", "book", "vwap", "bars", "bbo"}
    assert min(found["built_in_ns"].values()) > 0


# ---- The help of commands with many options


#: Options that one list may hold.
MAX_FLAT = 12


def leaves(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for word in command.list_commands(context):
            found = command.get_command(context, word)
            assert found is not None
            yield from leaves(found, f"{name} {word}")
    else:
        yield name, command


USAGES = dict(leaves(cli, "strand"))
SECTIONED = {name: command for name, command in USAGES.items() if isinstance(command, SectionedCommand)}


def options_of(command: click.Command) -> list[str]:
    return [option.opts[-1] for option in command.params if isinstance(option, click.Option)]


def lines_of(command: click.Command) -> list[str]:
    context = click.Context(command, terminal_width=80, help_option_names=["-h", "--help"])
    return command.get_help(context).splitlines()


def test_a_command_with_many_options_has_sections() -> None:
    assert {name for name, command in USAGES.items() if len(options_of(command)) > MAX_FLAT} <= SECTIONED.keys()


@pytest.mark.parametrize("name", SECTIONED)
def test_every_option_is_in_a_section(name: str) -> None:
    command = SECTIONED[name]
    listed = {option for names in command.sections.values() for option in names}
    assert [option for option in options_of(command) if option not in listed] == []


@pytest.mark.parametrize("name", SECTIONED)
def test_the_help_has_every_option_once_and_help_itself_last(name: str) -> None:
    command = SECTIONED[name]
    shown = [found[0] for line in lines_of(command) if (found := re.findall(r"^  (?:-\w, )?(--[a-z-]+)", line))]
    assert sorted(shown) == sorted([*options_of(command), "--help"])
    assert shown[-1] == "--help"


def test_the_help_of_replay_begins_with_the_handler_and_ends_with_policies() -> None:
    heads = [line for line in lines_of(USAGES["strand replay"]) if line.endswith(":") and not line.startswith(" ")]
    assert heads[:3] == ["Handler:", "Output:", "Input:"]
    of_policies = [f"With --policy {name}:" for name in list(POLICIES)[1:]]
    assert heads[-len(POLICIES) - 1 :] == ["Scheduling policy:", *of_policies, "Other:"]


def test_texts_of_all_sections_begin_in_one_column() -> None:
    shown = [line for line in lines_of(USAGES["strand replay"]) if re.match(r"  -.*  ", line)]
    assert len(shown) > 50
    assert {len(line) - len(re.split(r"\s{2,}", line, maxsplit=2)[2]) for line in shown} == {34}


def test_no_line_is_wider_than_the_terminal() -> None:
    assert [line for command in USAGES.values() for line in lines_of(command) if len(line) > 80] == []
