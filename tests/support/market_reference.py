"""A market's events, and what each built-in handler has to say of them, in plain Python.

Events come from the messages of a venue or the cells of a file: nothing of Strand reads them. Sums are exact fractions.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import groupby, pairwise
from typing import Any

import measure_reference as measures
from bar_reference import CUT, PARTIAL, bar, empty_bar
from measure_reference import Top

NANO = 10**9


@dataclass(frozen=True)
class Trade:
    """``price``: 1e-9, None where nobody knows it. ``aggressor``: B, A, or N. ``before``: the quotes it met."""

    ts: int
    price: int | None
    size: int
    aggressor: str
    before: Top
    hidden: bool = False
    cross: bool = False
    order: int = 0
    match: int = 0


@dataclass(frozen=True)
class Quote:
    """The best of both sides from ``ts`` on."""

    ts: int
    top: Top


@dataclass(frozen=True)
class Day:
    """A new day begins."""

    ts: int


Event = Trade | Quote | Day


# ---- ITCH


@dataclass
class ItchBook:
    """One symbol's orders, of ITCH messages as (letter, ns, fields) without the stock's name."""

    orders: dict[int, list[Any]] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)

    def top(self) -> Top:
        best: dict[str, tuple[int | None, int]] = {}
        for side, choose in (("B", max), ("S", min)):
            prices = [price for its, price, _ in self.orders.values() if its == side]
            price = choose(prices) if prices else None
            size = sum(shares for its, at, shares in self.orders.values() if its == side and at == price)
            best[side] = price, size
        return Top(*best["B"], *best["S"])

    def begin_day(self, ts: int) -> None:
        self.orders.clear()
        self.events.append(Day(ts))

    def apply(self, letter: str, ts: int, *fields: Any) -> None:
        before = self.top()
        if letter in "AF":
            order, side, shares, price = fields
            self.orders.setdefault(order, [side, price * 10**5, shares])
        elif letter == "E":
            self._execute(ts, before, *fields)
        elif letter == "C":
            order, shares, match, printable, price = fields
            self._execute(ts, before, order, shares, match, price=price * 10**5, counts=printable == "Y")
        elif letter == "X":
            self._take(*fields)
        elif letter == "D":
            self.orders.pop(fields[0], None)
        elif letter == "U":
            old, new, shares, price = fields
            was = self.orders.pop(old, None)
            if was is not None:
                self.orders[new] = [was[0], price * 10**5, shares]
        elif letter == "P":
            shares, price = fields
            price *= 10**5
            aggressor = "N"
            if before.ask is not None and price >= before.ask:
                aggressor = "B"
            elif before.bid is not None and price <= before.bid:
                aggressor = "A"
            self.events.append(Trade(ts, price, shares, aggressor, before, hidden=True, match=5))
        elif letter == "Q":
            shares, price = fields
            if shares:
                self.events.append(Trade(ts, price * 10**5, shares, "N", before, cross=True, match=6))
        now = self.top()
        if now != before:
            self.events.append(Quote(ts, now))

    def _execute(
        self,
        ts: int,
        before: Top,
        order: int,
        shares: int,
        match: int,
        *,
        price: int | None = None,
        counts: bool = True,
    ) -> None:
        met = self.orders.get(order)
        if counts:
            at = price if price is not None else met[1] if met else None
            aggressor = {"B": "A", "S": "B"}[met[0]] if met else "N"
            self.events.append(Trade(ts, at, shares, aggressor, before, order=order, match=match))
        self._take(order, shares)

    def _take(self, order: int, shares: int) -> None:
        met = self.orders.get(order)
        if met is not None:
            met[2] -= shares
            if met[2] <= 0:
                del self.orders[order]


def itch_messages(rng: random.Random, start: int, count: int) -> list[tuple[str, int, tuple[Any, ...]]]:
    """A symbol's messages of a day: adds, executions of all kinds, cancels, replaces, hidden trades, crosses, and
    now and then a message of an order that nobody added. Prices are in 1e-4, and cross at times."""
    live: dict[int, tuple[str, int]] = {}
    made: list[tuple[str, int, tuple[Any, ...]]] = []
    ns, ids = start, iter(range(1, 10**6))

    def price(side: str) -> int:
        return 1_000_000 + rng.randrange(8) * 100 * (-1 if side == "B" else 1) + rng.choice((0, 0, 0, 0, 150, -150))

    for at in range(count):
        ns += rng.choice((0, 1, 900, 40_000_000, 700_000_000))
        letter = rng.choice("AAAAAAFFEEEECCXXXDDUUUPPQ")
        if at in (0, count - 1):
            letter = "Q"  # the opening and the closing cross
        elif letter in "ECXDU" and (not live or rng.random() < 0.03):
            letter = rng.choice("AAAAECXDU")
            live.setdefault(10**9 + rng.randrange(5), ("B", 0))
        if letter in "AF":
            order, side = next(ids), rng.choice("BS")
            live[order] = side, 0
            made.append((letter, ns, (order, side, rng.randrange(1, 9) * 100, price(side))))
        elif letter == "P":
            made.append((letter, ns, (rng.randrange(1, 500), price(rng.choice("BS")) + rng.choice((0, 50)))))
        elif letter == "Q":
            made.append((letter, ns, (rng.choice((0, 700)), price("B"))))
        else:
            order = rng.choice(list(live))
            shares = rng.randrange(1, 5) * 100
            if letter == "E":
                made.append((letter, ns, (order, shares, next(ids))))
            elif letter == "C":
                made.append((letter, ns, (order, shares, next(ids), rng.choice("YYN"), price("B"))))
            elif letter == "X":
                made.append((letter, ns, (order, shares)))
            elif letter == "D":
                del live[order]
                made.append((letter, ns, (order,)))
            else:
                new = next(ids)
                side, _ = live.pop(order)
                live[new] = side, 0
                made.append((letter, ns, (order, new, rng.randrange(1, 9) * 100, price(side))))
    return made


# ---- what handlers say


def days_of(events: Iterable[Event]) -> list[list[Event]]:
    """The events of each day."""
    found: list[list[Event]] = [[]]
    for event in events:
        if isinstance(event, Day):
            found.append([])
        else:
            found[-1].append(event)
    return found


def changes_of(day: Iterable[Event]) -> list[tuple[int, Top]]:
    """Changes of the top with their times. A day begins with an empty top."""
    found: list[tuple[int, Top]] = []
    for event in day:
        if isinstance(event, Quote) and event.top != (found[-1][1] if found else Top()):
            found.append((event.ts, event.top))
    return found


def trades_of(events: Iterable[Event], *, crosses: bool = True) -> list[Trade]:
    return [event for event in events if isinstance(event, Trade) and (crosses or not event.cross)]


def average(trades: Sequence[Trade]) -> dict[str, Any]:
    """Row of ``vwap``."""
    priced = [(t.price, t.size) for t in trades if t.price is not None]
    volume = sum(size for _, size in priced)
    notional = Fraction(sum(price * size for price, size in priced), NANO)
    return {
        "trades": len(priced),
        "volume": volume,
        "notional": float(notional),
        "vwap": float(notional / volume) if volume else 0.0,
        "unpriced": len(trades) - len(priced),
    }


def statistics(days: Sequence[Sequence[Trade]], *, sign: str) -> dict[str, Any]:
    """Row of ``trade_stats``."""
    every = [t for day in days for t in day]
    priced = [t for t in every if t.price is not None]
    sizes = [t.size for t in priced]
    signs: list[int] = []
    for day in days:
        direction, last = 0, None
        for t in day:
            if t.price is None:
                continue
            if last is not None and t.price != last:
                direction = 1 if t.price > last else -1
            last = t.price
            signs.append(direction if sign == "tick" else {"B": 1, "A": -1, "N": 0}[t.aggressor])
    found = average(every)
    del found["vwap"]
    mean = Fraction(sum(sizes), len(sizes)) if sizes else Fraction(0)
    squares = sum((size - mean) ** 2 for size in sizes)
    return found | {
        "size_mean": float(mean),
        "size_variance": float(squares / (len(sizes) - 1)) if len(sizes) > 1 else 0.0,
        "size_min": min(sizes),
        "size_max": max(sizes),
        "price_min": min(t.price for t in priced),
        "price_max": max(t.price for t in priced),
        "price_first": priced[0].price,
        "price_last": priced[-1].price,
        "signed_volume": sum(sign * size for sign, size in zip(signs, sizes, strict=True)),
        "buys": signs.count(1),
        "sells": signs.count(-1),
        "first_time": priced[0].ts,
        "last_time": max(t.ts for t in priced),
        "interarrival_ns": float(Fraction(priced[-1].ts - priced[0].ts, len(priced) - 1)) if len(priced) > 1 else 0.0,
    }


def spreads(events: Sequence[Event], *, crosses: bool = True) -> dict[str, Any]:
    """Row of ``spread``."""
    shown: list[tuple[Top, int]] = []
    pairs: list[tuple[int, int, Top]] = []
    unmatched = 0
    quotes: list[Top] = []
    for day in days_of(events):
        counted = [e for e in day if not (isinstance(e, Trade) and e.cross and not crosses)]
        tops = changes_of(counted)
        if tops:
            shown += measures.spans(tops, counted[-1].ts, None)
        quotes += [top for _, top in tops]
        for trade in (e for e in counted if isinstance(e, Trade)):
            if trade.price is None or not trade.before.sound:
                unmatched += 1
            else:
                pairs.append((trade.price, trade.size, trade.before))
    sound = [(top, ns) for top, ns in shown if top.sound]
    total = sum(ns for _, ns in sound)
    relative = sum(Fraction(2 * (top.ask - top.bid) * ns, top.ask + top.bid) for top, ns in sound)
    weighted, plain = measures.effective(pairs) if pairs else (0.0, 0.0)
    both = [top for top in quotes if top.bid is not None and top.ask is not None]
    return {
        "quotes": len(quotes),
        "locked": sum(top.bid >= top.ask for top in both),
        "one_sided": len(quotes) - len(both),
        "quoted_ns": total,
        "relative_ns": total,
        "unusable": 0,
        "quoted": float(Fraction(sum((top.ask - top.bid) * ns for top, ns in sound), total * NANO)),
        "relative": float(relative / total),
        "trades": len(pairs),
        "volume": sum(size for _, size, _ in pairs),
        "unmatched": unmatched,
        "effective": weighted,
        "effective_mean": plain,
    }


def flows(events: Sequence[Event]) -> dict[str, Any]:
    """Row of ``imbalance``."""
    flow = changes = quotes = ns = 0
    weighted = Fraction(0)
    for day in days_of(events):
        tops = changes_of(day)
        quotes += len(tops)
        changes += max(0, len(tops) - 1)
        flow += sum(measures.order_flow(was, now) for (_, was), (_, now) in pairwise(tops))
        end = max((e.ts for e in day if isinstance(e, Quote)), default=0)
        for top, lasted in measures.spans(tops, end, None) if tops else []:
            queue = measures.queue(top)
            if queue is not None:
                ns += lasted
                weighted += queue * lasted
    return {"quotes": quotes, "events": changes, "ofi": flow, "queue_ns": ns, "queue_mean": float(weighted / ns)}


def variations(
    events: Sequence[Event], feed_end: int, *, ticks: int = 0, step: int = 0, crosses: bool = True
) -> dict[str, Any]:
    """Row of ``volatility``: of every ``ticks``-th price, or of the last one before each point of a grid."""
    found = {"rv": 0.0, "bv": 0.0, "sum": 0.0, "returns": 0, "prices": 0, "left_out": 0}
    ends = [e.ts for e in events if isinstance(e, Day)] + [feed_end]
    for end, day in zip(ends, days_of(events), strict=True):
        trades = trades_of(day, crosses=crosses)
        prices = [(t.ts, t.price) for t in trades if t.price is not None]
        found["prices"] += len(prices)
        found["left_out"] += len(trades) - len(prices)
        if not prices:
            continue
        sampled = [price for _, price in prices][::ticks] if ticks else _on_grid(prices, step, trades[-1].ts, end)
        of = measures.variation(sampled)
        for name in ("rv", "bv", "sum", "returns"):
            found[name] += of[name]
    return found


def _on_grid(prices: list[tuple[int, int]], step: int, last: int, end: int) -> list[int]:
    """The samples up to the last trade, and one more where the price differs from the last of them, if its point comes
    in time."""
    found = measures.on_grid(prices, step, last)
    point = (last // step + 1) * step
    if point <= end and (not found or prices[-1][1] != found[-1]):
        found.append(prices[-1][1])
    return found


def windows(events: Sequence[Event], feed_end: int, *, step: int, every: int) -> list[dict[str, Any]]:
    """Records that ``volatility`` emits: none begins after the window of a day's last trade."""
    found = []
    ends = [e.ts for e in events if isinstance(e, Day)] + [feed_end]
    for number, (day_end, day) in enumerate(zip(ends, days_of(events), strict=True)):
        trades = trades_of(day)
        prices = [(t.ts, t.price) for t in trades if t.price is not None]
        last = trades[-1].ts
        whole = (last // every + 1) * every
        sampled = measures.on_grid(prices, step, whole) if whole <= day_end else _on_grid(prices, step, last, day_end)
        first = (prices[0][0] // step + 1) * step
        participants = [(first + k * step - 1) // every for k in range(len(sampled))]
        for participant in sorted(set(participants[1:])):
            at = [k for k, its in enumerate(participants) if its == participant and k > 0]
            of = measures.variation(sampled[at[0] - 1 : at[-1] + 1])
            start, end = participant * every, (participant + 1) * every
            is_last = number == len(ends) - 1
            found.append(
                {
                    "start": start, "end": end if is_last else min(end, day_end), "returns": of["returns"],
                    "rv": of["rv"], "sum": of["sum"], "flags": PARTIAL if is_last and end > day_end else 0,
                }
            )  # fmt: skip
    return found


def spread_intervals(events: Sequence[Event], feed_end: int, *, every: int, fill: bool) -> list[dict[str, Any]]:
    """Records that ``spread`` emits: none begins after the interval of a day's last event."""
    found = []
    ends = [e.ts for e in events if isinstance(e, Day)] + [feed_end]
    for number, (day_end, day) in enumerate(zip(ends, days_of(events), strict=True)):
        tops = changes_of(day)
        is_last = number == len(ends) - 1
        for participant in range(day[0].ts // every, day[-1].ts // every + 1):
            start, end = participant * every, (participant + 1) * every
            until = end if end <= day_end else day[-1].ts
            shown = [(top, ns) for top, ns in measures.spans(tops, until, [(start, end)]) if top.sound] if tops else []
            ns = sum(lasted for _, lasted in shown)
            trades = [e for e in day if isinstance(e, Trade) and start <= e.ts < end]
            if not trades and not any(start <= ts < end for ts, _ in tops) and not (fill and ns):
                continue
            matched = [t for t in trades if t.price is not None and t.before.sound]
            absolute = sum((top.ask - top.bid) * lasted for top, lasted in shown)
            found.append(
                {
                    "start": start, "end": end if is_last else min(end, day_end), "quoted_ns": ns,
                    "trades": len(matched), "volume": sum(t.size for t in matched),
                    "unmatched": len(trades) - len(matched), "flags": PARTIAL if is_last and end > day_end else 0,
                }
                | ({"quoted": float(Fraction(absolute, ns * NANO))} if ns else {})
            )  # fmt: skip
    return found


def time_bars(
    events: Sequence[Event], step: int, feed_end: int, *, crosses: bool = True, fill: bool = False
) -> list[dict[str, Any]]:
    """Bars by time; what a day's end cuts ends there. ``feed_end``: the greatest time of the whole feed.

    ``fill``: those without a trade too, between two trades of one day.
    """
    found = []
    boundaries = [e.ts for e in events if isinstance(e, Day)]
    for number, day in enumerate(days_of(events)):
        trades = [t for t in trades_of(day, crosses=crosses) if t.price is not None]
        before: int | None = None
        for participant, group in groupby(trades, key=lambda t: t.ts // step):
            for empty in range(before + 1, participant) if fill and before is not None else ():
                found.append(empty_bar(found[-1]["close"], empty * step, (empty + 1) * step))
            before = participant
            start, end, flags = participant * step, (participant + 1) * step, 0
            if number < len(boundaries):
                if boundaries[number] < end:
                    end, flags = boundaries[number], CUT
            elif end > feed_end:
                flags = PARTIAL
            found.append(bar(list(group), start, end, flags))
    return found


def counted_bars(events: Sequence[Event], full: Any) -> list[dict[str, Any]]:
    """Bars that close once ``full(trades)``; a day's end cuts one, the feed's leaves one partial."""
    found = []
    days = days_of(events)
    for number, day in enumerate(days):
        of: list[Trade] = []
        for trade in trades_of(day):
            if trade.price is None:
                continue
            of.append(trade)
            if full(of):
                found.append(bar(of, of[0].ts, of[-1].ts, 0))
                of = []
        if of:
            found.append(bar(of, of[0].ts, of[-1].ts, CUT if number + 1 < len(days) else PARTIAL))
    return found


# ---- tables


def tops(events: Iterable[Event]) -> list[tuple[int, Top]]:
    """Records that ``bbo`` emits: each top that differs from the one before it; a day's end empties it."""
    found, top = [], Top()
    for event in events:
        now = event.top if isinstance(event, Quote) else Top() if isinstance(event, Day) else top
        if now != top:
            found.append((event.ts, now))
        top = now
    return found
