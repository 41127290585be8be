"""Replaying recorded files: one call (``strand.replay``), the run under way, samples of it, its result, and what is
recorded of it."""

from __future__ import annotations
