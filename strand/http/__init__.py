"""HTTP on a scheduler: an ASGI application whose requests are tasks, with levels, deadlines and bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

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

if not TYPE_CHECKING:  # a checker knows the names from above, and that there are no others
    __all__, _load, __dir__ = loading(
        __name__,
        {
            "app": "App",
            "control": "Control",
            "dashboard": "Dashboard Tape",
            "front": "HttpStatistics",
            "options": "AppOptions ServerOptions",
            "requests": "Header Request request_id trace_id",
            "serving": "serve",
        },
    )

    def __getattr__(name: str) -> object:
        if name in __all__ and name not in ("AppOptions", "ServerOptions"):
            imported("starlette", "http", "strand.http")
            imported("uvicorn", "http", "strand.http")
        return _load(name)
