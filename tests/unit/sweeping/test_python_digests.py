"""When a handler in Python is another one."""

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

import pytest

from strand.sweeping.python_digests import add_written

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
import abc, collections, dataclasses, enum, functools, logging, re, threading
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
        return super().all(), WORDS, Side.BID, slow(2), TABLE, LOG, PATTERN, collections.deque()
    def on_stop(self):
        from digest_helpers import late
        self.last = late(self.level)
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
    """Whose sets have another order, and whose objects have other addresses."""
    (tmp_path / "digest_helpers.py").write_text(HELPERS)
    (tmp_path / "digest_signals.py").write_text(SIGNALS)
    program = (
        "import hashlib, sys; from digest_signals import Signal; "
        "from strand.sweeping.python_digests import add_written; digest = hashlib.blake2b(digest_size=16); "
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


def test_what_refers_to_itself_ends() -> None:
    kept: list[Any] = [1, {2, 3}]
    kept.append(kept)

    class Own:
        def made(self) -> Any:
            return Own, kept

    digest = blake2b()
    add_written(digest, (Own,))
    assert digest.hexdigest()
