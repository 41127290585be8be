"""Scheduling policies."""

from __future__ import annotations

import pytest

from strand.dispatch.policies import Fifo, Policy

pytestmark = pytest.mark.python


def test_a_policy_is_a_value_that_cannot_be_changed() -> None:
    assert Fifo() == Fifo()
    assert isinstance(Fifo(), Policy)
    with pytest.raises((AttributeError, TypeError)):
        Fifo().share = 1  # type: ignore[attr-defined]
