"""Names and types of the arguments of calls."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import Any

__all__ = ["as_text", "kinds", "named", "parameters"]


def kinds(options: type[Any]) -> dict[str, str]:
    """A TypedDict's options with their types, as they are written."""
    return {name: as_text(kind) for name, kind in options.__annotations__.items()}


def as_text(kind: Any) -> str:
    """An annotation as it is written, without modules and the declaration of an option."""
    kind = kind.__origin__ if hasattr(kind, "__metadata__") else kind
    text = kind.__name__ if isinstance(kind, type) else str(getattr(kind, "__forward_arg__", kind))
    text = re.sub(r"\b(?:\w+\.)+(?=[A-Za-z])", "", text)
    return re.sub(r"Optional\[(.*)\]", r"\1 | None", text)


def parameters(called: Any) -> Mapping[str, inspect.Parameter]:
    """By name."""
    return inspect.signature(called).parameters


def named(called: Any) -> dict[str, str]:
    """The types of those that are given by name."""
    found = parameters(called).values()
    return {one.name: as_text(one.annotation) for one in found if one.kind is one.KEYWORD_ONLY}
