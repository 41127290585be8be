"""Every scheduling policy, by the name that it has in the core, in a configuration file and on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from strand.policies.aging import Aging
from strand.policies.fair import Fair
from strand.policies.policy import Fifo, Levels, Policy

__all__ = ["POLICIES"]

POLICIES: Final[Mapping[str, type[Policy]]] = MappingProxyType(
    {str(kind.core_name): kind for kind in (Fifo, Levels, Aging, Fair)}
)
