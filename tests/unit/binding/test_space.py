"""The addresses that a dispatcher and its handlers share."""

from __future__ import annotations

import pytest

from strand.binding.memory import Space


def test_more_addresses_than_a_process_has_are_refused() -> None:
    with pytest.raises(MemoryError, match=r"GiB of address space: raise its limit \(ulimit -v\)"):
        Space(more=1 << 60)
