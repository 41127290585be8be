"""The five kinds of handlers: each a class of its own, all of them a ``strand.Handler``."""

from __future__ import annotations

import pkgutil
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import strand
from strand import handlers
from strand.errors import ConfigurationError
from strand.handlers import (
    BUILTIN,
    ChainHandler,
    CompiledHandler,
    Handler,
    NativeHandler,
    ObjectHandler,
    PythonHandler,
    resolve,
)

ROW = [("n", "<i8")]


class Counts:
    def on_tick(self, tick: Any) -> None: ...


def test_each_way_to_make_a_handler_has_a_class_of_its_own(c_handlers: Path) -> None:
    made = {
        NativeHandler: strand.native(c_handlers, "on_sum", state=ROW),
        CompiledHandler: strand.handler(state=ROW)(lambda row, tick: None),
        PythonHandler: strand.batch_handler(state=ROW)(lambda symbol, ticks, row: None),
        ObjectHandler: resolve(Counts),
        ChainHandler: strand.chain("book", Counts),
    }
    for kind, handler in made.items():
        assert type(handler) is kind
        assert isinstance(handler, strand.Handler)
        assert handler.is_native == (kind in (NativeHandler, CompiledHandler))


def test_a_misspelt_option_of_native_is_refused_with_the_near_one(c_handlers: Path) -> None:
    with pytest.raises(ConfigurationError, match="'never_publish'; did you mean 'never_publishes'"):
        strand.native(c_handlers, "on_sum", state=ROW, never_publish=True)


def test_every_built_in_handler_is_native() -> None:
    assert {type(make()) for make in BUILTIN.values()} == {NativeHandler}


def test_what_all_kinds_have_is_no_handler_by_itself() -> None:
    with pytest.raises(TypeError, match="abstract"):
        Handler(name="none", state=ROW)  # type: ignore[abstract]


def test_no_kind_has_a_field_of_another() -> None:
    shared = {field.name for field in fields(Handler)}
    own = {
        NativeHandler: {"function", "for_feed"},
        CompiledHandler: {"on_tick", "cache"},
        PythonHandler: {"on_ticks"},
        ObjectHandler: {"factory", "counts"},
        ChainHandler: {"parts"},
    }
    for kind, names in own.items():
        found = {field.name for field in fields(kind)}
        assert shared | names <= found
        assert not found & {name for other, theirs in own.items() if other is not kind for name in theirs}


def test_no_module_of_handlers_has_the_name_of_a_public_one() -> None:
    modules = {name.rpartition(".")[2] for _, name, _ in pkgutil.walk_packages(handlers.__path__, "strand.handlers.")}
    assert "chains" in modules
    assert not modules & {*handlers.__all__, *strand.__all__}
