"""Content of a function's code, and the objects that it refers to: the input of a digest of code."""

from __future__ import annotations

import dis
import functools
import importlib
import itertools
from collections.abc import Iterator
from importlib.util import resolve_name
from types import CodeType, ModuleType
from typing import Any, Final

#: Look up a name outside of the function. In a class that a function makes the last two do.
_GLOBAL: Final = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
_CELL: Final = ("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF")


def add_code(digest: Any, code: CodeType) -> None:
    """Adds code to a digest, without the places of its lines."""
    arguments = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags
    names = code.co_names, code.co_varnames, code.co_freevars
    digest.update(repr((code.co_code, code.co_exceptiontable, arguments, names, len(code.co_consts))).encode())
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            add_code(digest, constant)
        elif isinstance(constant, frozenset):
            # Its order is another one in each process.
            digest.update(repr(sorted(map(repr, constant))).encode())
        else:
            # The comma keeps 1 and 23 apart from 12 and 3.
            digest.update(f"{constant!r},".encode())


def referred_to(function: Any) -> Iterator[Any]:
    """The values of the names that a function's code looks up outside of itself, and through modules.

    The names of attributes are none: ``emit.bars`` does not mean the module's ``bars``, which may be the handler
    itself, and has another text in each process.
    """
    code: CodeType = function.__code__
    cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
    missing = object()
    for instruction, following in _with_attributes(code):
        name = instruction.argval
        if instruction.opname in _GLOBAL:
            value = function.__globals__.get(name, missing)
        else:
            value = _content_of(cells[name], missing) if name in cells else missing
        for attribute in following:
            if not isinstance(value, ModuleType):
                break
            value = getattr(value, attribute, missing)
        if value is not missing:
            yield value


def _content_of(cell: Any, missing: object) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # nothing has been put in yet
        return missing


def _with_attributes(code: CodeType) -> Iterator[tuple[dis.Instruction, list[str]]]:
    """Each look-up of a name, and the names of the attributes that are asked of what it finds."""
    instructions = _instructions(code)
    for i, instruction in enumerate(instructions):
        if instruction.opname in (*_GLOBAL, *_CELL):
            behind = itertools.takewhile(lambda of: of.opname in ("LOAD_ATTR", "LOAD_METHOD"), instructions[i + 1 :])
            yield instruction, [of.argval for of in behind]
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _with_attributes(constant)


@functools.lru_cache(maxsize=256)
def _instructions(code: CodeType) -> tuple[dis.Instruction, ...]:
    """Instructions, without those that only extend the argument of the next one. Each digest of the code asks anew."""
    return tuple(each for each in dis.get_instructions(code) if each.opname != "EXTENDED_ARG")


def imported_in(function: Any) -> Iterator[Any]:
    """Objects that the code of a function imports when it runs: modules, and names taken from them."""
    for name, wanted in _imports(function.__code__):
        try:
            module = importlib.import_module(resolve_name(name, function.__globals__.get("__package__") or ""))
        except ImportError:
            continue  # the function has to do without it, too
        yield from (getattr(module, each, None) for each in wanted) if wanted else (module,)


def _imports(code: CodeType) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The names of modules, with a dot for each level up, and of what is taken from them."""
    instructions = _instructions(code)
    for i, instruction in enumerate(instructions):
        if instruction.opname == "IMPORT_NAME":
            level, wanted = (before.argval for before in instructions[i - 2 : i])
            yield "." * level + instruction.argval, wanted or ()
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _imports(constant)
