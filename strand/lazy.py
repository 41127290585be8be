"""Names and packages that are loaded on their first use: Strand's public ones, and those that an extra installs."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

from strand.errors import MissingExtraError


def imported(module: str, extra: str, feature: str = "") -> Any:
    """A package that an extra installs, or a module of one. Raises MissingExtraError where it is not installed.

    ``feature``: the use of it, for the error; the default is a table of the package.
    """
    package = module.partition(".")[0]
    try:
        importlib.import_module(package)
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(feature or f"a table of {package}", package, extra) from error


def loading(
    package: str, names: Mapping[str, str]
) -> tuple[list[str], Callable[[str], object], Callable[[], list[str]]]:
    """The ``__all__``, ``__getattr__`` and ``__dir__`` of a package whose public names are loaded on their first use,
    so that a run imports what it uses alone. ``names``: those of each module within the package, with blanks between.
    """
    modules = {name: module for module, some in names.items() for name in some.split()}

    def load(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name)
        found: object = getattr(importlib.import_module(f"{package}.{modules[name]}"), name)
        setattr(sys.modules[package], name, found)
        return found

    return list(modules), load, lambda: sorted(modules)
