"""Partitions of Kafka topics: how far each is read, and their messages in the order of times."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from operator import ne
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from strand.ticks import KIND_STATUS, TICK, limits

#: A topic and a partition of it.
Place = tuple[str, int]
#: What is known of each message: values, keys, offsets, and what else the feed reads, each of shape (n,).
Columns = Sequence[npt.NDArray[Any]]
#: Times of messages, ns, shape (n,).
Times = npt.NDArray[np.int64]
#: The time of a message that has none, in ns or ms: it follows the one before it.
NO_TIME: Final = -1
#: What stands for a message that is no record, and the latest time that a record may have.
_NO_RECORD: Final = b"\xff" * TICK.itemsize
_LATEST_NS: Final = limits("ts_recv")[1]
LATEST_MS: Final = _LATEST_NS // 1_000_000
#: What a message takes beside its value and its key, bytes, at least.
_OVERHEAD: Final = 300
#: What waits of a partition that is ahead of the others, bytes: no more is asked for until half of it is given.
_AHEAD_BYTES: Final = 32 << 20
#: What waits of all partitions together, bytes. Each has an equal share of it, so the one that all wait for has room.
_TOGETHER_BYTES: Final = 256 << 20


def stamp_of(message: Any) -> int:
    """The time that a message has of its own, in ms since 1970 as its producer or the broker wrote it; -1: none."""
    kind, ms = message.timestamp()
    return int(ms) if kind else NO_TIME


def times_of(values: Iterable[bytes | None], _: object, __: object, stamps: Times | None = None) -> Times:
    """The times of messages, from their columns, ns: that of its stamp, if the feed reads these, else the ``ts_recv``
    of the first record; -1 for a message that has none, or one that no tick holds."""
    if stamps is not None:
        return np.where((stamps < 0) | (stamps > LATEST_MS), NO_TIME, np.minimum(stamps, LATEST_MS) * 1_000_000)
    size = TICK.itemsize
    heads = [value[:size] if value and not len(value) % size else _NO_RECORD for value in values]
    first = np.frombuffer(b"".join(heads), TICK)
    is_wrong = (first["kind"] > KIND_STATUS) | (first["ts_recv"] > _LATEST_NS)
    return np.where(is_wrong, NO_TIME, first["ts_recv"])


def by_topic(offsets: Mapping[Place, int]) -> dict[str, dict[str, int]]:
    """Offsets as plain values, by topic and partition."""
    found: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        found.setdefault(topic, {})[str(partition)] = offset
    return found


def named(place: Place) -> str:
    """A partition in words."""
    return f"topic {place[0]}, partition {place[1]}"


def listed(places: Sequence[Place]) -> str:
    """Partitions in words."""
    return ", ".join(f"{topic}[{partition}]" for topic, partition in places) or "no partition"


class Messages(NamedTuple):
    """Messages in order, n of them."""

    places: list[Place]
    of: npt.NDArray[np.int64]
    """The number of each message's partition in ``places``, shape (n,)."""
    columns: Columns


class Partition:
    """The reading of a partition, and the messages of it that wait."""

    __slots__ = (
        "end", "is_at_end", "is_ended", "is_outdated", "is_overtaken", "is_paused", "latest", "n", "n_bytes", "pieces",
        "read",
    )  # fmt: skip

    def __init__(self, offset: int | None, end: int | None) -> None:
        #: The offset behind what was received, and the one at which reading ends; None: not known, and none.
        self.read, self.end = offset, end
        self.is_ended = end is not None and offset is not None and offset >= end
        self.is_at_end = self.is_overtaken = self.is_paused = False
        #: True at the start and from a pause on, up to the next message or the end: the known newest is of before.
        self.is_outdated = True
        #: What waits, as it came: times, which never fall, and columns. How many messages these are, and their bytes.
        self.pieces: list[list[npt.NDArray[Any]]] = []
        self.latest = NO_TIME
        self.n = self.n_bytes = 0

    def received(self, messages: list[Any]) -> list[Any]:
        """Notes messages that have come, and returns those up to the end."""
        self.read = messages[-1].offset() + 1
        self.is_at_end = self.is_overtaken = self.is_outdated = False
        if self.end is None or self.read < self.end:
            return messages
        self.is_ended = True
        return [message for message in messages if message.offset() < self.end]

    def reached_end(self, offset: int) -> None:
        """Notes that there are no more messages, behind ``offset``."""
        if self.read is None or offset >= self.read:
            self.is_at_end, self.is_outdated = True, False
            self.is_ended = self.end is not None

    def skip(self, offset: int) -> bool:
        """Goes on at another offset. Returns whether no message waits."""
        self.read, self.is_outdated = offset, True
        return not self.n

    def add(self, columns: Columns, times: Times) -> None:
        """Lets messages wait. ``times``: in ns; a negative one is that of the message before."""
        if not len(times):
            return
        rising = np.maximum.accumulate(np.maximum(times, self.latest))
        self.pieces.append([rising, *columns])
        self.latest, self.n = int(rising[-1]), self.n + len(times)
        self.n_bytes += sum(map(len, filter(None, chain(*columns[:2])))) + _OVERHEAD * len(times)

    def joined(self) -> list[npt.NDArray[Any]]:
        """The times and columns of all that waits."""
        if len(self.pieces) > 1:
            self.pieces = [[np.concatenate(each) for each in zip(*self.pieces, strict=True)]]
        return self.pieces[0]

    def drop(self, n: int) -> None:
        """Drops the first ``n`` messages, whose sizes count as those of the others."""
        self.n_bytes -= self.n_bytes * n // max(self.n, 1)
        self.n -= n
        self.pieces = [[each[n:] for each in self.joined()]] if self.n else []

    def may_bring(self, place: Place, newest: Callable[[Place], int]) -> bool:
        """Tells whether there may be messages that were not received yet."""
        if self.is_ended or self.is_at_end or self.is_overtaken:
            return False
        if self.end is not None or self.read is None or self.is_outdated:
            return True
        return not 0 <= newest(place) <= self.read


class Partitions(dict[Place, Partition]):
    """The partitions that a feed reads, with the messages that wait until no other partition can bring an earlier one.

    Each partition's messages stay in their order. At equal times the partition with the lower topic and number is
    first. So the order depends on what the partitions hold alone, and reading on from any point of it goes on in the
    same order. A partition that is read to its present end holds no others back.

    Args:
        newest: The offset behind the newest message of a partition, as far as it is known; less than 0: it is not.
    """

    def __init__(self, newest: Callable[[Place], int]) -> None:
        super().__init__()
        self._newest = newest

    def remove(self, places: Iterable[Place]) -> list[Place]:
        """Forgets partitions, and what waits of them. Returns those that were too far ahead."""
        removed = [(place, self.pop(place, None)) for place in places]
        return [place for place, each in removed if each is not None and each.is_paused]

    @property
    def is_waiting(self) -> bool:
        """Tells whether there are messages that wait."""
        return any(each.n for each in self.values())

    @property
    def are_ended(self) -> bool:
        """Tells whether all that was to be read is read, and given."""
        return all(each.is_ended and not each.n for each in self.values())

    def drop(self) -> None:
        """Drops all that waits."""
        for each in self.values():
            each.drop(each.n)

    def take(self, most: int, *, waits: bool) -> Messages | None:
        """The messages that come next, ``most`` of them; None: there are none. ``waits``: none that another partition
        may precede."""
        bound: tuple[int, Place] | None = None
        for place, each in self.items() if waits else ():
            if each.may_bring(place, self._newest):
                if not each.n:
                    return None
                last = each.latest, place
                bound = last if bound is None else min(bound, last)
        places, parts, sizes = [], [], []
        for place, each in sorted(self.items()):
            n = each.n
            if n and bound is not None:
                side: Literal["left", "right"] = "right" if place <= bound[1] else "left"
                n = int(np.searchsorted(each.joined()[0], bound[0], side))
            if n := min(n, most):
                places.append(place)
                parts.append(each)
                sizes.append(n)
        if not places:
            return None
        times, *columns = [
            np.concatenate([column[:n] for column, n in zip(parts_of, sizes, strict=True)])
            for parts_of in zip(*[each.joined() for each in parts], strict=True)
        ]
        order = np.argsort(times, kind="stable")[:most]
        of = np.repeat(np.arange(len(places)), sizes)[order]
        for each, n in zip(parts, np.bincount(of, minlength=len(parts)).tolist(), strict=True):
            each.drop(n)
        return Messages(places, of, [column[order] for column in columns])

    def overtake(self) -> list[Place]:
        """Lets the others go on without the partitions that bring nothing, and returns these."""
        late = [place for place, each in self.items() if not each.n and each.may_bring(place, self._newest)]
        for place in late:
            self[place].is_overtaken = True
        return late

    def turned(self, *, paused: bool) -> list[Place]:
        """The partitions that are too far ahead from now on, or that were so and are no more."""
        found, share = [], min(_AHEAD_BYTES, _TOGETHER_BYTES // max(1, len(self)))
        for place, each in self.items():
            is_beyond = each.n_bytes > share if paused else each.n_bytes < share // 2
            if each.is_paused != paused and is_beyond:
                each.is_paused, each.is_at_end, each.is_outdated = paused, False, True
                found.append(place)
        return found


def runs(message: Any, messages: list[Any]) -> Iterator[tuple[Place, list[Any]]]:
    """Messages in a row that are of one partition. ``message``: their class."""
    numbers = np.fromiter(map(message.partition, messages), np.int64, len(messages))
    topics = list(map(message.topic, messages))
    is_new = numbers[1:] != numbers[:-1]
    if topics.count(topics[0] if topics else "") < len(topics):
        is_new |= np.fromiter(map(ne, topics[1:], topics), np.bool_, len(topics) - 1)
    starts = [0, *(np.flatnonzero(is_new) + 1).tolist(), len(messages)]
    for start, end in pairwise(starts if messages else []):
        yield (topics[start], int(numbers[start])), messages[start:end]
