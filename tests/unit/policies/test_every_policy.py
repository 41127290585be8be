"""The policies that can be named are those of the core, and those that strand exports."""

from __future__ import annotations

import pytest

import strand
from strand.binding import lib
from strand.policies.policy import POLICIES, Policy

pytestmark = pytest.mark.python


def test_they_are_those_of_the_core_in_its_order() -> None:
    assert [lib.sd_policy_number(name.encode()) for name in POLICIES] == list(range(lib.SD_POLICY_COUNT))
    assert lib.sd_policy_number(b"none") == lib.SD_POLICY_COUNT


def test_each_is_exported_and_can_be_made_without_options() -> None:
    exported = {found for name in strand.__all__ if isinstance(found := getattr(strand, name), type)}
    assert {kind for kind in exported if issubclass(kind, Policy)} == set(POLICIES.values())
    assert all(kind() == kind() for kind in POLICIES.values())
