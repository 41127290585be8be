"""A small application: urgent quotes beside reports that compute."""

from __future__ import annotations

import time
from typing import Any

import strand
from strand.http import App, Request

scheduler = strand.Scheduler(
    max_queue_by_level={"immediate": 100, "normal": 1000, "low": 1000}, attachable=True, name="quotes"
)
app = App(scheduler)
app.metrics(strand.attach(fd=scheduler.memory_fd))


@app.get("/quotes/{symbol}", priority="immediate", deadline="500ms")
def quote(request: Request) -> dict[str, Any]:
    """Answers at once, before all reports."""
    return {"symbol": request.path_params["symbol"], "time": time.time()}


@app.post("/reports", priority="low", deadline="1min")
def report(request: Request) -> dict[str, Any]:
    """Computes over the body."""
    return {"bytes": len(request.content), "sum": sum(request.content)}
