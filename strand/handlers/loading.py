"""Handlers by name, by symbol, and of what users give: built-in ones, classes, and those of modules."""

from __future__ import annotations

import copyreg
import dataclasses
import importlib
import inspect
import os
import sys
import traceback
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from strand.brief import OURS
from strand.errors import ConfigurationError, UnknownOptionError
from strand.handlers.base import Handler, HandlerLike, SingleHandler
from strand.handlers.builtin import BUILTIN
from strand.handlers.builtin.definition import Builtin
from strand.handlers.native_handlers import NativeHandler
from strand.handlers.options import Option, Origin, options_of_function
from strand.symbols import SymbolTable
from strand.ticks import TICK
from strand.validate import did_you_mean

if TYPE_CHECKING:
    from strand.feeds import FeedInfo
    from strand.feeds.base import TicksAre


def resolve(like: HandlerLike) -> Handler:
    """A handler from a user's value: a handler, which is returned unchanged, the name of a built-in one, or a class
    whose objects are handlers. With ``NUMBA_DISABLE_JIT=1`` a compiled handler becomes one that Python runs. Raises
    ConfigurationError for any other value, and for an unknown name."""
    if isinstance(like, Handler):
        return _as_python(like) if is_jit_disabled() else like
    if isinstance(like, str):
        if like not in BUILTIN:
            raise ConfigurationError("handler", f"{not_built_in(like)}")
        return BUILTIN[like]()
    from strand.handlers.python_handlers import is_object_class, object_handler

    if is_object_class(like):
        return object_handler(like)
    raise ConfigurationError(
        "handler", f"{like!r} is not a handler; decorate a function with @strand.handler or @strand.batch_handler"
    )


def not_built_in(name: str, otherwise: str = "") -> str:
    """Message that no built-in handler has a name, with the nearest one. ``otherwise``: what else it might have
    been."""
    cure = did_you_mean(name, BUILTIN, before="; ")
    return f"{name!r} is not one of {', '.join(sorted(BUILTIN))}{otherwise}{cure}"


def is_jit_disabled() -> bool:
    """True if numba is told to compile nothing."""
    return os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")


def _as_python(handler: Handler) -> Handler:
    from strand.handlers.compiled.handlers import CompiledHandler, uncompiled

    return uncompiled(handler) if isinstance(handler, CompiledHandler) else handler


#: Things that can have options.
Makes: TypeAlias = Handler | Builtin | Callable[..., Handler]


def load_handler(name: str, options: Mapping[str, str] | None = None) -> Handler:
    """The handler that a name stands for, with options as text.

    ``name``: a built-in one's, or ``package.module:attribute``: a handler, a class of objects, or a function that is
    annotated to return a handler. Modules are looked for in the working directory first. Raises ConfigurationError.
    """
    found = find(name)
    handler = configured(found, options or {}, name)
    if name in BUILTIN:
        return handler
    call = None if handler.origin is None else handler.origin.call
    return dataclasses.replace(handler, origin=Origin(name, dict(options or {}), call))


def _by_name(handler: NativeHandler) -> tuple[Any, ...]:
    """Pickles a handler for another process, which has functions in C elsewhere. Raises ConfigurationError where it is
    unknown how the handler was made."""
    if handler.origin is None or handler.origin.load is None:
        return handler.__reduce__()
    return load_handler, (handler.origin.load, dict(handler.origin.options))


copyreg.pickle(NativeHandler, _by_name)

# ---- what a name stands for


def find(name: str) -> Makes:
    """Finds the handler of a name, without options. Raises ConfigurationError."""
    if name in BUILTIN:
        return BUILTIN[name]
    module_name, colon, attribute = name.partition(":")
    if module_name.endswith(".py"):
        stem = Path(module_name).stem
        raise ConfigurationError(
            "handler",
            f"{name!r} names a file: name its module, as {stem}:{attribute or 'FUNCTION'}, in the folder of "
            f"{stem}.py or with that folder in PYTHONPATH",
        )
    if not colon or not module_name or module_name.startswith("."):
        raise ConfigurationError(
            "handler", f"{not_built_in(name, ', nor package.module:function')}{_of_file(module_name)}"
        )
    with working_directory_first():
        try:
            module = importlib.import_module(module_name)
        except Exception as error:
            said = error if isinstance(error, ImportError) else _said(error)
            raise ConfigurationError("handler", f"cannot import {module_name!r}: {said}") from error
    if not hasattr(module, attribute):
        raise ConfigurationError("handler", _lacking(module, attribute))
    found: Any = getattr(module, attribute)
    if inspect.isfunction(found) and _returns_a_handler(found):
        return found
    from strand.handlers.python_handlers import is_object_class

    if not isinstance(found, Handler) and not is_object_class(found):
        raise ConfigurationError(
            "handler",
            f"{name!r} is not a handler: decorate it with @strand.handler or @strand.batch_handler, or "
            "annotate a function that makes one:  def f(...) -> strand.Handler",
        )
    return resolve(found)


def _of_file(module: str) -> str:
    """The way to the handlers of a module that is named without one."""
    return f"; of {module}.py name a function, as {module}:FUNCTION" if Path(f"{module}.py").is_file() else ""


def _lacking(module: ModuleType, attribute: str) -> str:
    """Reason against a module without such a name: its handlers, and its file, since another module may have been
    meant."""
    name = module.__name__
    from strand.handlers.python_handlers import is_object_class

    there = sorted(
        found
        for found, value in vars(module).items()
        if isinstance(value, Handler)
        or (
            getattr(value, "__module__", None) == name
            and (is_object_class(value) or (inspect.isfunction(value) and _returns_a_handler(value)))
        )
    )
    file = getattr(module, "__file__", None)
    where = f" ({file})" if file else ""
    lacking = f"has no {attribute!r}" if attribute else "is given without the name of a handler"
    return f"module {name!r}{where} {lacking}; " + (f"it has {', '.join(there)}" if there else "it has none")


@contextmanager
def working_directory_first() -> Iterator[None]:
    """Puts the working directory first among the places for modules. Changes that modules make to sys.path stay."""
    ours = str(Path.cwd())
    sys.path.insert(0, ours)
    try:
        yield
    finally:
        # That very string: the same folder may stand there for others, too.
        sys.path[:] = [path for path in sys.path if path is not ours]


def _returns_a_handler(function: Any) -> bool:
    try:
        returned = typing.get_type_hints(function).get("return")
        return isinstance(returned, type) and issubclass(returned, Handler)
    except Exception:
        # An annotation of another argument is at fault: what its options are asked for says so.
        returned = inspect.get_annotations(function).get("return")
        return returned is Handler or str(returned).rpartition(".")[2] == Handler.__name__


# ---- a handler with options


def options_of(like: Makes) -> dict[str, Option]:
    """The options of a handler, a built-in one, or a function that returns one, by name in their order."""
    return like.options if isinstance(like, Handler | Builtin) else options_of_function(like)


def configured(like: Makes, given: Mapping[str, str], called: str) -> Handler:
    """The handler with options as text. ``called``: its name in messages.

    Raises ConfigurationError for a name that is none, and for text that its option does not take; it lists those that
    there are. So it does for what a function that makes a handler raises, and where it makes none.
    """
    options, where = options_of(like), f"handler {called}"
    values = {}
    for name, text in given.items():
        if name not in options:
            cure = did_you_mean(name, options, after=" ")
            raise UnknownOptionError(f"{where}: it", name, f"{cure}{_listed(options)}")
        try:
            values[name] = options[name].kind.read(text)
        except ValueError as error:
            raise ConfigurationError(
                name, f"give {options[name].kind.words}, not {text!r}; {_listed(options)}", where=where
            ) from error
    if isinstance(like, Handler):
        return like.with_options(values) if values else like
    lacking = [name for name in needs(like) if name not in values]
    if lacking:
        unsaid = [name for name in lacking if name not in options]
        why = f", and {', '.join(unsaid)} cannot be given as an option" if unsaid else ""
        raise ConfigurationError(f"{where}: it needs {', '.join(lacking)}{why}; {_listed(options)}")
    try:
        made = like(**values)
    except ConfigurationError as error:
        raise ConfigurationError(error.field, f"{error.reason}; {_listed(options)}", where=where) from error
    except Exception as error:
        raise ConfigurationError(f"{where}: it raised {_said(error)}; {_listed(options)}") from error
    if not isinstance(made, Handler):
        raise ConfigurationError(f"{where}: it returned {made!r}, which is not a handler")
    return made


def needs(like: Makes) -> list[str]:
    """The arguments of a function that makes a handler which have no default."""
    if not inspect.isfunction(like):
        return []
    parameters = inspect.signature(like).parameters.values()
    return [p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) and p.default is p.empty]


def _said(error: BaseException) -> str:
    """Text of an exception in one line, with its file and line."""
    words = " ".join(str(error).split())
    every = traceback.extract_tb(error.__traceback__)
    frames = [frame for frame in every if not frame.filename.startswith(OURS)] or every
    where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    if isinstance(error, SyntaxError):
        where = ""  # its own words say it
    return f"{type(error).__name__}{': ' if words else ''}{words}{where}"


def _listed(options: Mapping[str, Option]) -> str:
    if not options:
        return "it has no options"
    return "its options: " + "; ".join(f"{option.name}, {option.kind.words}" for option in options.values())


# ---- handlers by symbol


class Assigned(NamedTuple):
    """The symbols of a run, and their handlers.

    ``handlers``: each once; ``of_symbol``: the number of each symbol's, shape (n_symbols,). ``units``: by symbol, the
    number of the unit that has to share a strand, None where all may be apart.
    """

    table: SymbolTable
    handlers: Sequence[Handler]
    of_symbol: npt.NDArray[np.uint16]
    units: npt.NDArray[np.intp] | None


def _info_of(feed: TicksAre | FeedInfo) -> FeedInfo:
    """Description of ticks that are published from memory. Raises ConfigurationError."""
    from strand.feeds.base import FeedInfo, TicksAre

    if isinstance(feed, FeedInfo):
        return feed
    meanings = get_args(TicksAre)
    if feed not in meanings:
        raise ConfigurationError("feed", f"{feed!r} is not one of {', '.join(meanings)}: give feed.info")
    return FeedInfo("memory", "memory", ticks=feed)


def assign_handlers(
    table: SymbolTable,
    handler: HandlerLike | None,
    handlers: Mapping[str, HandlerLike] | None,
    dtype: np.dtype[Any],
    feed: TicksAre | FeedInfo | None = None,
) -> Assigned:
    """The distinct handlers of all symbols. ``feed``: what the ticks mean; None: nobody knows, or the handlers do."""
    if (handler is None) == (handlers is None):
        raise ConfigurationError("handler", "give either one handler for all symbols, or handlers by symbol")
    if handlers is not None and not isinstance(handlers, Mapping):
        raise ConfigurationError("handlers", f"{type(handlers).__name__} is not a dict of handlers by symbol")
    wanted = {"*": handler} if handlers is None else dict(handlers)
    distinct: list[Handler] = []
    number: dict[int | str, int] = {}
    of_symbol = np.zeros(len(table), dtype=np.uint16)
    default = wanted.pop("*", None)
    named = np.zeros(len(table), dtype=bool)
    for names, like in [*(([name], h) for name, h in wanted.items()), (None, default)]:
        if like is None:
            continue
        same = like if isinstance(like, str) else id(like)
        if same not in number:
            number[same] = len(distinct)
            distinct.append(resolve(like) if feed is None else resolve(like).known(_info_of(feed)))
        if names is None:
            of_symbol[~named] = number[same]
        else:
            at = table.index(names[0])
            of_symbol[at], named[at] = number[same], True
    if default is None and not named.all():
        left = np.flatnonzero(~named).tolist()
        missing = table.name(next(filter(table.has_name, left), left[0]))
        raise ConfigurationError("handlers", f"there is none for {missing!r}; give one for '*' to serve all others")
    if len(distinct) > 65_535:
        raise ConfigurationError("handlers", "at most 65,535 different ones")
    for h in distinct:
        if dtype != TICK and any(part.needs_ticks for part in h.singles):
            raise ConfigurationError(
                "handler",
                f"{h.name!r} reads strand.TICK records; leave dtype out, and map the fields of your records "
                "with columns=",
            )
    return Assigned(table, distinct, of_symbol, _units_of(table, distinct, of_symbol))


def _units_of(
    table: SymbolTable, handlers: Sequence[Handler], of_symbol: npt.NDArray[np.uint16]
) -> npt.NDArray[np.intp] | None:
    """Units of symbols that have to share a strand, by symbol; None: no rows are shared.

    Raises ConfigurationError where symbols that share a row have several handlers, and for two shared rows of one name;
    and what shapes raise that do not fit the table."""
    found = []
    owner: dict[str, SingleHandler] = {}
    for number, handler in enumerate(handlers):
        for part in handler.singles:
            if (members := part.shape.members(part.name, table)) is None:
                continue
            found.append(members)
            option, where = f"{part.shape.kind}s", f"handler {part.name!r}"
            for name, keys in zip(members.names, members.keys, strict=True):
                if owner.setdefault(name, part) is not part:
                    raise ConfigurationError(
                        option, f"handlers {owner[name].name!r} and {part.name!r} both have one named {name!r}"
                    )
                if others := [key for key in keys if of_symbol[key] != number]:
                    raise ConfigurationError(
                        option, f"{name!r} has {table.name(others[0])!r}, which has another handler", where=where
                    )
    groups = [keys for each in found for keys in each.keys]
    return _joined(len(table), groups) if groups else None


def _joined(n_symbols: int, groups: Sequence[Sequence[int]]) -> npt.NDArray[np.intp]:
    """By symbol, shape (n_symbols,), the number of its unit, from 0 on. Groups that have a symbol in common are one
    unit, and a symbol of no group is one by itself."""
    parent: dict[int, int] = {}

    def root(key: int) -> int:
        while (above := parent.setdefault(key, key)) != key:
            parent[key] = parent[above]
            key = above
        return key

    for first, *others in groups:
        for key in others:
            one, other = sorted((root(first), root(key)))
            parent[other] = one
    # A unit is numbered by its first symbol, which is its root.
    roots = np.arange(n_symbols)
    for key in parent:
        roots[key] = root(key)
    units: npt.NDArray[np.intp] = (np.cumsum(roots == np.arange(n_symbols)) - 1)[roots]
    return units
