"""Examples on the pages of the documentation, and the way to run them: every block of code, and every command.

| block | what is done with it |
|---|---|
| ``python`` | runs; the blocks of a page share their names. ``print(...)  # said``: a line that is printed |
| ``text`` right behind ``python`` | what that block prints; a line ``...`` stands for any lines |
| ``sh`` | runs in bash; a plain call of the command needs none |
| ``console`` | each line after ``$`` runs so, and prints the lines behind it, if there are any; ``...`` as above |
| ``c`` | is written to the file that its first line names |
| ``toml`` whose first line is ``# NAME.toml`` | is written to that file |
| lines of four spaces that begin with ``strand`` | run, in one process |
| others | are only shown |

A command that waits for another process, or measures, is checked for its options and not run: ``NOT_RUN``.
"""

from __future__ import annotations

import contextlib
import io
import linecache
import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner
from shown_commands import check_command, words_of
from warm_python import run_warm

from strand.command.cli import cli

__all__ = ["NOT_RUN", "Block", "blocks_of", "differs", "not_run", "run_page"]

#: Commands that wait for another process, take minutes, or need code and files of the user's: other tests run them.
NOT_RUN = (
    "alerts",
    "bench",
    "dashboard",
    "describe",
    "http",
    "listen",
    "metrics",
    "policy",
    "runs",
    "serve",
    "stat",
    "sweep",
    "top",
)
#: Of a default day of a million messages there is enough in its beginning.
SHORTER = ["--messages", "20000"]

_COMMAND = re.compile(r"^    ((?:mkdir \S+ && )?strand .*)$")
_FENCE = re.compile(r"^```(\S*)$")


@dataclass(frozen=True)
class Block:
    """``language`` is that of the fence, or ``command`` for a line of its own that begins with ``strand``."""

    language: str
    text: str
    line: int  # of its first line in the page, from 1
    adjoins: bool = False  # nothing but empty lines lies between it and the block before


def blocks_of(page: Path) -> list[Block]:
    """The blocks of a page, in their order."""
    found: list[Block] = []
    inside: list[str] | None = None
    language, adjoins = "", False
    for number, line in enumerate(page.read_text("utf-8").splitlines(), 1):
        fence = _FENCE.match(line)
        if inside is not None:
            if line == "```":
                found.append(Block(language, "\n".join([*inside, ""]), number - len(inside), adjoins))
                inside, adjoins = None, True
            else:
                inside.append(line)
        elif fence:
            language, inside = fence[1], []
        elif command := _COMMAND.match(line):
            found.append(Block("command", command[1], number))
            adjoins = False
        elif line.strip():
            adjoins = False
    assert inside is None, f"{page}: a block has no end"
    return found


def differs(printed: str, shown: str) -> str | None:
    """Says which line of what is shown was not printed; None where all was. ``...`` stands for any lines."""
    lines, at, skipping = [line.rstrip() for line in printed.splitlines()], 0, False
    for line in (line.rstrip() for line in shown.splitlines()):
        if line.strip() == "...":
            skipping = True
            continue
        while skipping and at < len(lines) and lines[at] != line:
            at += 1
        if at >= len(lines) or lines[at] != line:
            return f"shown {line!r}, printed {lines[at] if at < len(lines) else 'no more'!r}"
        at, skipping = at + 1, False
    return None if skipping or not any(lines[at:]) else f"not shown: {lines[at]!r}"


def run_page(page: Path, names: dict[str, object]) -> None:
    """Runs the blocks in the current folder. Raises what they raise; AssertionError where they print something else.

    ``names``: what the blocks in Python find, and leave.
    """
    blocks = blocks_of(page)
    for number, block in enumerate(blocks):
        behind = blocks[number + 1] if number + 1 < len(blocks) else None
        where = f"{page.name}:{block.line}"
        if block.language == "python":
            printed = _run_python(block, f"{page.stem.replace('-', '_')}_{number}", names)
            for said in re.findall(r"print\(.*\)  # (.*)", block.text):
                assert said in printed.splitlines(), f"{where}: {said!r} is not in {printed!r}"
            assert "never printed" not in printed
            if behind is not None and behind.language == "text" and behind.adjoins:
                assert (wrong := differs(printed, behind.text)) is None, f"{where}: {wrong}"
        elif block.language == "console":
            for command, shown in _session(block.text):
                if not_run(command):
                    check_command(command)
                    continue
                printed = _run_line(command)
                assert not shown or (wrong := differs(printed, shown)) is None, f"{where}: {command}: {wrong}"
        elif block.language == "sh":
            _run_shell(block.text)
        elif block.language == "command":
            _run_command(block.text)
        elif block.language == "c":
            name = re.match(r"/\* (\S+\.c) ", block.text)
            assert name is not None, f"{where}: a block of C begins with the name of its file"
            Path(name[1]).write_text(block.text, "utf-8")
        elif block.language == "toml" and (name := re.match(r"# (\S+\.toml)$", block.text, re.MULTILINE)):
            Path(name[1]).write_text(block.text, "utf-8")


def not_run(line: str) -> bool:
    """Tells whether a line is a command that the tests check and do not run."""
    return line.startswith("strand ") and words_of(line)[0] in NOT_RUN


def _run_python(block: Block, name: str, names: dict[str, object]) -> str:
    """Runs a block and returns its output. The block has a file, for numba and inspect read the text."""
    source = Path(f"{name}.py").absolute()
    source.write_text(block.text, "utf-8")
    linecache.checkcache(str(source))
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(block.text, str(source), "exec", dont_inherit=True), names)
    return printed.getvalue()


def _session(text: str) -> Iterator[tuple[str, str]]:
    """The commands of a block, each with what it prints."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        yield command, shown


def _is_plain(line: str) -> bool:
    """Tells whether a line calls the command, and has nothing that a shell would act on."""
    return line.startswith("strand ") and not re.search(r"[|<>&;$`*?~\n\\\"]", re.sub(r"'[^']*'", "", line))


def _run_line(line: str) -> str:
    """Runs a line of bash and returns its standard output. Its standard error is shown where the line fails."""
    if _is_plain(line):
        done = run_warm("-m", *shlex.split(line, comments=True))
    else:
        words = ["bash", "-eu", "-o", "pipefail", "-c", line]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1) if "diff" in line else done.returncode == 0, (line, done.stdout, done.stderr)
    return done.stdout


def _run_shell(text: str) -> None:
    runs = []
    for line in text.splitlines():
        if not_run(line):
            check_command(line)
        else:
            runs.append(line)
    for part in runs if all(map(_is_plain, runs)) else ["\n".join(runs)]:
        _run_line(part)


def _run_command(line: str) -> None:
    check_command(line)
    if not_run(line):
        return
    words = words_of(line)
    if made := re.match(r"mkdir (\S+) &&", line):
        Path(made[1]).mkdir()
    # What a shell does with names, where nobody has quoted them.
    quoted = set(re.findall(r"'([^']*)'", line))
    parts = [
        [str(path) for path in sorted(Path().glob(word))] if "*" in word and word not in quoted else [word]
        for word in words
    ]
    words = [name for of_a_word in parts for name in of_a_word]
    if words[0] == "gen" and "--messages" not in words:
        words += SHORTER
    done = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert done.exit_code == 0, (shlex.join(words), done.output)
