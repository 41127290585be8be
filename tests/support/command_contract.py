"""The command as its users' scripts see it: options with defaults and units, the shape of JSON, and refused values.

.venv/bin/python tests/support/command_contract.py           shows what differs from tests/contract/commands.json
.venv/bin/python tests/support/command_contract.py --write   writes it, for a review with git diff
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from command_here import run_here
from small_files import FILES

PATH = Path(__file__).resolve().parents[1] / "contract" / "commands.json"
UNITS = ("ns", "us", "ms", "s", "seconds", "minutes", "bytes", "MiB", "GiB")
HANDLER = """
import strand


@strand.batch_handler(state=[("n", "i8"), ("sum", "i8")], params=[("least", "i8")], outputs={"seen": [("n", "i8")]})
def large(symbol, ticks, row, ctx):
    row["n"] += (ticks["size"] >= ctx.params["least"]).sum()
    row["sum"] += ticks["size"].sum()
    ctx.emit((row["n"],), at=0)
"""


# ---- help


def commands() -> list[tuple[str, ...]]:
    """All commands, by their help, from the top down."""
    found: list[tuple[str, ...]] = [()]
    for path in found:
        text = run_here(*path, "--help").stdout
        section = re.search(r"^Commands:\n((?:  .*\n?)+)", text, re.MULTILINE)
        names = re.findall(r"^  (\w[\w-]*)(?:  |$)", section[1], re.MULTILINE) if section else []
        found += [(*path, name) for name in names]
    return found


def options_of(path: Sequence[str]) -> dict[str, dict[str, Any]]:
    """A command's options by their longest name: all names, the kind of value, default, range and units."""
    found: dict[str, dict[str, Any]] = {}
    for names, metavar, text in _entries(run_here(*path, "--help").stdout):
        default, bound = re.search(r"\[default: ([^\];]*)", text), re.search(r"[\[ ]([\d.<=]*x[<>][^\];]*)", text)
        words = set(re.findall(r"(?<!['\w])[A-Za-z]+(?!\w)", re.sub(r"\[[^\]]*\]", "", text)))
        words |= set(bound[1].split()) if bound else set()
        entry: dict[str, Any] = {"names": " ".join(names)}
        entry |= {"value": metavar} if metavar else {}
        entry |= {"default": default[1] if re.fullmatch(r"\S+", default[1]) else "in words"} if default else {}
        entry |= {"range": bound[1]} if bound else {}
        entry |= {"required": True} if "[required]" in text else {}
        entry |= {"repeatable": True} if "Repeatable" in text else {}
        units = [unit for unit in UNITS if unit in words]
        entry |= {"units": " ".join(units)} if units and metavar else {}
        found[max(names, key=len)] = entry
    return found


def _entries(text: str) -> list[tuple[list[str], str, str]]:
    """(names, kind of value, text) of each option of a help text."""
    entries: list[list[str]] = []
    begun = re.search(r"^(?!Usage)\w.*:$", text, re.MULTILINE)  # the first section is behind what the command does
    for line in text[begun.start() :].splitlines() if begun else ():
        if re.match(r"  -", line):
            entries.append([line.strip()])
        elif entries and re.match(r"   +\S", line):
            entries[-1].append(line.strip())
        elif line and not line.startswith(" "):
            entries.append(["a section"])
    found = []
    for first, *more in entries:
        if not first.startswith("-"):
            continue
        head, _, said = first.partition("  ")
        names = re.findall(r"(?<![\w-])(--?[A-Za-z][\w-]*)", head)
        metavar = re.sub(r"(?<![\w-])--?[A-Za-z][\w-]*", "", head).replace(",", " ").replace("/", " ").strip()
        found.append((names, metavar, " ".join([said.strip(), *more])))
    return found


# ---- JSON


def made_here(folder: Path) -> None:
    """The files that the commands of ``runs`` take, in the current folder."""
    for file in FILES:
        if file.name in ("itch", "parquet"):
            file.write(folder)
    (folder / "large_orders.py").write_text(HANDLER)


RUNS: Mapping[str, Sequence[str]] = {
    "info": ("info", "20200130.itch50"),
    "replay": ("replay", "20200130.itch50", "--handler", "book", "--workers", "1"),
    "replay by days": ("replay", "20200130.itch50", "--handler", "vwap", "--workers", "2", "--per-day"),
    "replay alone": ("replay", "20200130.parquet", "--handler", "count", "--workers", "0"),
    "replay to files": ("replay", "20200130.itch50", "--handler", "bars", "--set", "every=1s", "--workers", "1",
                        "--out", "bars=bars.csv", "--out", "rows.csv", "--fingerprint-every", "50",
                        "--fingerprints", "a.fp"),
    "replay again": ("replay", "20200130.itch50", "--handler", "bars", "--set", "every=2s", "--workers", "0",
                     "--fingerprint-every", "50", "--fingerprints", "b.fp"),
    "diff": ("diff", "a.fp", "b.fp"),
    "convert": ("convert", "20200130.itch50", "day.npz"),
    "gen": ("gen", "itch", "--symbols", "5", "--messages", "300", "--seed", "1", "--out", "made.itch50"),
    "handlers": ("handlers",),
    "handlers bars": ("handlers", "bars"),
    "sweep": ("sweep", "20200130.itch50", "--handler", "large_orders:large", "--each", "least=10,500", "--out", "swept",
              "--workers", "1"),
    "runs list": ("runs", "list", "swept"),
    "runs show": ("runs", "show", "swept"),
    "config init": ("config", "init"),
    "config check": ("config", "check", "strand.toml"),
    "config show": ("config", "show", "strand.toml"),
    "include": ("include",),
}  # fmt: skip
#: Statuses that are not 0.
STATUS = {"diff": 1}


def shape(value: Any) -> Any:
    """Keys and types; a list has the shape of its elements together, and null says nothing."""
    if isinstance(value, dict):
        return {key: shape(each) for key, each in value.items()}
    if isinstance(value, list):
        whole: Any = None
        for each in value:
            whole = together(whole, shape(each))
        return [whole]
    return {bool: "bool", int: "number", float: "number", str: "text", type(None): None}[type(value)]


def together(one: Any, other: Any) -> Any:
    """A shape that both have."""
    if one is None or other is None:
        return other if one is None else one
    if isinstance(one, dict) and isinstance(other, dict):
        return {key: together(one.get(key), other.get(key)) for key in {**one, **other}}
    if isinstance(one, list) and isinstance(other, list):
        return [together(one[0], other[0])]
    return one if one == other else "several"


def fits(now: Any, before: Any) -> bool:
    """Tells whether a shape has all that the earlier shape has, where both have content."""
    if now is None or before is None or before == "several":
        return True
    if isinstance(before, dict):
        return isinstance(now, dict) and now.keys() >= before.keys() and all(fits(now[k], before[k]) for k in before)
    if isinstance(before, list):
        return isinstance(now, list) and fits(now[0], before[0])
    return bool(now == before)


def as_known(now: Any, before: Mapping[str, Any]) -> Any:
    """An option as it is now, but for words of its choice that the contract does not know yet: they are additions."""
    words, known = (str((option or {}).get("value", "")).strip("[]").split("|") for option in (now, before))
    return now | {"value": before["value"]} if len(known) > 1 and set(words) >= set(known) else now


def shapes(folder: Path) -> dict[str, Any]:
    """The shape of what each of RUNS prints, run one after the other in a folder."""
    made_here(folder)
    found = {}
    for name, args in RUNS.items():
        ran = run_here(*args, "--json", cwd=folder)
        assert ran.returncode == STATUS.get(name, 0), (name, ran.returncode, ran.stderr)
        found[name] = shape(json.loads(ran.stdout))
    return found


# ---- refused values

#: What a command needs beside the option that is tried.
NEEDED: Mapping[tuple[str, ...], Sequence[str]] = {
    ("replay",): ("20200130.itch50",),
    ("info",): ("20200130.itch50",),
    ("convert",): ("20200130.itch50", "to.npz"),
    ("gen", "itch"): ("--out", "to.itch50", "--symbols", "3", "--messages", "50"),
    ("handlers",): ("bars",),
    ("sweep",): ("20200130.itch50", "--handler", "large_orders:large", "--each", "least=1", "--out", "to"),
}
TEXT = "no such"


def refusals(folder: Path) -> dict[str, dict[str, str]]:
    """Exit statuses of bad values, by command and option, each with whether the error names the option."""
    found = {}
    for path in NEEDED:
        own = folder / " ".join(path)
        own.mkdir()
        made_here(own)
        found[" ".join(path)] = refused(path, own)
    return found


def refused(path: Sequence[str], folder: Path) -> dict[str, str]:
    found = {}
    for option, entry in options_of(path).items():
        if "value" not in entry or option in ("--speed", "--timeout-s"):
            continue
        ran = run_here(*path, *NEEDED[tuple(path)], option, TEXT, cwd=folder)
        named = option in ran.stderr or option.lstrip("-").replace("-", "_") in ran.stderr or TEXT in ran.stderr
        found[option] = f"status {ran.returncode}{' names it' if named and ran.returncode else ''}"
    return found


def computed() -> dict[str, Any]:
    os.environ["COLUMNS"] = "100"
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        return {
            "options": {" ".join(path): options_of(path) for path in commands()},
            "json": shapes(Path(one)),
            "refused": refusals(Path(other)),
        }


def main() -> None:
    old, found = json.loads(PATH.read_text("utf-8")) if PATH.exists() else {}, computed()
    for part in sorted({*old, *found}):
        for name in sorted({*old.get(part, {}), *found.get(part, {})}):
            before, now = old.get(part, {}).get(name), found.get(part, {}).get(name)
            if before != now:
                sys.stdout.write(f"{part}: {name}: {before} -> {now}\n")
    if "--write" in sys.argv:
        PATH.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", "utf-8")


if __name__ == "__main__":
    main()
