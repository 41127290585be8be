"""An ITCH 5.0 stream with the mix of types of a busy day, made quickly: input for the decoder's benchmarks.

Fields are random within their ranges; orders have no lifecycle, which a decoder does not look at. For streams whose
orders are consistent use ``strand gen itch``.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

#: Share of each type, and its length in bytes without the length field.
MIX: Final = {
    "A": (0.420, 36),
    "D": (0.400, 19),
    "U": (0.080, 35),
    "E": (0.045, 31),
    "X": (0.025, 23),
    "F": (0.015, 40),
    "C": (0.005, 36),
    "P": (0.010, 44),
}
SYMBOLS: Final = 8172
_SIDE_AT: Final = {"A": 19, "F": 19, "P": 19}
_CHUNK: Final = 250_000

Bytes = npt.NDArray[np.uint8]


def _messages_of_type(letter: str, count: int, length: int, rng: np.random.Generator, start_ns: int) -> Bytes:
    frames = rng.integers(0, 256, size=(count, length + 2), dtype=np.uint8)
    frames[:, 0:2] = np.frombuffer(length.to_bytes(2, "big"), np.uint8)
    message = frames[:, 2:]
    message[:, 0] = ord(letter)
    message[:, 1:3] = rng.integers(1, SYMBOLS + 1, size=count).astype(">u2").view(np.uint8).reshape(-1, 2)
    times = (start_ns + np.sort(rng.integers(0, 1_000_000_000, size=count))).astype(">u8").view(np.uint8)
    message[:, 5:11] = times.reshape(-1, 8)[:, 2:]
    if letter in _SIDE_AT:
        message[:, _SIDE_AT[letter]] = np.frombuffer(b"BS", np.uint8)[rng.integers(0, 2, size=count)]
    return frames


def synthesise(messages: int, seed: int = 1, *, true_lengths: bool = True) -> Bytes:
    """``messages`` frames as one array of bytes; all length fields are 0 unless ``true_lengths``."""
    letters = list(MIX)
    shares = np.array([share for share, _ in MIX.values()])
    frame_bytes = np.array([length + 2 for _, length in MIX.values()])
    rng = np.random.default_rng(seed)
    parts: list[Bytes] = []
    for start in range(0, messages, _CHUNK):
        which = rng.choice(len(letters), size=min(_CHUNK, messages - start), p=shares / shares.sum())
        ends = np.cumsum(frame_bytes[which])
        part = np.empty(int(ends[-1]), np.uint8)
        for i, letter in enumerate(letters):
            begins = ends[which == i] - frame_bytes[i]
            frames = _messages_of_type(letter, len(begins), int(frame_bytes[i]) - 2, rng, 34_200_000_000_000 + start)
            if not true_lengths:
                frames[:, 0:2] = 0
            part[begins[:, None] + np.arange(frame_bytes[i])] = frames
        parts.append(part)
    return np.concatenate(parts)
