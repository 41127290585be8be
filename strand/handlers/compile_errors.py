"""Errors of numba for a handler that it cannot compile, in the words of the handler's author."""

from __future__ import annotations

import builtins
import dis
import linecache
import re
from collections.abc import Callable, Iterator, Mapping
from types import CodeType
from typing import Any

import numpy as np

from strand.errors import ConfigurationError

__all__ = ["explain", "reason_of_compiled"]

_NOISE = re.compile(r"^(Failed in \w+ mode pipeline|During:|There are \d+ candidate|File \"|\s*<source elided>)")
_PLACE = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)|(?:at|from) (?P<path>\S+) \((?P<at>\d+)\)')

#: Complaints of numba (patterns), with the cure of each.
_HINTS = (
    (r"name '\w+' is not defined", "define it at the top of the module, before the handler"),
    (
        r"Untyped global name '(\w+)'.*<class 'function'>",
        "a function that a handler calls has to be compiled too: decorate {0} with @numba.njit",
    ),
    (
        r"Untyped global name '(\w+)'",
        "a handler sees its module's numbers, strings, arrays and compiled functions, as they are when it is compiled",
    ),
    (
        r"Cannot unify",
        "a variable has one type throughout: make both branches give the same one",
    ),
    (
        r"Cannot cast .* to |No conversion from",
        "the field has another type than what is stored into it: convert it, or declare the field differently",
    ),
    (
        r"imprecise type|list\(undefined\)",
        "an empty list or dict has no type; keep a fixed-size array in the row instead",
    ),
    (r"IMPORT_NAME", "import at the top of the module"),
    (
        r"context manager|opcode|bytecode|construct is not supported|not supported",
        "numba compiles numbers, arrays and loops; for the rest of Python use @strand.batch_handler",
    ),
    (
        r"_wake_at\(ctx\((?:tick|timer)\), float",
        "wake_at takes whole nanoseconds: numba makes floats where u8 and i8 mix; np.int64(...) converts",
    ),
    (r"bytes are compared with text", 'write b"A" in place of "A"'),
    (r"_wake_at\(ctx\(end\)", "the run has ended, and its timers with it"),
    (r"Invalid use of", "the types it is called with do not fit it"),
)


def reason_of_compiled(said: str) -> str:
    """Reason for a compiled handler's failure: its own message, or else that it raised, as machine code keeps no
    exceptions."""
    if said and not re.fullmatch(r"its (timer|end) at \d+ ns", said):
        return said
    raised = "it raised an exception, which machine code does not keep"
    return f"{said}: {raised}" if said else raised


def explain(
    name: str,
    function: Callable[..., Any],
    error: BaseException,
    records: Mapping[str, np.dtype[Any]],
    outputs: Mapping[str, np.dtype[Any]],
) -> ConfigurationError:
    """The error to raise: the handler, the line of its source, the reason, and the cure.

    ``records``: the dtypes of the handler's arguments, by their names; ``outputs``: those of what it emits.
    """
    code = function.__code__
    field = _missing_field(error)
    if field is not None:
        argument, line = _use_of(code, field)
        known = {k: list(d.names or ()) for k, d in records.items() if argument in (None, k)} or {
            k: list(d.names or ()) for k, d in records.items()
        }
        place = f"{code.co_filename}:{line or code.co_firstlineno}"
        what = f"{argument or 'a record'} has no field {field!r}"
        there = "; ".join(f"{k} has {', '.join(fields)}" for k, fields in known.items())
        return ConfigurationError(f"handler {name!r} does not compile: {place}: {what}; {there}")
    text = str(error)
    file, line = _place(error, text) or (code.co_filename, code.co_firstlineno)
    if (emits := _wrong_emit(text, outputs)) is not None:
        return ConfigurationError(f"handler {name!r} does not compile: {file}:{line}: {emits}")
    reason = _reason(text) or type(error).__name__
    source = linecache.getline(file, line).strip()
    hint = next(
        (advice.format(*found.groups()) for pattern, advice in _HINTS if (found := re.search(pattern, text))), ""
    )
    return ConfigurationError(
        f"handler {name!r} does not compile: {file}:{line}: {reason}"
        + (f" ({hint})" if hint else "")
        + (f", in: {source}" if source else "")
    )


def _missing_field(error: BaseException) -> str | None:
    """A field that is not there is a bare KeyError to numba where it is an attribute."""
    if type(error) is builtins.KeyError and error.args and isinstance(error.args[0], str):
        return error.args[0]
    found = re.search(
        r"Field '(\w+)' was not found in record|Unknown attribute '(\w+)' of type (?:Nested)?Record", str(error)
    )
    return None if found is None else found[1] or found[2]


def _wrong_emit(text: str, outputs: Mapping[str, np.dtype[Any]]) -> str | None:
    """Fault in a use of ``emit``, in the user's own names: numba's names for its type and methods are unknown to
    users."""
    takes = {output: f"emit.{output}({', '.join(dtype.names or ())})" for output, dtype in outputs.items()}
    if found := re.search(r"Unknown attribute '(\w+)' of type emit\(", text):
        return f"emit has no output {found[1]!r}; write {' or '.join(takes.values())}"
    if re.search(r"Invalid use of emit\(", text):
        return f"emit is called by the name of an output; write {' or '.join(takes.values())}"
    if (found := re.search(r">>> (\w+)\(emit\(", text)) and found[1] in takes:
        types = ", ".join(str(outputs[found[1]][field]) for field in outputs[found[1]].names or ())
        return f"what emit.{found[1]} is given does not fit; write {takes[found[1]]}, of types {types}"
    return None


def _instructions(code: CodeType) -> Iterator[dis.Instruction]:
    yield from dis.get_instructions(code)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _instructions(constant)


def _use_of(code: CodeType, field: str) -> tuple[str | None, int | None]:
    """The local variable whose field it was taken for, and the line."""
    variable: str | None = None
    for instruction in _instructions(code):
        if instruction.opname.startswith("LOAD_FAST") and isinstance(instruction.argval, str):
            variable = instruction.argval
        elif instruction.argval == field and instruction.opname != "LOAD_FAST":
            line = instruction.positions.lineno if instruction.positions is not None else None
            arguments = code.co_varnames[: code.co_argcount]
            return (variable if variable in arguments else None), line
    return None, None


def _place(error: BaseException, text: str) -> tuple[str, int] | None:
    """The innermost place in the source; numba names files in a message by their last part only."""
    loc = getattr(error, "loc", None)
    # Code made for a handler, as a method of emit, has no file.
    found = next((place for place in _PLACE.finditer(text) if "<string>" not in place.groups()), None)
    if found is None:
        return (loc.filename, loc.line) if loc is not None else None
    file, line = found["file"] or found["path"], int(found["line"] or found["at"])
    if loc is not None and loc.filename.endswith(file):
        file = loc.filename
    return file, line


def _reason(text: str) -> str:
    """The first thing said that is about the code, in one line."""
    lines = [line.strip() for line in text.splitlines() if not _NOISE.match(line)]
    kept = []
    for line in lines:
        if line:
            kept.append(line)
        if line.startswith(">>>") or (line and not line.endswith(":")):
            break
    reason = re.sub(r"\s*Raised from .*$|: i\d+\*? null$", "", " ".join(kept))
    reason = re.sub(r"No implementation of function .* found for signature: >>> (.*)", r"there is no \1", reason)
    return re.sub(r"Record\([^)]*\)", "a record", reason).rstrip(". ")
