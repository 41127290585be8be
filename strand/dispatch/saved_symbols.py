"""State of the handlers that Python runs, for each symbol beside its row: saved, and taken up again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from strand.dispatch.saved_state import SavedSymbol
from strand.errors import SavedStateError
from strand.handlers.baskets import BasketObjects
from strand.handlers.context import Context

if TYPE_CHECKING:
    from strand.dispatch.python_handlers import PythonHandlers

__all__ = ["check_objects", "restore_symbols", "saved_symbols"]

#: Attributes of a context itself.
_OWN: Final = frozenset(vars(Context("", "", 0, None))) | {"log"}


def check_objects(python: PythonHandlers) -> None:
    """Raises SavedStateError, naming the handler, for a handler whose state only Python knows and that cannot save
    it."""
    for key, context in python.contexts.copy().items():
        thing = python.objects.get(key)
        if isinstance(thing, BasketObjects):
            raise SavedStateError(
                f"handler {context.handler!r}: objects of baskets are not saved: keep their state in rows, with "
                "kind='batch' or a compiled function"
            )
        if thing is not None and not (hasattr(thing, "save") and hasattr(thing, "load")):
            raise SavedStateError(
                f"handler {context.handler!r}: its objects have state that only Python can save: give "
                f"{type(thing).__name__} save(self) -> bytes, and load(self, data), which is called after on_start"
            )
        if kept := sorted(set(vars(context)) - _OWN):
            raise SavedStateError(
                f"handler {context.handler!r} keeps ctx.{kept[0]}, which is not saved: keep it in ctx.row"
            )


def saved_symbols(python: PythonHandlers) -> list[SavedSymbol]:
    """State of the symbols that have had ticks, by key. Raises SavedStateError for a ``save`` that returns no bytes,
    and the exceptions of ``save``."""
    found = []
    for key, host in sorted(python.hosts_by_key().items()):
        thing, data = python.objects.get(key), None
        if thing is not None:
            data = thing.save()
            if not isinstance(data, bytes):
                raise SavedStateError(
                    f"handler {python.contexts[key].handler!r}: save returned {type(data).__name__} for "
                    f"{python.contexts[key].symbol}, but must return bytes"
                )
        found.append(SavedSymbol(key, host.own_alarm, data))
    return found


def restore_symbols(python: PythonHandlers, symbols: Iterable[SavedSymbol]) -> None:
    """Binds them as they were. Objects are started, which emits nothing, and given what they saved."""
    for symbol in symbols:
        host = python.bind_again(symbol.key)
        if symbol.data is not None:
            python.objects[symbol.key].load(symbol.data)
        host.resume(symbol.alarm)
