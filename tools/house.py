"""Figures that show how the code is cut: sizes, importers, reaches into privates, classes, and what one replay runs.

    python tools/house.py                    of this checkout
    python tools/house.py --root CHECKOUT    of another one; a replay runs there with its .venv
    python tools/house.py --room             lines by room too
    python tools/house.py --check            fails where a gate is passed: part of `make lint`

Lines are those of .py, .c, .h and .cpp files as the formatters lay them out. The product is csrc, strand, feeds,
bench, tools and setup.py. An importer of a module is another module of strand or feeds that imports it, or a name that
it defines. A reach is an attribute with one leading underscore of an object other than ``self`` and ``cls``, where no
module of the same package defines that attribute. A public entry point is what docs/reference documents, or a method of
it: parameters are counted of other functions. A C file is a source and its header together. A replay is one of five
batches of a feed in Python: set-up ends where the feed is asked for its second batch, a batch is what runs between the
fourth and the fifth, and the end begins behind the last.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import subprocess
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

PRODUCT: Final = ("csrc", "strand", "feeds", "bench", "tools", "setup.py")
ENDINGS: Final = (".py", ".c", ".h", ".cpp")
#: Of a package, and of a file.
MOST_FILES: Final = 20
MOST_LINES: Final = 800
QUESTIONS: Final = re.compile(r"(What|Which|How|Where|When)\b")
#: Runs in the checkout's own interpreter.
REPLAY: Final = """
import json, sys, threading
from pathlib import Path
import numpy as np
import strand
from strand.testing import feed

root = str(Path(strand.__file__).parent.parent.resolve())
places = (f"{root}/strand/", f"{root}/feeds/")
ticks = np.zeros(50, strand.TICK)
ticks["ts_recv"] = ticks["ts_event"] = np.arange(1, 51)
source = feed(ticks, ["X"], batches=5)
seen, phase = {"set-up": set(), "batch": set(), "other": set(), "end": set()}, "set-up"

def note(frame, event, _):
    if event == "call" and frame.f_code.co_filename.startswith(places):
        seen[phase].add(frame.f_code.co_filename)

class Phases(type(source)):
    def batches(self):
        global phase
        for n, batch in enumerate(super().batches()):
            phase = "batch" if n == 3 else "set-up" if n == 0 else "other"
            yield batch
        phase = "end"

source.__class__ = Phases
strand.replay(feed(ticks, ["X"], batches=5), "count", workers=1, cores=None)  # what is imported lazily is there now
threading.setprofile(note)
sys.setprofile(note)
strand.replay(source, "count", workers=1, cores=None)
sys.setprofile(None)
print(json.dumps({name: len(files) for name, files in seen.items()}))
"""


def files(root: Path, *folders: str) -> list[Path]:
    """Source files of the folders, or the files themselves that are named."""
    found: list[Path] = []
    for name in folders:
        path = root / name
        found += sorted(each for each in path.rglob("*") if each.suffix in ENDINGS) if path.is_dir() else [path]
    return [each for each in found if "build" not in each.relative_to(root).parts]


def lines(paths: list[Path]) -> int:
    """The lines of all files together."""
    return sum(len(path.read_text("utf-8").splitlines()) for path in paths)


def modules(root: Path) -> dict[str, ast.Module]:
    """By name: every module of strand and feeds."""
    found = {}
    for package, folder in (("strand", root / "strand"), ("strand.feeds", root / "feeds")):
        for path in sorted(folder.rglob("*.py")):
            parts = [package, *path.relative_to(folder).with_suffix("").parts]
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = ast.parse(path.read_text("utf-8"))
    return found


def imported(tree: ast.Module, names: dict[str, ast.Module]) -> Iterator[str]:
    """Modules that a module imports, by any form."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (
                inner if (inner := f"{node.module}.{each.name}") in names else node.module for each in node.names
            )
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in names:
            yield node.value


def importers(trees: dict[str, ast.Module]) -> dict[str, set[str]]:
    """By module: those that import it."""
    found: dict[str, set[str]] = {name: set() for name in trees}
    for name, tree in trees.items():
        for other in imported(tree, trees):
            if other in found and other != name:
                found[other].add(name)
    return found


def package_of(module: str, trees: dict[str, ast.Module]) -> str:
    """The package that a module lies in; a package is its own."""
    return module if any(other.startswith(f"{module}.") for other in trees) else module.rpartition(".")[0]


def defined_privates(tree: ast.Module) -> Iterator[str]:
    """Private attributes that a module's classes and functions set, define or declare."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.AnnAssign | ast.Assign):
            targets = [node.target] if isinstance(node, ast.AnnAssign) else node.targets
            yield from (each.id for each in targets if isinstance(each, ast.Name))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("_"):
            yield node.value  # of __slots__


def reaches(trees: dict[str, ast.Module]) -> list[str]:
    """Uses of private attributes of other objects outside the package that defines them, as ``module:line text``."""
    own: dict[str, set[str]] = defaultdict(set)
    for name, tree in trees.items():
        own[package_of(name, trees)].update(defined_privates(tree))
    ours = set().union(*own.values())
    found = []
    for name, tree in trees.items():
        here = own[package_of(name, trees)]
        for node in ast.walk(tree):
            if not isinstance(node, ast.Attribute) or not re.match(r"_[^_]", node.attr):
                continue
            of_itself = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            if not of_itself and node.attr in ours and node.attr not in here:
                found.append(f"{name}:{node.lineno} {ast.unparse(node)}")
    return found


def documented(root: Path) -> set[str]:
    """Names of the functions and classes that docs/reference documents: the public entry points."""
    pages = (page.read_text("utf-8") for page in (root / "docs/reference").glob("*.md"))
    return {
        path.rpartition(".")[2] for page in pages for path in re.findall(r"auto(?:function|class):: ([\w.]+)", page)
    }


def private_functions(tree: ast.Module, public: set[str]) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Functions of a module that are no public entry points: neither one of them nor a method of one."""
    waits: list[ast.AST] = [tree]
    while waits:
        for node in ast.iter_child_nodes(waits.pop()):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) or node.name not in public:
                waits.append(node)
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield node


def depth(name: str, bases: dict[str, list[str]], seen: tuple[str, ...] = ()) -> int:
    """Number of the project's classes above a class; exceptions are left out."""
    above = [base for base in bases.get(name, []) if base in bases and base not in seen]
    return 1 + max((depth(base, bases, (*seen, name)) for base in above), default=-1) if above else 0


def is_typed_dict(name: str, bases: dict[str, list[str]]) -> bool:
    """Tells whether a class is a TypedDict: a type whose bases lend it their keys, and a plain dict at run time."""
    return name == "TypedDict" or any(is_typed_dict(base, bases) for base in bases.get(name, []) if base != name)


def shapes(trees: dict[str, ast.Module], public: set[str]) -> dict[str, int]:
    """Counts of large classes, long parameter lists, deep inheritance and docstrings that begin with a question.
    ``public``: the public entry points, whose parameters are not counted."""
    bases: dict[str, list[str]] = {}
    counts: Counter[str] = Counter()
    for tree in trees.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                named = [ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases]
                if not node.name.endswith(("Error", "Warning")):
                    bases.setdefault(node.name, named)
                methods = [each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
                counts["classes over 15 methods"] += len(methods) > 15
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
                text = ast.get_docstring(node)
                counts["docstrings"] += text is not None
                counts["docstrings that begin with a question"] += bool(text and QUESTIONS.match(text))
        for node in private_functions(tree, public):
            given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            n = len(given) - (bool(given) and given[0].arg in ("self", "cls"))
            counts["functions over 8 parameters"] += n > 8
    types = {name for name in bases if is_typed_dict(name, bases)}
    counts["depth of inheritance"] = max(depth(name, bases) for name in bases if name not in types)
    counts["depth of types of options"] = max((depth(name, bases) for name in types), default=0)
    return dict(counts)


def crowded(root: Path) -> dict[str, int]:
    """Packages of strand, feeds and csrc, lab aside, with more than ``MOST_FILES`` files, and their numbers."""
    stems = {path.relative_to(root).with_suffix("") for path in files(root, "strand", "feeds", "csrc")}
    found = Counter(str(stem.parent) for stem in stems if not str(stem).startswith("csrc/lab/"))
    return {package: n for package, n in found.items() if n > MOST_FILES}


def long(root: Path) -> dict[str, int]:
    """Files of more than ``MOST_LINES`` lines, and how many they have."""
    found = {str(path.relative_to(root)): lines([path]) for path in files(root, "strand", "feeds", "csrc")}
    return {name: n for name, n in found.items() if n > MOST_LINES}


def rooms(root: Path) -> dict[str, int]:
    """Lines by folder below csrc, strand and feeds; those of the files beside the folders under the name of all."""
    found: Counter[str] = Counter()
    for path in files(root, "csrc", "strand", "feeds"):
        found["/".join(path.relative_to(root).parts[:-1][:2])] += lines([path])
    return dict(found)


def passed_gates(root: Path) -> Iterator[str]:
    """Each gate that the checkout passes, in words. ``tools/rooms.toml`` has the gates, and the lines that a room may
    have; a room's number that is greater than where the branch began has its reason behind it."""
    text = (root / "tools/rooms.toml").read_text("utf-8")
    gates, budget = (tomllib.loads(text)[name] for name in ("gates", "budget"))
    trees = modules(root)
    for package, n in crowded(root).items():
        if n > (most := gates["files"].get(package, MOST_FILES)):
            yield f"{package}: {n} files, and {most} may be"
    for name, n in long(root).items():
        yield f"{name}: {n} lines, and a file has {MOST_LINES} at most"
    one = sum(len(by) == 1 for by in importers(trees).values())
    if one > gates["one_importer"]:
        yield f"{one} modules have one importer, and {gates['one_importer']} may: put one into its importer"
    reached = reaches(trees)
    if len(reached) > gates["reaches"]:
        yield f"{len(reached)} reaches into privates, and {gates['reaches']} may be: {'; '.join(reached)}"
    began = began_with(root)
    for room, n in rooms(root).items():
        allowed = budget.get(room, 0)
        if n > allowed:
            yield f"{room}: {n} lines, and tools/rooms.toml allows {allowed}: make it smaller, or give the reason there"
        line = next((each for each in text.splitlines() if each.startswith(f'"{room}" = ')), "")
        if allowed > began.get(room, allowed) and "#" not in line:
            yield f"{room}: its budget rose from {began[room]} to {allowed} without a reason behind it"


def began_with(root: Path) -> dict[str, int]:
    """The budget at the commit where the branch began; none where nobody knows it."""
    git = ["git", "-C", str(root)]
    base = subprocess.run([*git, "merge-base", "HEAD", "origin/main"], check=False, capture_output=True, text=True)
    there = f"{base.stdout.strip()}:tools/rooms.toml"
    shown = subprocess.run([*git, "show", there], check=False, capture_output=True, text=True)
    known = base.returncode == shown.returncode == 0
    found: dict[str, int] = tomllib.loads(shown.stdout).get("budget", {}) if known else {}
    return found


def figures(root: Path) -> dict[str, object]:
    """All figures of a checkout, by name; None: it has no .venv to run a replay with."""
    trees = modules(root)
    used = importers(trees)
    one = [name for name, by in used.items() if len(by) == 1]
    python = root / ".venv/bin/python"
    replay = {}
    if python.exists():
        said = subprocess.run([python, "-c", REPLAY], check=True, capture_output=True, text=True, cwd=root)
        replay = json.loads(said.stdout)
    shaped = shapes(trees, documented(root))
    return {
        "lines of the product": lines(files(root, *PRODUCT)),
        "lines of tests": lines(files(root, "tests")),
        "modules": len(trees),
        "files whose Python runs: set-up": replay.get("set-up"),
        "files whose Python runs: a batch": replay.get("batch"),
        "files whose Python runs: the end": replay.get("end"),
        "modules with one importer": len(one),
        "reaches into privates of another package": len(reaches(trees)),
        "modules that name a basket": sum("asket" in ast.unparse(tree) for tree in trees.values()),
        "packages over 20 files": len(crowded(root)),
        "files over 800 lines": len(long(root)),
        **dict(sorted(shaped.items())),
    }


def main() -> None:
    """Prints the figures, a line each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--room", action="store_true", help="lines by room too")
    parser.add_argument("--check", action="store_true", help="fails where a gate is passed")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if given.check:
        wrong = list(passed_gates(given.root))
        for each in wrong:
            print(each, file=sys.stderr)
        raise SystemExit(bool(wrong))
    found = figures(given.root)
    if given.room:
        found |= {f"lines of {name}": n for name, n in sorted(rooms(given.root).items())}
    if given.json:
        json.dump(found, sys.stdout, indent=1)
        return
    for name, value in found.items():
        print(f"{name:45} {value if value is not None else '-':>10}")


if __name__ == "__main__":
    main()
