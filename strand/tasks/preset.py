"""``strand.napoleon``: a scheduler that lets unimportant tasks wait until most of them have answered themselves."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any, Final, Unpack

from strand.config.configuration import Config
from strand.dispatch.guard import Guard
from strand.errors import ConfigurationError
from strand.options import named_options
from strand.policies.policy import Levels
from strand.tasks.retry import RetryPolicy
from strand.tasks.scheduler import Scheduler, SchedulerOptions, config_of

__all__ = ["napoleon"]

_HOLD: Final = {"low": "30s"}


@named_options("napoleon()", more=SchedulerOptions, like=Scheduler)
def napoleon(config: Config | str | os.PathLike[str] | None = None, **more: Unpack[SchedulerOptions]) -> Scheduler:
    """Makes a ``strand.Scheduler`` that leaves letters of level ``low`` unopened for a while (docs/napoleon.md).

    It has ``Levels(hold={"low": "30s"})``. A task rises from ``high`` after 30 s, from ``retry`` after 60 s, from
    ``normal`` after 5 min and from ``low`` after 30 min. A task of level ``low`` does not start in its first 30 s. Give
    such a task ``expire_if``, so that it is dropped if it has resolved itself meanwhile. ``retry`` is ``RetryPolicy()``
    (three retries, after 1 s, 2 s and 4 s, less a random part) and ``guard`` is ``Guard()``. 1,000 dead letters are
    kept.

    Args:
        config: A ``strand.Config``, or the path of its file, which gives what ``Scheduler(config=)`` takes from it. A
            policy that it names has to be ``levels``, and has the hold above if it says none.
        **more: Arguments of ``Scheduler``, which win; ``guard=None`` leaves the guard out.

    Raises:
        ConfigurationError: If the policy is not ``Levels``, or an argument cannot work.
        MissingExtraError: If there is a guard of the machine without the extra ``guard``.
        UnknownOptionError: If there is no argument of a given name.
    """
    found: dict[str, Any] = {"policy": Levels(), "retry": RetryPolicy(), "guard": Guard()}
    if config is not None:
        said = config_of(config)
        found |= said.scheduler_options()
    given = more.pop("policy", None)
    policy = found["policy"] if given is None else given
    if not isinstance(policy, Levels):
        raise ConfigurationError(
            f"policy: {type(policy).__name__} has no levels to hold: name levels, or use strand.Scheduler"
        )
    found["policy"] = replace(policy, hold=policy.hold or _HOLD) if given is None else given
    found |= more
    return Scheduler(**found)
