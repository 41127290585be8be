"""Common part of the decoders of csrc/codec: a structure and one function (csrc/codec/decoder.h)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from strand.binding import ffi
from strand.binding.gate import Code, refusal
from strand.binding.memory import held
from strand.errors import FeedError

__all__ = ["NAME_BYTES", "NO_NAME", "Decoder", "Keeps", "letter_of"]

#: Of a symbol's name, as ITCH and PITCH have it.
NAME_BYTES: Final = 8

#: Says of names which of them are wanted, in their order. Names have ``NAME_BYTES`` bytes of ASCII, padded with blanks
#: on the right; one of blanks alone stands for what has none.
Keeps = Callable[[npt.NDArray[np.bytes_]], npt.NDArray[np.bool_]]
NO_NAME: Final = np.array([b" " * NAME_BYTES])

_FOREVER: Final = (1 << 64) - 1


class Decoder(ABC):
    """Decoder of one stream. Not for two threads at once."""

    #: The ``sd_decode`` of the format, a pointer to C's function.
    function: ClassVar[Any]
    #: The most ticks that one record makes.
    max_per_record: ClassVar[int] = 1
    #: Short reasons by fault, for what is skipped.
    reasons: ClassVar[Mapping[int, str]]

    def __init__(self, state: Any) -> None:
        self._state = state

    @property
    def state(self) -> Any:
        """C's structure, for a feeder, and for decoders of what the stream travels in."""
        return self._state

    def decode(self, data: memoryview, *, last: bool, out: npt.NDArray[Any]) -> tuple[int, int, bool]:
        """Decodes ``data`` into ``out`` (contiguous, of dtype ``strand.TICK``, ``max_per_record`` long or more).

        Returns the ticks made, the bytes consumed, and whether all is well; if not, ``fault`` says what is wrong.
        The bytes not consumed must lead the next call's ``data``. ``last``: nothing follows ``data``. Raises
        MemoryError where the decoder needs memory of its own and there is none.
        """
        ticks, size, capacity = ffi.from_buffer("sd_tick[]", out, require_writable=True), len(data), len(out)
        made = used = 0
        with held(data) as source:
            while True:
                did = self.function(self._state, source + used, size - used, int(last), ticks + made, capacity - made)
                made += did.made
                used += did.consumed
                if did.code != Code.AGAIN or not self.answer(data[:used]):
                    return made, used, self.is_sound(did.code)

    def answer(self, passed: memoryview) -> bool:
        """Answers what the decoder stopped for. ``passed``: the bytes before that. Returns whether it may go on."""
        raise NotImplementedError

    def is_sound(self, code: int) -> bool:
        """Tells whether a call succeeded, by its code. Raises MemoryError."""
        if code == Code.NO_MEMORY:
            raise refusal(code, f"there is no memory for {self._needs}", MemoryError)
        return code == Code.OK

    @property
    def _needs(self) -> str:
        """Name of the memory that the decoder needs beside its structure, for error texts."""
        raise NotImplementedError

    @abstractmethod
    def fault(self, path: str | Path) -> FeedError:
        """The error that ended the last ``decode``, to be raised."""

    def skips(self) -> dict[str, int]:
        """Records that were skipped since the first byte, by reason."""
        counts = self._state.skips
        return {reason: counts[fault] for fault, reason in self.reasons.items() if counts[fault]}

    @property
    def has_samples(self) -> bool:
        """True if ``skip_samples`` has something to give."""
        return bool(self._state.sampled)

    @abstractmethod
    def skip_samples(self) -> list[tuple[str, dict[str, Any]]]:
        """Samples of what was passed over since the last call: a reason each, with the arguments ``offset``, ``line``
        and ``text`` of ``Skipped.add``."""

    @abstractmethod
    def statistics(self) -> dict[str, int]:
        """Counts since the first byte."""

    def _take_samples(self) -> list[Any]:
        """C's own samples since the last call."""
        state = self._state
        found = [state.samples[i] for i in range(state.sampled)]
        state.sampled = 0
        return found

    def _select(self, start_ns: int | None, end_ns: int | None) -> None:
        """Makes ticks only from ``start_ns`` to before ``end_ns``."""
        state = self._state
        state.selective = 1
        state.start_ns = start_ns or 0
        state.span_ns = min((_FOREVER + 1 if end_ns is None else end_ns) - state.start_ns, _FOREVER)

    def _types(self, form: str) -> dict[str, int]:
        """Messages by type, each named by its number in this form."""
        return {form.format(i): n for i, n in enumerate(self._state.counts) if n}


def letter_of(byte: int) -> str:
    """A byte as messages show it."""
    return repr(chr(byte)) if 0x20 <= byte <= 0x7E else f"0x{byte:02x}"
