"""Every scheduling policy, by the name that it has in the core, in a configuration file and on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from strand.binding.engine_words import PolicyConfig
from strand.errors import ConfigurationError
from strand.policies.aging import Aging
from strand.policies.fair import Fair
from strand.policies.policy import Fifo, Levels, Policy

__all__ = ["POLICIES", "policy_config"]

POLICIES: Final[Mapping[str, type[Policy]]] = MappingProxyType(
    {str(kind.core_name): kind for kind in (Fifo, Levels, Aging, Fair)}
)


def policy_config(policy: Policy) -> PolicyConfig:
    """A policy as the engine takes it. Raises ConfigurationError."""
    if not isinstance(policy, Policy) or policy.core_name is None:
        *others, last = (f"{kind.__name__}()" for kind in POLICIES.values())
        raise ConfigurationError("policy", f"{policy!r} is not a policy: give {', '.join(others)} or {last}")
    return PolicyConfig(policy.core_name, policy.core_options())
