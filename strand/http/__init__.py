"""HTTP on a scheduler: an ASGI application whose requests are tasks, with levels, deadlines and bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strand.lazy import imported, loading

if TYPE_CHECKING:
    from strand.http.app import App as App
    from strand.http.control import Control as Control
    from strand.http.dashboard import Dashboard as Dashboard
    from strand.http.dashboard import Tape as Tape
    from strand.http.front import HttpStatistics as HttpStatistics
    from strand.http.options import AppOptions as AppOptions
    from strand.http.options import ServerOptions as ServerOptions
    from strand.http.requests import Header as Header
    from strand.http.requests import Request as Request
    from strand.http.requests import request_id as request_id
    from strand.http.requests import trace_id as trace_id
    from strand.http.serving import serve as serve


_NAMES: Final = {
    "app": "App",
    "control": "Control",
    "dashboard": "Dashboard Tape",
    "front": "HttpStatistics",
    "options": "AppOptions ServerOptions",
    "requests": "Header Request request_id trace_id",
    "serving": "serve",
}
_MODULES: Final = {name: module for module, names in _NAMES.items() for name in names.split()}

_load: Final = loading(__name__, _MODULES)

if not TYPE_CHECKING:  # a checker knows the names from above, and that there are no others
    __all__ = list(_MODULES)

    def __getattr__(name: str) -> object:
        if _MODULES.get(name, "options") != "options":
            imported("starlette", "http", "strand.http")
            imported("uvicorn", "http", "strand.http")
        return _load(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
