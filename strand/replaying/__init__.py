"""Replaying recorded files: the call ``strand.replay``, the run under way, its samples, its result, and its
recordings."""

from __future__ import annotations
