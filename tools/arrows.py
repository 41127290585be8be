"""Check of the imports between files against the order of the rooms: part of `make lint`.

    python tools/arrows.py            names the arrows that go against the order or close a circle, and fails

tools/rooms.toml lists the rooms in their order, and the files of each. An arrow goes from a file to one that it uses.
It may only go to a room that is listed before its own, or stay within its room; within a room arrows make no circle.

In C a header and its source are one file. An arrow goes to a file whose header is included, and to one that defines a
symbol that the object needs. In Python every import makes an arrow, those in functions and under TYPE_CHECKING too. So
does every text that is the whole name of a module, wherever it stands: ``import_module`` may be given it, under any
name, directly or out of a table. A text in such a call that begins with the name of a package makes an arrow to the
package. So does the import of a name that a package has of one of its modules. That Python runs the ``__init__`` of
the packages that a module lies in makes none.
"""

from __future__ import annotations

import ast
import fnmatch
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeGuard

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ROOT / "tools/rooms.toml"
CSRC = ROOT / "csrc"
PACKAGES = {"strand": ROOT / "strand", "strand.feeds": ROOT / "feeds"}
_INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
_IMPORTS = ("import_module", "__import__")

Arrows = dict[str, set[str]]


def python_arrows() -> Arrows:
    """By module: those that it imports."""
    files: dict[str, Path] = {}
    for package, folder in PACKAGES.items():
        for file in folder.rglob("*.py"):
            parts = [package, *file.relative_to(folder).with_suffix("").parts]
            files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return {
        name: {other for imported in _imported(file, files) if (other := _module(imported, files)) not in (None, name)}
        for name, file in files.items()
    }


def _imported(file: Path, files: Mapping[str, Path]) -> Iterable[str]:
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level or node.module is None:
                raise SystemExit(f"{file}:{node.lineno}: give the whole name of what is imported")
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (each if each in files else node.module for each in inner)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(_IMPORTS):
            yield from (each.value for each in ast.walk(node) if _is_text(each))
        elif _is_text(node) and "." in node.value and node.value in files:
            yield node.value


def _is_text(node: ast.AST) -> TypeGuard[ast.Constant]:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _module(imported: str, files: Mapping[str, Path]) -> str | None:
    if imported in ("strand._core", "strand._lab", "strand._scheduled"):  # compiled
        return None
    while imported and imported not in files:
        imported = imported.rpartition(".")[0]
    return imported or None


def c_arrows() -> tuple[Arrows, list[Path]]:
    """By file of csrc, without its ending: those that it includes, or whose symbols it needs. And the sources that do
    not compile, whose includes alone are known."""
    files = sorted(file for file in CSRC.rglob("*") if file.suffix in (".c", ".h"))
    name_of = {file: str(file.relative_to(CSRC).with_suffix("")) for file in files}
    found: Arrows = {name: set() for name in name_of.values()}
    for file in files:
        for included in _INCLUDE.findall(file.read_text("utf-8")):
            other = next((at for at in (CSRC / included, file.parent / included) if at in name_of), None)
            if other is not None:  # a model checker's header lies with its checks
                found[name_of[file]].add(name_of[other])
    sources = [file for file in files if file.suffix == ".c"]
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(os.cpu_count()) as threads:
        objects = list(threads.map(lambda source: _symbols(source, Path(scratch)), sources))
    owner: dict[str, str] = {}
    compiled = {source: symbols for source, symbols in zip(sources, objects, strict=True) if symbols is not None}
    for source, (defined, _) in compiled.items():
        for symbol in defined:
            # The seeded scheduler, which comes last, has a clock of its own.
            owner.setdefault(symbol, name_of[source])
    for source, (_, needed) in compiled.items():
        found[name_of[source]] |= {owner[symbol] for symbol in needed if symbol in owner}
    arrows = {name: others - {name} for name, others in found.items()}
    return arrows, [source for source in sources if source not in compiled]


def _symbols(source: Path, scratch: Path) -> tuple[set[str], set[str]] | None:
    """Symbols that a source defines for others, and those that it needs. None where it does not compile."""
    made = scratch / f"{source.relative_to(CSRC)}.o".replace("/", "_")
    flags = ("-std=gnu11", "-O0", "-Werror=implicit-function-declaration", "-fPIC", f"-I{CSRC}")
    if source.parent.name == "seeded":
        flags += ("-DSD_MODEL_SCHEDULER",)
    if subprocess.run([os.environ.get("CC", "cc"), *flags, "-c", str(source), "-o", str(made)], check=False).returncode:
        return None
    listed = subprocess.run(
        ["nm", "--extern-only", "--format=posix", str(made)], check=True, capture_output=True, text=True
    )
    kinds = [line.split()[:2] for line in listed.stdout.splitlines()]
    return {name for name, kind in kinds if kind != "U"}, {name for name, kind in kinds if kind == "U"}


def placed(names: Iterable[str], rooms: Mapping[str, list[str]]) -> dict[str, int]:
    """The place of each file's room. A file belongs to the longest pattern that it matches."""
    patterns = [(pattern, place) for place, each in enumerate(rooms.values()) for pattern in each]
    found = {}
    for name in names:
        matching = [(len(pattern), place) for pattern, place in patterns if fnmatch.fnmatchcase(name, pattern)]
        if not matching:
            raise SystemExit(f"tools/rooms.toml: {name} is in no room")
        found[name] = max(matching)[1]
    return found


def wrong_arrows(arrows: Arrows, room: Mapping[str, int]) -> set[str]:
    """Arrows to a later room, and those of circles within one."""
    wrong = {f"{a} -> {b}" for a, others in arrows.items() for b in others if room[b] > room[a]}
    inner = {a: {b for b in others if room[b] == room[a]} for a, others in arrows.items()}
    circle = circles(inner)
    return wrong | {f"{a} -> {b}" for a, others in inner.items() for b in others if circle[a] == circle[b]}


def circles(arrows: Arrows) -> dict[str, int]:
    """The number of the circle that each file is in (Tarjan's strongly connected components)."""
    sys.setrecursionlimit(10_000)
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    circle: dict[str, int] = {}
    open_: list[str] = []

    def visit(a: str) -> None:
        index[a] = low[a] = len(index)
        open_.append(a)
        for b in sorted(arrows[a]):
            if b not in index:
                visit(b)
            if b not in circle:
                low[a] = min(low[a], low[b])
        if low[a] == index[a]:
            while True:
                b = open_.pop()
                circle[b] = index[a]
                if b == a:
                    break

    for a in sorted(arrows):
        if a not in index:
            visit(a)
    return circle


def main() -> None:
    """Names the wrong arrows, and the sources that do not compile. Fails where there is one of either."""
    rooms = tomllib.loads(ROOMS.read_text("utf-8"))
    in_c, broken = c_arrows()
    wrong: set[str] = set()
    for language, arrows in (("c", in_c), ("python", python_arrows())):
        wrong |= wrong_arrows(arrows, placed(arrows, rooms[language]))
    for source in broken:
        print(f"{source}: does not compile, so only its includes were looked at", file=sys.stderr)
    for arrow in sorted(wrong):
        print(f"{arrow}: goes against the order of tools/rooms.toml, or closes a circle", file=sys.stderr)
    if wrong or broken:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
