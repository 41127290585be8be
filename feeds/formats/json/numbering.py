"""Numbers of messages, by which a venue shows that some are missing, repeated or older than a snapshot.

The rules are those that venues document for order books kept from their streams:

- one number per message that rises by one (Bybit ``u``, Kraken Futures ``seq``);
- the first and the last number of a message's changes, the next message beginning one above (Binance spot ``U`` and
  ``u``, KuCoin ``sequenceStart`` and ``sequenceEnd``);
- the number of the message before (Binance futures ``pu``, OKX ``prevSeqId``, Deribit ``prev_change_id``), which holds
  across a venue's reset of its numbers.

A snapshot has one number. Changes up to it are in it, and the first change beyond it has to reach back to it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import field
from decimal import Decimal, InvalidOperation
from typing import Any, Final, Literal, NamedTuple

from strand.feeds.mapping.rules import BadRecord, decimal_of, shown
from strand.fixed import dataclass

#: Source of a snapshot: the stream itself, or an answer to a request, which may be older than the stream.
SnapshotOf = Literal["stream", "rest"]
#: Numbers with fewer digits need no look at their size.
_PLAIN: Final = 10**18
#: Bytes of text of the messages that wait for the answer to a request, of one symbol.
_KEPT_BYTES: Final = 1 << 18


class Numbers(NamedTuple):
    """The numbers of a message. ``first`` and ``previous`` are None where the venue has none."""

    last: int
    first: int | None = None
    previous: int | None = None

    def follows(self, last: int) -> bool:
        """True if this message is the next one after ``last``."""
        if self.previous is not None:
            return self.previous == last
        return (self.last if self.first is None else self.first) == last + 1

    def reaches(self, last: int) -> bool:
        """True if no change lies between ``last`` and this message."""
        if self.previous is not None:
            return self.previous <= last
        return (self.last if self.first is None else self.first) <= last + 1


@dataclass(frozen=True, slots=True)
class Numbering:
    """Paths of the numbers in a rule's messages.

    Attributes:
        name: Rules of one name share each symbol's sequence.
        last: The path of the last number; None: the records' own ``sequence``, each a message of its own.
        first: The path of the first number; None: there is none.
        previous: The path of the number before; None: there is none.
    """

    name: str
    last: tuple[str, ...] | None = None
    first: tuple[str, ...] | None = None
    previous: tuple[str, ...] | None = None


def whole_number(value: Any) -> int:
    """A number of any length, as an integer or text. Raises BadRecord."""
    if type(value) is int and -_PLAIN < value < _PLAIN:
        return value
    try:
        number = decimal_of(value) if isinstance(value, int | str | Decimal) and not isinstance(value, bool) else None
    except InvalidOperation:
        number = None
    if number is None or not number.is_finite() or number.adjusted() > 30 or number != number.to_integral_value():
        raise BadRecord(f"{shown(value)} is not a whole number")
    return int(number)


class Step(NamedTuple):
    """The result of a message.

    Attributes:
        taken: Whether its records count.
        missing: How many numbers are missing before it; where the venue says only that some are, 1.
        between: The numbers between which they are missing.
        back: Whether it repeats numbers, or runs back.
        older: Whether a snapshot has all of it.
        again: Earlier messages that a snapshot lacks: they come again behind it.
    """

    taken: bool = True
    missing: int = 0
    between: tuple[int, int] = (0, 0)
    back: bool = False
    older: bool = False
    again: tuple[Any, ...] = ()


#: A message that comes when it should.
NEXT: Final = Step()


@dataclass(slots=True)
class Chain:
    """Numbers of one symbol. ``drops``: whether messages that run back are left out.

    Attributes:
        last: The latest number; None: there was none.
        base: The latest snapshot's number, until a message lies beyond it.
        whole: Whether a snapshot has come, and nothing is missing since.
        kept: Messages since the start or the latest gap, for a snapshot that is older than they are.
    """

    drops: bool
    keeps: bool = False
    last: int | None = None
    base: int | None = None
    whole: bool = False
    kept: deque[tuple[Numbers, Any, int]] = field(default_factory=deque)
    _kept_bytes: int = 0
    _back: int | None = None

    def state(self) -> list[Any]:
        """Its values, by which ``Chain(*values)`` goes on. Raises ValueError where messages wait for a snapshot."""
        if self.kept:
            raise ValueError("messages wait for a snapshot")
        return [self.drops, self.keeps, self.last, self.base, self.whole]

    def snapshot(self, last: int, source: SnapshotOf) -> Step:
        """Takes a snapshot's number."""
        if source == "stream" or self.last is None or last >= self.last:
            self.last = self.base = last
            self._forget()
            self.whole = True
            return Step()
        if self.whole:
            return Step(taken=False, older=True)
        later = [(numbers, message) for numbers, message, _ in self.kept if numbers.last > last]
        self._forget()
        begins = later[0][0] if later else Numbers(self.last + 1)
        self.whole = begins.reaches(last)
        again = tuple(message for _, message in later)
        return Step(again=again) if self.whole else self._gap(begins, last)._replace(again=again)

    def change(self, numbers: Numbers, message: Any, size: int) -> Step:
        """Takes the numbers of a message of changes, which ``again`` may have, and the bytes of its text."""
        step = self._step(numbers)
        if step.missing:
            self.whole = False
            self._forget()
        if step.taken and self.keeps and not self.whole:
            self.kept.append((numbers, message, size))
            self._kept_bytes += size
            while self._kept_bytes > _KEPT_BYTES:
                self._kept_bytes -= self.kept.popleft()[2]
        return step

    def _step(self, numbers: Numbers) -> Step:
        last, base = self.last, self.base
        if last is None or numbers.follows(last):
            return self._on(numbers)
        if base is not None and numbers.last <= base:
            return Step(taken=False, older=True)
        if not numbers.reaches(last):
            step = self._gap(numbers, last)
            self._on(numbers)
            return step
        if numbers.last > last:
            # The part of it in a snapshot is no repetition.
            return self._on(numbers)._replace(back=base is None)
        if self._back is not None and numbers.follows(self._back):
            self.whole = False
            return self._on(numbers)  # the venue began anew
        self._back = numbers.last
        return Step(taken=not self.drops, back=True)

    def _on(self, numbers: Numbers) -> Step:
        self.last, self.base, self._back = numbers.last, None, None
        return NEXT

    def _gap(self, numbers: Numbers, last: int) -> Step:
        if numbers.previous is not None:
            return Step(missing=1, between=(last, numbers.last))
        first = numbers.last if numbers.first is None else numbers.first
        return Step(missing=first - last - 1, between=(last, first))

    def _forget(self) -> None:
        self.kept.clear()
        self._kept_bytes = 0
        self._back = None
