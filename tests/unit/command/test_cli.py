"""The command as a user meets it: what it prints, where, and with which status it ends."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from command_here import run_here

from strand.command.cli import cli, main
from strand.feeds.sample import sample_path

pytestmark = pytest.mark.python
SAMPLE = str(sample_path())


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["replay", "no-such-file"], "there is no such file"),
        (["replay", __file__], "what can be read"),
        (["replay", SAMPLE, "--cores", "9999"], "cannot be used"),
        (["replay", SAMPLE, "--cores", "x"], "not a list of cores"),
        (["replay", SAMPLE, "--cores", "3-1"], "'3-1' is not a list of cores"),
        (["gen", "itch", "--symbols", "5", "--messages", "10", "--out", "."], "it is a folder"),
        (["gen", "itch", "--symbols", "5", "--messages", "10", "--out", "/"], "it is a folder"),
        (["convert", SAMPLE, "--to", "npz", "."], "it is a folder"),
        (["replay", SAMPLE, "--strands", "many"], "not auto, per-symbol or a number"),
        (["replay", SAMPLE, "--handler", "nothing"], "not one of bars, bbo, book, count, depth, imbalance, spin, "),
        (["replay", SAMPLE, "--handler", "no_such_module:f"], "cannot import"),
        (["replay", SAMPLE, "--symbols", "NOSUCH"], "NOSUCH"),
        (["replay", SAMPLE, "--symbols", ","], "symbols: ',' names none"),
        (["info", SAMPLE, "--symbols", ""], "symbols: '' names none"),
        (["replay", SAMPLE, "--date", "yesterday"], "yesterday"),
        (["replay", SAMPLE, "--workers", "-1"], "--workers"),
        (["replay", SAMPLE, "--out", "rows.txt"], "must end in one of"),
        (["replay", SAMPLE, "--out", "/no/such/folder/rows.npy"], "no folder"),
        (["info", "/"], "directory"),
        (["gen", "itch", "--skew", "wild", "--out", "x"], "skew"),
        (["gen", "itch", "--symbols", "70000", "--out", "x"], "65,535"),
        (["nonsense"], "nonsense"),
    ],
)
def test_bad_input_is_one_clear_error_and_status_2(
    args: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    # In this process: one of its own would be most of the time. What is not caught would come through.
    monkeypatch.setattr(sys, "argv", ["strand", *args])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert words in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


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
    assert [c.name for c in found if not any("--json" in parameter.opts for parameter in c.params)] == []


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
