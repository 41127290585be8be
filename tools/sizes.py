"""How long files and functions are, and how many parameters functions have: part of `make lint`.

    python tools/sizes.py            fails on a file that is too long, on a function over a bound without a reason,
                                     and on a reason whose function is gone or within the bounds
    python tools/sizes.py --show     all functions over a bound

A file outside tests has fewer than 400 lines. A function has at most 60, with its signature and docstring, and at
most 8 parameters; `self` and `cls` do not count. For a function over a bound tools/sizes_allowed.toml gives the
reason, in a sentence of its own. A function in C begins and ends in column 0: clang-format sees to that.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ALLOWED = ROOT / "tools/sizes_allowed.toml"
FOLDERS = ("csrc", "strand", "feeds", "bench", "tools", "examples")
FILE_LINES, FUNCTION_LINES, PARAMETERS = 400, 60, 8
# Up to the body: the name, and what stands between its parentheses, which may hold some of their own.
_HEAD = re.compile(r"(?!typedef)[^=;{]*?\b(\w+)(\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))\s*\{")


@dataclass(frozen=True)
class Function:
    """A function as its file has it; a method's name begins with its class."""

    file: str
    name: str
    lines: int
    parameters: int

    @property
    def is_over(self) -> bool:
        return self.lines > FUNCTION_LINES or self.parameters > PARAMETERS


def sources(root: Path) -> list[Path]:
    """Every source file outside tests."""
    files = (file for folder in FOLDERS for file in (root / folder).rglob("*"))
    return sorted(file for file in files if file.suffix in (".c", ".h", ".py"))


def functions(file: str, text: str) -> Iterator[Function]:
    """Every function of a file that has a body."""
    return _in_python(file, ast.parse(text), "") if file.endswith(".py") else _in_c(file, text.splitlines())


def _in_python(file: str, scope: ast.AST, within: str) -> Iterator[Function]:
    for node in ast.iter_child_nodes(scope):
        name = within
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{within}{node.name}."
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            given = node.args
            names = [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
            names += [each.arg for each in (given.vararg, given.kwarg) if each is not None]
            parameters = len(names) - (names[:1] in (["self"], ["cls"]))
            yield Function(file, name[:-1], (node.end_lineno or 0) - node.lineno + 1, parameters)
        yield from _in_python(file, node, name)


def _in_c(file: str, lines: list[str]) -> Iterator[Function]:
    start = 0
    while start < len(lines):
        end, head = start, lines[start]
        if re.match(r"[A-Za-z_]", head):
            while not re.search(r"[{;]", head) and end + 1 < len(lines):
                end += 1
                head += " " + lines[end].strip()
            found = _HEAD.match(head)
            if found:
                while not lines[end].startswith("}") and not (end == start and head.endswith("}")):
                    end += 1
                yield Function(file, found[1], end - start + 1, _c_parameters(found[2][1:-1]))
        start = end + 1


def _c_parameters(text: str) -> int:
    while (flat := re.sub(r"\([^()]*\)", "", text)) != text:
        text = flat
    return 0 if text.strip() in ("", "void") else text.count(",") + 1


def too_long(root: Path) -> list[str]:
    """A line for each file that has too many."""
    counted = {_name(file, root): len(file.read_text("utf-8").splitlines()) for file in sources(root)}
    return [f"{file} has {n} lines: split it along meaning" for file, n in counted.items() if n >= FILE_LINES]


def disagreements(found: Iterable[Function], allowed: Mapping[str, Mapping[str, str]]) -> list[str]:
    """A line for each function that is over a bound without a reason, and for each reason that none needs."""
    over = {(each.file, each.name): each for each in found if each.is_over}
    reasons = {(file, name): reason for file, named in allowed.items() for name, reason in named.items()}
    return [
        *(
            f"{each.file}: {each.name} has {each.lines} lines and {each.parameters} parameters: split it, bundle what "
            "belongs together, or give the reason in tools/sizes_allowed.toml"
            for key, each in over.items()
            if not reasons.get(key, "").strip()
        ),
        *(
            f"{file}: {name} is gone or within the bounds: take it out of tools/sizes_allowed.toml"
            for file, name in reasons
            if (file, name) not in over
        ),
    ]


def _name(file: Path, root: Path) -> str:
    return file.relative_to(root).as_posix()


def main(how: str) -> None:
    """Holds files and functions against the bounds, or shows the functions that are over one."""
    found = [each for file in sources(ROOT) for each in functions(_name(file, ROOT), file.read_text("utf-8"))]
    if how == "--show":
        for each in filter(lambda each: each.is_over, found):
            print(f"{each.file}: {each.name}: {each.lines} lines, {each.parameters} parameters")
        return
    wrong = too_long(ROOT) + disagreements(found, tomllib.loads(ALLOWED.read_text("utf-8")))
    if wrong:
        raise SystemExit("\n".join(wrong))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
