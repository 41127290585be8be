"""A stock as its venue's directory describes it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["StockAttributes"]


@dataclass(frozen=True, slots=True)
class StockAttributes:
    """A stock as the directory message (type R) describes it, in the letters of the specification.

    ``locate`` is the stock locate. A blank letter is ``""``. ``round_lot_size`` counts shares.
    """

    locate: int
    market_category: str
    financial_status: str
    round_lot_size: int
    round_lots_only: str
    classification: str
    subtype: str
    authenticity: str
    short_sale_threshold: str
    ipo: str
    luld_tier: str
    etp: str
    etp_leverage: int
    inverse: str
