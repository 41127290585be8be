"""Digests of handlers in Python, which tell when one is another."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import threading
from hashlib import blake2b
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from strand.errors import ConfigurationError
from strand.sweeping.digests import add_written

pytestmark = pytest.mark.python

HELPERS = """
class Base:
    def all(self):
        return 1
def rounded(n):
    return n // FACTOR
FACTOR = 10
UNUSED = 1
def late(n):
    return n + 1
"""
SIGNALS = """
import abc, collections, dataclasses, enum, functools, itertools, logging, re, threading
import numpy as np
import digest_helpers
from digest_helpers import Base

@dataclasses.dataclass
class Config:
    most: int = 3
    names: list = dataclasses.field(default_factory=list)

class Side(enum.Enum):
    BID = "B"

CONFIG, WORDS, TABLE = Config(), {"a", "b", ("c", 1)}, {"x": np.arange(4)}
LOG, PATTERN = logging.getLogger("signals"), re.compile("a+")
class Loose(dict):
    def __getattr__(self, name):
        return self.get(name)
class Words(set):
    kept = 1
class Shape(np.ndarray):
    unit = 1
class Single:
    def __init__(self, n):
        self.n = n
    def __reduce__(self):
        return "SINGLE"
SINGLE, SHAPE = Single(7), np.arange(3).view(Shape)
SHAPE.scale = 8
def weighed(n):
    return n * weighed.weight
weighed.weight = 9
@functools.singledispatch
def shown(n):
    return 10
@shown.register(int)
def _(n):
    return 11
def called(*given, last=12):
    return given
MORE = (
    Loose(wide=13), Words(["a", "b", "c", "d", "e14"]), SHAPE, SINGLE, weighed, shown, itertools.count(15), called,
)
@functools.cache
def slow(n):
    return n * 3
def limit(n, *, by=2):
    return min(n, CONFIG.most) * by

class Signal(Base, abc.ABC):
    LEVEL = 4
    def on_tick(self, tick):
        if tick.action in {b"A", b"F", b"X"}:
            self.n = limit(digest_helpers.rounded(tick.size))
        return super().all(), WORDS, Side.BID, slow(2), TABLE, LOG, PATTERN, collections.deque(), MORE
    def on_stop(self):
        from digest_helpers import late
        self.last = late(self.level)
    def on_wake(self, time):
        self.first, self.second = 1, 23
        try:
            self.on_stop()
        except KeyError:
            pass
        else:
            self.close()
    @property
    def level(self):
        return self.LEVEL
    @staticmethod
    def twice(n):
        return 2 * n
    @functools.cached_property
    def kept(self):
        return 5
"""


def _module(name: str, text: str) -> ModuleType:
    made = ModuleType(name)
    sys.modules[name] = made
    exec(compile(text, name, "exec", dont_inherit=True), vars(made))
    return made


def _digest(helpers: str = HELPERS, signals: str = SIGNALS, make: Any = lambda signal: signal) -> str:
    try:
        _module("digest_helpers", helpers)
        digest = blake2b(digest_size=16)
        add_written(digest, (make(_module("digest_signals", signals).Signal),))
    finally:
        for name in ("digest_helpers", "digest_signals"):
            sys.modules.pop(name, None)
    return digest.hexdigest()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("LEVEL = 4", "LEVEL = 5"),
        ("2 * n", "3 * n"),
        ("return self.LEVEL", "return self.LEVEL + 1"),
        ("return 5", "return 6"),
        ('b"F", b"X"', 'b"F", b"Y"'),
        ("by=2", "by=3"),
        ("most: int = 3", "most: int = 4"),
        ('("c", 1)', '("c", 2)'),
        ("arange(4)", "arange(5)"),
        ("n * 3", "n * 4"),
        ('"a+"', '"b+"'),
        ('BID = "B"', 'BID = "A"'),
        ("Loose(wide=13)", "Loose(wide=14)"),
        ('"e14"', '"e15"'),
        ("kept = 1", "kept = 2"),
        ("unit = 1", "unit = 2"),
        ("SHAPE.scale = 8", "SHAPE.scale = 9"),
        ("Single(7)", "Single(8)"),
        ("weighed.weight = 9", "weighed.weight = 8"),
        ("return 10", "return 12"),
        ("return 11", "return 12"),
        ("count(15)", "count(16)"),
        ("called(*given, last", "called(given, *, last"),
        ("= 1, 23", "= 12, 3"),
        ("self.on_stop()\n", "self.on_stop()\n            self.close()\n"),
        ("import abc, ", "import abc, os, "),
        ("Signal(Base, abc.ABC)", "Signal(Base)"),
    ],
)
def test_the_digest_covers_methods_and_what_they_refer_to(old: str, new: str) -> None:
    assert old in SIGNALS
    same = "import" in old  # a name that nothing refers to
    assert (_digest() == _digest(signals=SIGNALS.replace(old, new))) == same


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("return 1", "return 2", False),
        ("n // FACTOR", "n * FACTOR", False),
        ("FACTOR = 10", "FACTOR = 11", False),
        ("n + 1", "n + 2", False),
        ("UNUSED = 1", "UNUSED = 2", True),
    ],
)
def test_the_digest_covers_other_modules_as_far_as_it_refers_to_them(old: str, new: str, same: bool) -> None:
    assert old in HELPERS
    assert (_digest() == _digest(helpers=HELPERS.replace(old, new))) == same


def test_neither_lines_nor_comments_nor_the_order_of_methods_are_in_it() -> None:
    twice = "    @staticmethod\n    def twice(n):\n        return 2 * n\n"
    moved = SIGNALS.replace(twice, "").replace("    LEVEL = 4\n", f"    # a comment\n\n{twice}    LEVEL = 4\n")
    assert moved != SIGNALS
    assert _digest() == _digest(signals=moved)


def test_arguments_of_a_partial_are_in_it() -> None:
    found = {_digest(make=lambda signal, n=n: functools.partial(signal, most=n)) for n in (1, 2)}
    assert len({*found, _digest()}) == 3


def test_another_process_finds_the_same(tmp_path: Path) -> None:
    """Processes whose sets have another order, and whose objects have other addresses."""
    (tmp_path / "digest_helpers.py").write_text(HELPERS)
    (tmp_path / "digest_signals.py").write_text(SIGNALS)
    program = (
        "import hashlib, sys; from digest_signals import Signal; "
        "from strand.sweeping.digests import add_written; digest = hashlib.blake2b(digest_size=16); "
        "add_written(digest, (Signal,)); print(digest.hexdigest())"
    )
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONHASHSEED": seed}
        words = [sys.executable, "-c", program]
        done = subprocess.run(words, check=False, env=environment, capture_output=True, text=True)
        assert done.stdout.strip() == _digest(), done.stderr


def test_what_shows_nothing_of_itself_is_another_one_each_time() -> None:
    lock, kept = threading.Lock(), []

    def function() -> Any:
        return lock, kept

    digests = []
    for _ in range(2):
        digest = blake2b()
        add_written(digest, (function,))
        digests.append(digest.hexdigest())
    assert digests[0] != digests[1]


def _digest_of(*values: Any) -> str:
    digest = blake2b()
    add_written(digest, [lambda value=value: value for value in values])
    return digest.hexdigest()


def test_bytes_between_the_fields_of_records_are_not_in_it() -> None:
    rows = np.zeros(2, np.dtype([("a", "i1"), ("b", "i8")], align=True))
    others = np.frombuffer(bytearray(b"\7" * rows.nbytes), rows.dtype)
    others["a"], others["b"] = 0, 0
    assert others.view("u1").any()
    assert _digest_of(rows, rows[0]) == _digest_of(others, others[0])
    others["b"][0] = 1
    assert len({_digest_of(rows), _digest_of(others), _digest_of(rows[0]), _digest_of(others[0])}) == 4


def test_a_function_of_arrays_that_only_has_a_name_is_another_one_each_time() -> None:
    made = np.frompyfunc(lambda a: a + 1, 1, 1)
    assert _digest_of(made) != _digest_of(made)
    assert _digest_of(np.sin) == _digest_of(np.sin) != _digest_of(np.cos)


def _plus_one(n: float) -> float:
    return n + 1


def test_options_of_compiled_functions_are_in_it() -> None:
    numba = pytest.importorskip("numba")
    exact, fast = (numba.njit(fastmath=fast)(_plus_one) for fast in (False, True))
    assert _digest_of(exact) == _digest_of(exact) != _digest_of(fast)


def test_a_large_set_after_many_values_takes_no_longer_for_them() -> None:
    """Each of its members is digested alone, but not with all that came before it."""
    many, members = [[] for _ in range(100_000)], {str(n) for n in range(20_000)}
    assert _digest_of((many, members)) == _digest_of((many, members))


def test_an_extension_module_counts_by_its_file(tmp_path: Path) -> None:
    """Its classes show no code."""
    found = []
    for number in (1, 2):
        file = tmp_path / f"{number}.so"
        file.write_bytes(bytes([number]))
        made = _module("digest_extension", "class Made:\n    pass\n")
        made.__file__ = str(file)
        found.append(_digest_of(made.Made))
    del sys.modules["digest_extension"]
    assert found[0] != found[1]


def test_what_is_nested_too_deep_is_refused() -> None:
    nested: list[Any] = []
    for _ in range(2000):
        nested = [nested]
    with pytest.raises(ConfigurationError, match="nested too deep"):
        _digest_of(nested)


def test_what_refers_to_itself_ends() -> None:
    kept: list[Any] = [1, {2, 3}]
    kept.append(kept)

    class Own:
        def made(self) -> Any:
            return Own, kept

    digest = blake2b()
    add_written(digest, (Own,))
    assert digest.hexdigest()
