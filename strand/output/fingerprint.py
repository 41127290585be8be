"""Fingerprints: whether two runs left the same, in 32 characters.

A symbol's digest is BLAKE2b over its name, its number of ticks, its row's layout, and the row's declared fields. The
padding between fields is left out. The digests of all symbols are added as pairs of 64-bit numbers: the sum does not
depend on how symbols are numbered, and where a few symbols changed it is brought up to date by those alone. A
fingerprint is BLAKE2b over that sum and the outputs' digests.

It tells runs apart that differ by accident. It is no signature: two runs with one fingerprint can be made on purpose.
BLAKE2b comes with Python and is the same everywhere. On rows of this size it takes as long as the calls around it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from strand.output.rows import near_filled
from strand.ticks import joined
from strand.units import undeclared

if TYPE_CHECKING:
    from hashlib import blake2b

    from strand.output.rows import Rows

DIGEST_BYTES: Final = 16
#: Ticks that wait to be hashed: to hash a symbol's ticks together costs far less than one by one.
HELD_TICKS: Final = 1 << 18
#: Records of an output that are packed at a time: they fit into a cache.
PART_RECORDS: Final = 4096
Digests = npt.NDArray[np.uint64]


class Names(Protocol):
    """The names of symbols by their index."""

    def __getitem__(self, index: int, /) -> str: ...


def layout_of(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The declared fields of a structured dtype, one behind the other, without the padding between them."""
    base, shape = (dtype.base, dtype.shape)
    if base.fields is None:
        return undeclared(dtype)
    inner = np.dtype([(name, layout_of(base.fields[name][0])) for name in base.names or ()])
    return np.dtype((inner, shape)) if shape else inner


def packed(rows: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """The bytes of the rows' declared fields, shape (n, bytes a row)."""
    layout = layout_of(rows.dtype)
    out = np.zeros(len(rows), layout)
    _assign(out, rows)
    return out.view(np.uint8).reshape(len(rows), layout.itemsize)


def _assign(out: npt.NDArray[Any], rows: npt.NDArray[Any]) -> None:
    """Copies the fields that ``out`` has one by one: numpy copies whole records much more slowly."""
    for name in out.dtype.names or ():
        if out.dtype[name].names is None:
            out[name] = rows[name]
        else:
            _assign(out[name], rows[name])


def hash_of(data: bytes = b"", size: int = DIGEST_BYTES) -> blake2b:
    """A hash that is fed with the data. hashlib is imported when a digest is asked for: it brings OpenSSL."""
    from hashlib import blake2b

    return blake2b(data, digest_size=size)


def row_head(layout: np.dtype[Any]) -> bytes:
    """The bytes that stand for a row's layout in its digest: from the names and types of the fields."""
    return hash_of(repr(layout.descr).encode(), 8).digest()


def row_heads(names: Names, at: Sequence[int], counts: Sequence[int], layout: bytes) -> list[bytes]:
    """The bytes that stand before a symbol's row in its digest: ``at`` the symbols' indices, ``counts`` their ticks,
    ``layout`` of ``row_head``."""
    return [b"%b%d %b\0" % (layout, count, names[i].encode()) for i, count in zip(at, counts, strict=True)]


def row_digests(heads: Sequence[bytes], rows: npt.NDArray[np.uint8]) -> Digests:
    """The digests of some symbols, shape (n, 2), of their heads and their rows' packed bytes, shape (n, bytes a
    row)."""
    from hashlib import blake2b

    data, width = rows.tobytes(), rows.shape[1]
    places = range(0, len(heads) * width, width) if width else [0] * len(heads)
    digests = (
        blake2b(head + data[place : place + width], digest_size=DIGEST_BYTES).digest()
        for head, place in zip(heads, places, strict=True)
    )
    return _as_array(digests)


def _as_array(digests: Iterable[bytes]) -> Digests:
    return np.frombuffer(b"".join(digests), "<u8").reshape(-1, 2)


def digest_sum(digests: Digests) -> npt.NDArray[np.uint64]:
    """The sum of digests, shape (2,), modulo 2^64 each."""
    total: npt.NDArray[np.uint64] = digests.sum(axis=0, dtype=np.uint64)
    return total


class OutputDigest:
    """The digest of an output's records as they come: fed in pieces of any size, it depends on the records alone.

    With ``names``, the symbols' names by index, a record's ``instrument_id`` stands for its symbol's name.
    """

    def __init__(self, dtype: np.dtype[Any], names: Sequence[str] = ()) -> None:
        self.records = 0
        layout = layout_of(dtype)
        self._first = hash_of(row_head(layout))
        self._hash = self._first.copy()
        self._names = names
        self._name_ids = np.zeros(len(names), np.uint64)
        # A record is hashed as its symbol's name, where there are names, and its fields without padding.
        self._part = np.zeros(PART_RECORDS, [*([("name", "<u8")] if len(names) else []), ("record", layout)])

    def beside(self) -> OutputDigest:
        """Digest of other records of the same kind, fed by the same thread: the two share their working memory."""
        made = copy.copy(self)
        made.records, made._hash = 0, self._first.copy()
        return made

    def add(self, records: npt.ArrayLike) -> None:
        """Takes in the next records, shape (n,), in the output's order."""
        records = np.asarray(records)
        self.records += len(records)
        for at in range(0, len(records), PART_RECORDS):
            self._add_part(records[at : at + PART_RECORDS])

    def _add_part(self, records: npt.NDArray[Any]) -> None:
        part = self._part[: len(records)]
        into = part["record"]
        if records.dtype == into.dtype:
            # There is no padding to leave out. As one field numpy copies a record at once.
            into.view(f"V{into.itemsize}")[:] = records.view(f"V{into.itemsize}")
        else:
            _assign(into, records)
        if len(self._names):
            keys = np.ascontiguousarray(records["instrument_id"])
            part["record"]["instrument_id"] = 0
            part["name"] = self._ids(keys)
        self._hash.update(part.view(np.uint8).data)

    def _ids(self, keys: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint64]:
        ids = self._name_ids[keys]
        if not ids.all():
            for key in set(keys[ids == 0].tolist()):
                digest = hash_of(self._names[key].encode(), 8).digest()
                self._name_ids[key] = int.from_bytes(digest, "little") | 1  # 0: not known yet
            ids = self._name_ids[keys]
        return ids

    def digest(self) -> bytes:
        """Digest of all records so far."""
        return self._hash.digest()


def fingerprint_of(
    total: npt.NDArray[np.uint64], outputs: Mapping[str, OutputDigest] | None = None, rows: Rows | None = None
) -> str:
    """A fingerprint, 32 hexadecimal digits: of the sum of the symbols' digests, and by name of outputs and of shared
    ``rows``."""
    whole = hash_of(total.astype("<u8").tobytes())
    digests = dict(outputs or {})
    for name, row in ({} if rows is None else rows.shared.records()).items():
        digests[name] = OutputDigest(row.dtype)
        digests[name].add(row)
    for name, output in sorted(digests.items()):
        whole.update(b"%b\0%d " % (name.encode(), output.records) + output.digest())
    return whole.hexdigest()


class RowBytes:
    """The rows of all symbols as bytes. ``changed`` gives those that differ from its last call.

    Only symbols count that had a tick, or whose row is not all zeros. So indices that a feed keeps free do not count.
    Their digest is zero, as is that of a symbol whose row and ticks are back at their beginning.
    """

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._heads = [row_head(layout_of(view.dtype)) for _, view in rows.by_handler()]
        self._seen = [np.zeros((0, 0), np.uint8)] * len(self._heads)

    def changed(
        self, names: Names, counts: npt.NDArray[np.int64], touched: npt.NDArray[np.bool_] | None = None
    ) -> Iterator[tuple[list[int], Digests]]:
        """Yields, for each handler, the indices of its symbols that differ from the last call, and their digests
        now.

        ``counts``: ticks by symbol. ``touched``: symbols to give although their row is the same; None, for the first
        call: all that had a tick.
        """
        for number, (at, view) in enumerate(self._rows.by_handler()):
            # Most rows may be zeros, of symbols that the feed never had, so only the others are copied.
            places, before = near_filled(view), self._seen[number]
            filled = packed(view[places])
            now = np.zeros((len(view), filled.shape[1]), np.uint8)
            now[places] = filled
            if len(before):
                differs = (now != before).any(axis=1)
            else:
                differs = np.zeros(len(view), bool)
                differs[places] = filled.any(axis=1)
            differs |= counts[at] > 0 if touched is None else touched[at]
            self._seen[number] = now
            mine = np.flatnonzero(differs)
            if len(mine):
                chosen = at[mine].tolist()
                heads = row_heads(names, chosen, counts[at[mine]].tolist(), self._heads[number])
                digests = row_digests(heads, now[mine])
                yield chosen, np.where(((counts[at[mine]] > 0) | now[mine].any(axis=1))[:, None], digests, np.uint64(0))


def fingerprint_of_rows(
    rows: Rows, names: Names, counts: npt.NDArray[np.int64], outputs: Mapping[str, OutputDigest] | None = None
) -> str:
    """The fingerprint of rows at rest, of the ticks by symbol, and of outputs."""
    sums = [digest_sum(digests) for _, digests in RowBytes(rows).changed(names, counts)]
    return fingerprint_of(digest_sum(np.array(sums, np.uint64).reshape(-1, 2)), outputs, rows)


class Running:
    """Digests of each symbol's ticks so far.

    The ticks' ``instrument_id`` is left out, because it numbers the symbols of one feed. It takes about half a KB per
    symbol, and keeps up to ``HELD_TICKS`` ticks to hash them together.
    """

    def __init__(self, key: str = "instrument_id") -> None:
        self._key = key
        self._hashes: dict[int, Any] = {}
        self._held: list[npt.NDArray[Any]] = []
        self._n_held = 0

    def add(self, ticks: npt.NDArray[Any]) -> None:
        """Takes in the next ticks, of any symbols. The array may be reused."""
        self._held.append(ticks.copy())
        self._n_held += len(ticks)
        if self._n_held >= HELD_TICKS:
            self._take_in()

    def _take_in(self) -> None:
        if not self._n_held:
            return
        ticks = joined(self._held)
        self._held, self._n_held = [], 0
        keys = ticks[self._key].copy()
        ticks[self._key] = 0
        order = np.argsort(keys, kind="stable")
        # numpy copies records field by field, unless they are viewed as one field.
        size = ticks.dtype.itemsize
        data = ticks.view(f"V{size}")[order].tobytes()
        keys = keys[order]
        starts = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]])
        ends = np.append(starts[1:], len(keys)) * size
        hashes = self._hashes
        for key, start, end in zip(keys[starts].tolist(), (starts * size).tolist(), ends.tolist(), strict=True):
            if key not in hashes:
                hashes[key] = hash_of()
            hashes[key].update(data[start:end])

    def digests(self, names: Names, at: Iterable[int]) -> Digests:
        """Digests of the symbols at some indices and their names, shape (n, 2); zero for symbols without ticks."""
        self._take_in()
        found = []
        for i in at:
            if i in self._hashes:
                so_far = self._hashes[i].copy()
                so_far.update(names[i].encode())
                found.append(so_far.digest())
            else:
                found.append(bytes(DIGEST_BYTES))
        return _as_array(found)
