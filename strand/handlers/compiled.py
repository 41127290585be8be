"""Handlers in Python that numba compiles, with the loop over a batch around them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from strand._bindings.engine import NativeFunction, pointer_from_address
from strand.errors import ConfigurationError, MissingExtraError
from strand.handlers.base import Handler, OnTick, name_of
from strand.handlers.compile_errors import explain
from strand.handlers.emitted import output_dtypes
from strand.handlers.state import defaults_of, row_dtype

__all__ = ["compile_loop", "handler", "numba_module"]

#: What comes after row and tick, by name and in any order.
FURTHER = ("params", "emit")


def handler(
    *,
    state: Any,
    params: Any = None,
    name: str | None = None,
    cache: bool = True,
    outputs: Mapping[str, Any] | None = None,
) -> Callable[[OnTick], Handler]:
    """Decorates ``def on_tick(row, tick)``: numba compiles it, and the loop over a batch around it.

    ``row`` and ``tick`` are records: ``row.volume += tick.size``. ``state`` is the row's dtype, a list of
    (name, dtype) pairs, or an annotated class (docs/handlers/numba.md). ``params``: likewise, of what there is to
    know of each symbol beforehand: the function then has a third argument of that name, a record that is filled by
    ``Handler.with_params``. ``outputs``: dtypes of the records it emits, by name: the function then has an argument
    ``emit`` with a method for each, which takes the record's fields: ``emit.bars(open=row.open, close=row.close)``.
    ``cache``: keep the compiled code on disk, where numba keeps its own.

    Raises ConfigurationError for a state that is none; when a dispatcher is made, MissingExtraError without numba and
    ConfigurationError, with the place and the reason, for a function that does not compile.
    """
    row = row_dtype(state)
    parameters = None if params is None else row_dtype(params, "params")
    emitted = output_dtypes(outputs)

    def wrap(function: OnTick) -> Handler:
        called = name or name_of(function)
        _check_arguments(called, function, params=parameters is not None, emit=bool(emitted))
        return Handler(
            called,
            row,
            on_tick=function,
            params_dtype=parameters,
            params_defaults=defaults_of(params),
            cache=cache,
            outputs=emitted,
        )

    return wrap


def _plain(function: Any) -> Callable[..., Any]:
    """The Python function of one that numba has compiled already."""
    found: Callable[..., Any] = getattr(function, "py_func", function)
    return found


def _arguments(function: OnTick) -> list[str]:
    return list(inspect.signature(_plain(function)).parameters)


def _check_arguments(name: str, function: OnTick, *, params: bool, emit: bool) -> None:
    given = _arguments(function)
    further = set(given[2:])
    if len(given) < 2 or not further <= set(FURTHER):
        raise ConfigurationError(
            f"handler {name!r}: its arguments are ({', '.join(given)}); write on_tick(row, tick), and after them "
            f"only {', '.join(FURTHER)}"
        )
    for argument, keyword, declared in (("params", "params", params), ("emit", "outputs", emit)):
        if (argument in further) != declared:
            raise ConfigurationError(
                f"handler {name!r}: "
                + (
                    f"it has no argument {argument}"
                    if declared
                    else f"give {keyword}= to declare what its argument {argument} is"
                )
            )


@lru_cache(maxsize=1)
def numba_module() -> Any:
    """numba. Raises MissingExtraError."""
    try:
        import numba
    except ImportError as error:
        raise MissingExtraError("compiling a handler", "numba", "numba") from error
    return numba


def compile_loop(
    handler: Handler, record: np.dtype[Any], key: str, row: np.dtype[Any], params: np.dtype[Any] | None
) -> NativeFunction:
    """The loop over a batch around ``handler.on_tick``, as the engine calls it. Raises ConfigurationError."""
    numba = numba_module()
    from strand.handlers.compiled_emit import emit_type
    from strand.handlers.compiled_loop import FunctionCache, entry_of, make_loop

    assert handler.on_tick is not None
    names = _arguments(handler.on_tick)
    dtypes = dict(zip(names, (row, record), strict=False))
    if params is not None:
        dtypes["params"] = params
    try:
        types = {name: numba.from_dtype(dtype) for name, dtype in dtypes.items()}
        if handler.outputs:
            types["emit"] = emit_type(handler.outputs)
    except Exception as error:
        raise ConfigurationError(f"handler {handler.name!r}: numba has no type for its records: {error}") from error
    plain = _plain(handler.on_tick)
    cache = FunctionCache.of(plain, (record, key, row, params, *handler.outputs.items())) if handler.cache else None
    one: Any = handler.on_tick if hasattr(handler.on_tick, "py_func") else numba.njit(plain)
    loop, signature = make_loop(one, types, names, key)
    function = entry_of(loop, signature, cache)
    try:
        if cache is None or not cache.has(function._sig):
            # By itself first: what is wrong is then said of the function and not of the loop around it.
            one.compile(tuple(types[name] for name in names))
        function.compile()
    except Exception as error:
        # A field that does not exist is a KeyError to numba, and there is no end to what else it raises.
        raise explain(handler.name, plain, error, dtypes) from error
    return NativeFunction(pointer_from_address(function.address), pure=True, keep=function)
