"""A retry policy says which errors are tried again, and after how long."""

from __future__ import annotations

import datetime as dt
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strand.errors import ConfigurationError
from strand.tasks import RetryPolicy

pytestmark = pytest.mark.python


@given(
    base=st.integers(1, 10**10),
    factor=st.integers(1, 10**6),
    multiplier=st.floats(1, 1000),
    jitter=st.floats(0, 1),
    retry=st.one_of(st.integers(1, 20), st.integers(1, 1_000_000)),
    seed=st.integers(0, 1000),
)
def test_a_backoff_is_within_its_bounds_and_does_not_overflow(
    *, base: int, factor: int, multiplier: float, jitter: float, retry: int, seed: int
) -> None:
    policy = RetryPolicy(base_delay=f"{base}ns", max_delay=f"{base * factor}ns", multiplier=multiplier, jitter=jitter)
    delay = policy.delay_ns(retry, random.Random(seed))
    assert 0 <= delay <= base * factor
    if retry < 20:
        full = min(base * factor, base * multiplier ** (retry - 1))
        assert (1 - jitter) * full * (1 - 1e-9) - 1 <= delay <= full * (1 + 1e-9) + 1
    assert delay == policy.delay_ns(retry, random.Random(seed))


def test_the_defaults_double_from_a_second_to_a_minute() -> None:
    policy = RetryPolicy(jitter=0)
    assert (policy.max_retries, policy.base_delay_ns, policy.max_delay_ns) == (3, 10**9, 60 * 10**9)
    found = [policy.delay_ns(retry, random.Random(0)) // 10**9 for retry in range(1, 9)]
    assert found == [1, 2, 4, 8, 16, 32, 60, 60]


def test_jitter_spreads_over_its_whole_range() -> None:
    policy = RetryPolicy(base_delay="1us", jitter=0.5)
    found = {policy.delay_ns(1, random.Random(seed)) for seed in range(20_000)}
    assert (min(found), max(found)) == (500, 1000)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ValueError(), "business"),
        (UnicodeDecodeError("utf-8", b"", 0, 1, ""), "business"),
        (TypeError(), "business"),
        (KeyError(), "business"),
        (PermissionError(), "business"),
        (ArithmeticError(), "transient"),
        (ConnectionResetError(), "transient"),
        (TimeoutError(), "transient"),
        (OSError(), "system"),
        (FileNotFoundError(), "system"),
        (MemoryError(), "system"),
        (SystemExit(), "business"),
        (KeyboardInterrupt(), "business"),
    ],
)
def test_kinds_of_errors_where_nothing_is_said(error: BaseException, kind: str) -> None:
    assert RetryPolicy().kind_of(error) == kind


def test_the_nearest_class_that_is_listed_decides() -> None:
    policy = RetryPolicy(business=(LookupError, TimeoutError), transient=KeyError)
    assert policy.kind_of(IndexError()) == "business"
    assert policy.kind_of(KeyError()) == "transient"
    assert policy.kind_of(TimeoutError()) == "business"
    assert policy.kind_of(ValueError()) == "business"  # transient are those given alone
    assert RetryPolicy(business=ArithmeticError).kind_of(ValueError()) == "business"  # it adds to the usual ones
    assert RetryPolicy(business=ArithmeticError).kind_of(ZeroDivisionError()) == "business"
    assert RetryPolicy(transient=ValueError).kind_of(ValueError()) == "transient"
    assert RetryPolicy(transient=OSError).kind_of(FileNotFoundError()) == "transient"


def test_a_function_may_say_the_kind() -> None:
    policy = RetryPolicy(classify=str)
    assert policy.kind_of(ValueError("system")) == "system"
    with pytest.raises(ConfigurationError, match="it returned 'soon'"):
        policy.kind_of(ValueError("soon"))


def test_spans_may_be_timedeltas_and_a_policy_does_not_change() -> None:
    policy = RetryPolicy(base_delay=dt.timedelta(milliseconds=5))
    assert policy.base_delay_ns == 5_000_000
    with pytest.raises(AttributeError):
        policy.jitter = 1.0  # type: ignore[misc]
    assert hash(policy) == hash(RetryPolicy(base_delay="5ms"))
