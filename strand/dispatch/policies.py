"""Scheduling policies: which of the ready strands a worker takes next."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Fifo", "Policy"]


@dataclass(frozen=True, slots=True)
class Policy:
    """Base of all policies; use one of its kinds."""


@dataclass(frozen=True, slots=True)
class Fifo(Policy):
    """Strands are drained in the order in which they became ready, each by the worker that drained it last unless an
    idle one comes first."""
