"""Stretches of an ITCH file decoded by themselves: csrc/codec/itch/stripe.h."""

from __future__ import annotations

from typing import Any

import numpy as np

from strand.binding import ffi, lib
from strand.binding.itch import LOCATES, PREFIX_BYTES, ItchDecoder, message_length, new_state
from strand.ticks import empty

__all__ = ["Outlook", "Stripe", "StripeDecoder"]


class Outlook:
    """A copy of what a selection's decoder knows, for those who decode stripes of its stream.

    ``wanted``: by locate; not changed once it is made. ``names``: how many locates had a name when it was last found
    to hold.
    """

    def __init__(self, decoder: ItchDecoder) -> None:
        decoder.decided()
        self.wanted = np.empty(LOCATES, np.uint8)
        self.names = decoder.named_locates
        self.state: Any = new_state("sd_itch *")
        wanted = ffi.from_buffer("uint8_t[]", self.wanted, require_writable=True)
        lib.sd_itch_stripe_follow(self.state, decoder.state, wanted)

    def holds(self, decoder: ItchDecoder) -> bool:
        """Tells whether ``decoder`` still knows no more than this copy."""
        if self.names != decoder.named_locates and np.array_equal(self.wanted, decoder.decided()):
            self.names = decoder.named_locates
        return self.names == decoder.named_locates


class Stripe:
    """Room for what a stretch of ``size`` bytes becomes. One thread at a time.

    ``outlook``: what it was decoded with.
    """

    def __init__(self, size: int) -> None:
        # No message that makes a tick is shorter.
        self.ticks = empty(size // (PREFIX_BYTES + message_length(ord("D"))) + 2)
        self.state: Any = ffi.new("sd_itch_stripe *")
        self.state.ticks = ffi.from_buffer("sd_tick[]", self.ticks, require_writable=True)
        self.state.capacity = len(self.ticks)
        self.outlook: Outlook | None = None

    @property
    def begin(self) -> int | None:
        """Offset of the stripe's first frame; None where no usable frame was found."""
        return None if self.state.refused else int(self.state.begin)

    @property
    def end(self) -> int:
        """Offset of the end of the stripe's last frame."""
        return int(self.state.end)


class StripeDecoder:
    """Decodes stripes of a file, each by itself. One thread at a time. ``piece``: bytes read at once."""

    def __init__(self, piece: int) -> None:
        self._own: Any = new_state("sd_itch *")
        self._wanted = np.empty(LOCATES, np.uint8)
        self._buffer = np.empty(lib.SD_ITCH_STRIPE_HEADROOM + piece, np.uint8)
        self._piece = piece
        self._outlook: Outlook | None = None

    def take(self, fd: int, start: int, stop: int, outlook: Outlook, into: Stripe, *, exact: bool) -> None:
        """Decodes the frames that begin in bytes ``start`` to ``stop`` of the file; whatever the file, never raises.

        ``exact``: a frame begins at ``start``; else one is looked for from there on.
        """
        if self._outlook is not outlook:
            lib.sd_itch_stripe_follow(self._own, outlook.state, ffi.from_buffer("uint8_t[]", self._wanted))
        stripe = into.state
        stripe.start, stripe.stop, stripe.exact = start, stop, int(exact)
        into.outlook = outlook
        lib.sd_itch_stripe_take(self._own, fd, stripe, ffi.from_buffer("uint8_t[]", self._buffer), self._piece)
        self._outlook = None if stripe.refused else outlook
