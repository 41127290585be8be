"""An error says what is wrong and where, and can be caught by what it is."""

from __future__ import annotations

import copy
import inspect
import pickle
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import strand
from strand import errors, testing
from strand.errors import ConfigurationError, FeedError, FormatError, MissingExtraError, StrandError
from strand.feeds.live.kafka import KafkaFeed
from strand.feeds.mapping.options import check_options
from strand.feeds.sample import sample_path
from strand.handlers.loading import configured

pytestmark = pytest.mark.python

ALL = [cls for _, cls in inspect.getmembers(errors, inspect.isclass) if cls.__module__ == "strand.errors"]


@pytest.mark.parametrize("cls", ALL)
def test_every_error_is_a_strand_error_and_documented(cls: type[Exception]) -> None:
    assert issubclass(cls, StrandError)
    assert cls.__doc__


def test_a_bad_option_is_also_a_value_error() -> None:
    assert issubclass(ConfigurationError, ValueError)


SIGNED = "https://me:secret@store.example/day.csv?X-Amz-Signature=secret"


@pytest.mark.parametrize(
    "call",
    [
        lambda: strand.feeds.open("day.itch", format=SIGNED),
        lambda: strand.feeds.open("day.itch", zone=SIGNED),
        lambda: strand.feeds.open(sample_path(), date=SIGNED),
        lambda: strand.feeds.open("day.csv", profile=SIGNED),
        lambda: strand.feeds.open("day.itch", start=SIGNED),
        lambda: strand.replay("day.itch", SIGNED),
        lambda: strand.replay("day.itch", "count", out=SIGNED),
        lambda: strand.replay("day.itch", "count", policy=SIGNED),
        lambda: strand.attach(SIGNED),  # type: ignore[arg-type]
        lambda: strand.Limits(on_full=SIGNED),  # type: ignore[arg-type]
        lambda: KafkaFeed(SIGNED, "ticks"),
        lambda: KafkaFeed("127.0.0.1:9092", "ticks", SIGNED),
        lambda: check_options(flags={SIGNED: 1}),
        # A path of a URL has one slash, and schemes have no case. Brokers and other servers have users too.
        lambda: strand.replay("day.itch", Path(SIGNED)),  # type: ignore[arg-type]
        lambda: strand.replay("day.itch", "count", out=Path(SIGNED)),  # type: ignore[arg-type]
        lambda: strand.attach(SIGNED.replace("https", "HTTPS")),  # type: ignore[arg-type]
        lambda: strand.attach(SIGNED.replace("https", "kafka+ssl")),  # type: ignore[arg-type]
    ],
)
def test_no_error_shows_the_signature_or_the_user_of_a_url(call: Callable[[], Any]) -> None:
    with pytest.raises(StrandError) as raised:
        call()
    error = raised.value
    assert "secret" not in f"{error} {error!r} {error.args} {error.__dict__}"
    assert "secret" not in "".join(traceback.format_exception(error))


def _by_params() -> None:
    @strand.handler(state=[("n", "i8")], params=[("least", "u4")])
    def least(row: Any, tick: Any, params: Any) -> None:
        """Do nothing."""

    strand.replay(testing.feed([("A.B", 1, 1.0, 1)]), least.with_params({"A.B": {"least": -1}}), workers=0)


@pytest.mark.parametrize(
    ("call", "field", "where"),
    [
        (_by_params, 'params."A.B".least', "handler 'least'"),
        (lambda: strand.handler(state=[], outputs={"bars": [("seen", object)]}), "outputs.bars", ""),
        (lambda: strand.replay("x", "count", wokers=1), "wokers", "replay()"),  # type: ignore[call-arg]
        (lambda: configured(strand.bars, {"fill": "perhaps"}, "bars"), "fill", "handler bars"),
        (lambda: check_options(flags={"last": "x"}), "flags.last", ""),
        (lambda: check_options(event=["ts_recv", 5]), "event[2]", ""),
        (lambda: strand.ticks.Flags.of({"last": 256}), "flags.last", ""),
    ],
)
def test_an_error_has_its_field_and_what_has_the_field(call: Callable[[], Any], field: str, where: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        call()
    error = raised.value
    assert (error.field, error.where) == (field, where)
    again = error.at("other.field", "a file")
    assert (again.field, again.where, again.reason) == ("other.field", "a file", error.reason)


def test_a_missing_extra_is_an_import_error_that_names_the_command() -> None:
    error = MissingExtraError("reading CSV", "pyarrow", "csv")
    assert isinstance(error, ImportError)
    assert (error.package, error.extra) == ("pyarrow", "csv")
    assert "pip install 'tickstrand[csv]'" in str(error)


@pytest.mark.parametrize(
    ("where", "start"),
    [
        ({"path": "a.itch", "offset": 12, "line": 3}, "a.itch, byte 12, line 3: "),
        ({"path": "a.itch", "offset": 0}, "a.itch, byte 0: "),
        ({"line": 1}, "line 1: "),
        ({}, "no good"),
    ],
)
def test_a_feed_error_says_where_first(where: dict[str, object], start: str) -> None:
    error = FormatError("no good", **where)  # type: ignore[arg-type]
    assert isinstance(error, FeedError)
    assert str(error).startswith(start)
    assert str(error).endswith("no good")
    assert error.line == where.get("line")


def made(cls: type[Exception]) -> Exception:
    """An error of a class, each argument of its constructor filled in by its kind."""
    by_name = {"path": "a.itch", "partial": SimpleNamespace(warnings=["late"]), "gaps": ((1, 3),), "sequence": 7}
    by_kind = {"int": 5, "bool": True, "tuple[str, ...]": ("AAPL",), "npt.NDArray[np.int64] | None": np.arange(3)}
    parameters = inspect.signature(cls.__init__).parameters.values()
    given = {
        p.name: by_name.get(p.name, by_kind.get(str(p.annotation).removesuffix(" | None"), "said"))
        for p in parameters
        if p.name not in ("self", "args", "kwargs", "params")
    }
    if not given:
        return cls("what is wrong")
    positional = [given.pop(p.name) for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD and p.name in given]
    error = cls(*positional, **given)
    error.add_note("a note")
    return error


@pytest.mark.parametrize("again", [lambda e: pickle.loads(pickle.dumps(e)), copy.copy, copy.deepcopy])
@pytest.mark.parametrize("cls", ALL)
def test_every_error_can_be_pickled_and_copied(cls: type[Exception], again: Callable[[Exception], Exception]) -> None:
    """With its text and its attributes; the result of a run stays in its process."""
    error = made(cls)
    other = again(error)
    assert type(other) is cls
    assert str(other) == str(error)
    assert other.args == error.args
    stays = set() if again is copy.copy else {"partial"}
    np.testing.assert_equal(vars(other), {k: v for k, v in vars(error).items() if k not in stays})


POOL = """
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
import strand

def expire():
    with strand.Scheduler(1) as scheduler:
        scheduler.options(expire_if=lambda: True).submit(int).result()

if __name__ == "__main__":
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        for _ in range(2):
            error = pool.submit(expire).exception()
            print(type(error).__name__, error.reason)
"""


def test_an_error_of_a_process_of_a_pool_comes_out_as_it_is(tmp_path: Path) -> None:
    """An error that cannot be unpickled breaks the whole pool."""
    (tmp_path / "pool.py").write_text(POOL)
    done = subprocess.run([sys.executable, tmp_path / "pool.py"], capture_output=True, text=True, check=True)
    assert done.stdout == "TaskExpired expire_if\n" * 2
