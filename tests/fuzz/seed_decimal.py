"""The seeds of fuzz_decimal.c: every form with fields of it, whole and spoilt."""

from __future__ import annotations

from collections.abc import Iterator

FIELDS = {
    1: "1.5,-0.000000001,1e-9,99999999999999999999,1.50000000000000000000000,.5,5.,1.2.3, 7 ,buy,sell,",
    2: "1,18446744073709551615,18446744073709551616,a1b2-c3,,00000000000000000000007",
    3: "1700000000,1700000000123,1700000000123456,1700000000123456789,-1",
    4: "09:30:00.5,9:30:00,93000000,093000123456789,235959999,24:00:00,0",
    5: "2023-12-05T09:30:00.123456789Z,20231205093000123,2023-12-05 09:30:00,2023-02-29T00:00:00",
    6: "20231205,2023-12-05,2024/02/29,19691231,2023.13.01",
}


def seeds() -> Iterator[tuple[str, bytes]]:
    """One file a form and scale."""
    for form, text in FIELDS.items():
        for scale in (0, 3, 9, 27):
            for allowed in range(4):
                seed = bytes([form, scale, allowed, 30]) + text.encode()
                yield f"{form}-{scale}-{allowed}", seed
