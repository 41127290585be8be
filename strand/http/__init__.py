"""HTTP on a scheduler: an ASGI application whose requests are tasks, with levels, deadlines and bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strand.lazy import imported, loading

if TYPE_CHECKING:
    from strand.http.app import App
    from strand.http.control import Control
    from strand.http.dashboard import Dashboard, Tape
    from strand.http.front import HttpStatistics
    from strand.http.options import AppOptions, ServerOptions
    from strand.http.requests import Header, Request, request_id, trace_id
    from strand.http.serving import serve

__all__ = [
    "App",
    "AppOptions",
    "Control",
    "Dashboard",
    "Header",
    "HttpStatistics",
    "Request",
    "ServerOptions",
    "Tape",
    "request_id",
    "serve",
    "trace_id",
]

_MODULES: Final = {
    "App": "app",
    "AppOptions": "options",
    "Control": "control",
    "Dashboard": "dashboard",
    "Header": "requests",
    "HttpStatistics": "front",
    "Request": "requests",
    "ServerOptions": "options",
    "Tape": "dashboard",
    "request_id": "requests",
    "serve": "serving",
    "trace_id": "requests",
}

_load: Final = loading(__name__, _MODULES)

if not TYPE_CHECKING:  # a checker knows the names from above, and that there are no others

    def __getattr__(name: str) -> object:
        if _MODULES.get(name, "options") != "options":
            imported("starlette", "http", "strand.http")
            imported("uvicorn", "http", "strand.http")
        return _load(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
