"""Text to integers in C: against decimal, datetime and a dict, for any text."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strand.binding.columns import (
    CLOCK,
    DATE,
    DECIMAL,
    EPOCH,
    FAULT_WORDS,
    HEX,
    ID,
    STAMP,
    ZONE_ALWAYS,
    ZONE_NEVER,
    Letters,
    Lines,
    Names,
    Numbers,
    TextColumn,
    count_byte,
    line_ends,
)

pytestmark = pytest.mark.python

I64 = (1 << 63) - 1
DIGITS = st.text("0123456789", max_size=24)
SIGN = st.sampled_from(["", "+", "-"])
EXPONENT = st.one_of(st.just(""), st.integers(-30, 30).map(lambda power: f"e{power}"))


def column(texts: list[bytes]) -> TextColumn:
    offsets = np.cumsum([0, *(len(text) for text in texts)]).astype(np.int32)
    return TextColumn(offsets, b"".join(texts) or b"\0", rows=len(texts))


def read(numbers: Any, texts: list[bytes], dtype: str = "i8") -> tuple[list[int], list[int]]:
    out, faults = np.zeros(len(texts), dtype), np.zeros(len(texts), np.uint16)
    bad = numbers.read(column(texts), 3, out, faults)
    assert bad == np.count_nonzero(faults)
    assert all(fault >> 8 == 3 for fault in faults[faults != 0].tolist())
    return out.tolist(), (faults & 0xFF).tolist()


def exactly(text: str, scale: int) -> int | None:
    """The integer that ``text`` is times 10^scale, or None where there is none in 64 bits."""
    value = Decimal(text).scaleb(scale)
    whole = int(value)
    return whole if whole == value and abs(whole) <= I64 else None


@given(SIGN, DIGITS, st.one_of(st.none(), DIGITS), EXPONENT, st.integers(-12, 12))
def test_decimal_text_becomes_the_very_integer_or_a_fault(
    sign: str, whole: str, fraction: str | None, exponent: str, scale: int
) -> None:
    text = sign + whole + ("" if fraction is None else "." + fraction) + exponent
    ((value,), (fault,)) = read(Numbers(DECIMAL, scale), [text.encode()])
    if not whole and not fraction:
        assert fault == (2 if text else 1)
        return
    expected = exactly(text, scale)
    if len((whole + (fraction or "")).lstrip("0").rstrip("0")) <= 19 and len(whole.lstrip("0")) <= 19:
        assert (fault == 0) == (expected is not None)
    if fault == 0:
        assert value == expected


@given(
    st.sampled_from([DECIMAL, ID, EPOCH]),
    st.integers(-3, 9),
    st.lists(
        st.one_of(st.from_regex(r"[+-]?[0-9]{0,12}(\.[0-9]{0,12})?", fullmatch=True), st.text("01.9+-e ", max_size=20))
    ),
)
def test_a_field_is_the_same_number_alone_and_among_others(form: int, scale: int, texts: list[str]) -> None:
    numbers = Numbers(form, scale if form == DECIMAL else 0)
    fields = [text.encode() for text in texts]
    alone = [read(numbers, [field]) for field in fields]
    values, faults = read(numbers, [*fields, b"7" * 16])
    assert values[:-1] == [value for ((value,), _) in alone]
    assert faults[:-1] == [fault for (_, (fault,)) in alone]


@given(st.decimals(min_value=-9_000_000_000, max_value=9_000_000_000, places=9))
def test_every_price_in_1e_9_is_exact(price: Decimal) -> None:
    assert read(Numbers(DECIMAL, 9), [f"{price:f}".encode()]) == ([int(price.scaleb(9))], [0])


@given(st.binary(max_size=24), st.sampled_from([DECIMAL, ID, EPOCH, CLOCK, STAMP, DATE]), st.integers(0, 9))
def test_any_bytes_are_a_number_or_a_fault(text: bytes, form: int, scale: int) -> None:
    (_, (fault,)) = read(Numbers(form, scale), [text])
    assert 0 <= fault <= 4


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", 1),
        ("   ", 1),
        ("abc", 2),
        ("1.2.3", 2),
        ("1,5", 2),
        ("0x10", 2),
        ("1e", 2),
        (".", 2),
        ("-", 2),
        ("nan", 2),
        ("inf", 2),
        ("1_000", 2),
        ("1.0000000001", 3),
        ("1e-10", 3),
        ("9223372037", 4),
        ("99999999999999999999", 4),
        ("1e400", 4),
    ],
)
def test_what_is_no_price_says_why(text: str, fault: int) -> None:
    assert read(Numbers(DECIMAL, 9), [text.encode()])[1] == [fault]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (" 1.5 ", 1_500_000_000),
        ("1.500000000000", 1_500_000_000),
        ("1e-9", 1),
        ("+.5", 500_000_000),
        ("5.", 5 * 10**9),
        ("-0", 0),
        ("0e99", 0),
        ("9223372036.854775806", I64 - 1),
        ("-9223372036.854775807", -I64),
    ],
)
def test_ways_to_write_a_price(text: str, value: int) -> None:
    assert read(Numbers(DECIMAL, 9), [text.encode()]) == ([value], [0])


def test_bounds_and_what_stands_for_empty_and_zero() -> None:
    numbers = Numbers(DECIMAL, 0, 0, 10, empty=-7, zero=99)
    assert read(numbers, [b"", b"0", b"10", b"11", b"-1"]) == ([-7, 99, 10, 0, 0], [0, 0, 0, 4, 4])


@given(st.integers(0, (1 << 70)))
def test_ids_are_whole_numbers_of_64_bits(number: int) -> None:
    values, faults = read(Numbers(ID), [str(number).encode()], "u8")
    assert (values, faults) == (([number], [0]) if number < 1 << 64 else ([0], [4]))


@given(st.text("0123456789abcdefABCDEF", min_size=1, max_size=18))
def test_hexadecimal_ids_have_up_to_16_digits(text: str) -> None:
    ((value,), (fault,)) = read(Numbers(HEX), [text.encode()], "u8")
    if len(text) <= 16:
        assert (value, fault) == (int(text, 16), 0)
    else:
        assert FAULT_WORDS[fault] == "out of range"


@pytest.mark.parametrize("text", [b"0x1", b"g", b"-1", b"1 2", b"\xff"])
def test_other_text_is_no_hexadecimal_id(text: bytes) -> None:
    assert FAULT_WORDS[read(Numbers(HEX), [text], "u8")[1][0]] == "not of its form"
    assert read(Numbers(HEX, empty=0), [b""], "u8") == ([0], [0])


def test_negative_ids_are_no_ids() -> None:
    assert read(Numbers(ID), [b"-1", b"-007", b"-", b"-1x"], "u8") == ([0, 0, 0, 0], [0, 0, 2, 2])


@given(st.from_regex(r"[a-z-][ -~]{0,20}", fullmatch=True).filter(lambda t: t.strip(" ") == t and not t[1:].isdigit()))
def test_other_ids_are_hashed_if_asked_and_a_fault_if_not(text: str) -> None:
    number = 0xCBF29CE484222325
    for byte in text.encode():
        number = (number ^ byte) * 0x100000001B3 % (1 << 64)
    assert read(Numbers(ID, hash=True), [text.encode()], "u8") == ([number | 1 << 63], [0])
    assert read(Numbers(ID), [text.encode()])[1] == [2]


@given(st.datetimes(dt.datetime(1971, 1, 1), dt.datetime(2261, 1, 1)), st.integers(0, 999), st.sampled_from("T "))
def test_stamps_clocks_and_dates_are_those_of_datetime(moment: dt.datetime, nano: int, between: str) -> None:
    seconds = (moment - dt.datetime(1970, 1, 1)) // dt.timedelta(seconds=1)
    ns = seconds * 10**9 + moment.microsecond * 1000 + nano
    fraction = f"{moment.microsecond:06}{nano:03}"
    dashed, clock = f"{moment:%Y-%m-%d}", f"{moment:%H:%M:%S}"
    for text in (f"{dashed}{between}{clock}.{fraction}Z", f"{moment:%Y%m%d%H%M%S}{fraction}"):
        assert read(Numbers(STAMP, 9), [text.encode()]) == ([ns], [0])
    of_day = ns % 86_400_000_000_000
    for text in (f"{clock}.{fraction}", f"{moment:%H%M%S}{fraction}", f"{moment:%H%M%S}{fraction}".lstrip("0") or "0"):
        assert read(Numbers(CLOCK, 9), [text.encode()]) == ([of_day], [0])
    for text in (dashed, f"{moment:%Y%m%d}", f"{moment:%Y/%m/%d}"):
        assert read(Numbers(DATE), [text.encode()]) == ([ns - of_day], [0])


ZONES = st.integers(-23 * 60 - 59, 23 * 60 + 59).map(lambda minutes: dt.timezone(dt.timedelta(minutes=minutes)))


@given(st.datetimes(dt.datetime(1971, 1, 1), dt.datetime(2261, 1, 1), timezones=ZONES), st.sampled_from("T "))
def test_stamps_with_zones_are_those_of_datetime(moment: dt.datetime, between: str) -> None:
    ns = (moment - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1) * 1000
    if moment.utcoffset() == dt.timedelta(0):
        for utc in ("Z", "z", " UTC", "UTC"):
            text = moment.replace(tzinfo=None).isoformat(between) + utc
            assert read(Numbers(STAMP, 9, zone=ZONE_ALWAYS), [text.encode()]) == ([ns], [0])
    text = moment.isoformat(between)
    texts = [text, text[:-3] + text[-2:], text[:-6] + " " + text[-6:], *([text[:-3]] if text.endswith(":00") else [])]
    for each in texts:
        assert read(Numbers(STAMP, 9), [each.encode()]) == ([ns], [0])
        assert read(Numbers(STAMP, 9, zone=ZONE_ALWAYS), [each.encode()]) == ([ns], [0])
        assert read(Numbers(STAMP, 9, zone=ZONE_NEVER), [each.encode()])[1] == [2]
    bare = moment.replace(tzinfo=None).isoformat(between).encode()
    assert read(Numbers(STAMP, 9, zone=ZONE_ALWAYS), [bare])[1] == [2]


@pytest.mark.parametrize(
    ("zone", "fault"),
    [("+1", 2), ("+01:", 2), ("+01:0", 2), ("+01:000", 2), ("+0100x", 2), ("Zx", 2), ("ZZ", 2), ("+", 2), ("-", 2),
     ("+24:00", 4), ("+00:60", 4), ("+01:00Z", 2), ("zz", 2), ("UT", 2), ("+-1:00", 2)],
)  # fmt: skip
def test_what_is_no_zone_is_told(zone: str, fault: int) -> None:
    assert read(Numbers(STAMP, 9), [f"2023-01-01T09:00:00{zone}".encode()])[1] == [fault]


@pytest.mark.parametrize(
    ("form", "text", "fault"),
    [
        (CLOCK, "24:00:00", 4),
        (CLOCK, "09:60:00", 4),
        (CLOCK, "9:3", 2),
        (CLOCK, "9:30:", 2),
        (CLOCK, "093000x", 2),
        (CLOCK, "1093000000000", 2),
        (DATE, "20230229", 4),
        (DATE, "2023-02", 2),
        (DATE, "2023-02-0", 2),
        (DATE, "19691231", 4),
        (DATE, "2023-01/01", 2),
        (STAMP, "20230101", 2),
        (STAMP, "2023-01-01T", 2),
        (STAMP, "2023-01-01T25:00:00", 4),
        (EPOCH, "-1", 4),
    ],
)
def test_what_is_no_time_says_why(form: int, text: str, fault: int) -> None:
    assert read(Numbers(form, 3), [text.encode()])[1] == [fault]


def test_a_clock_of_few_digits_is_refused_as_it_may_be_of_hours_and_minutes() -> None:
    texts = [b"930", b"1559", b"5", b"93000", b"093000"]
    assert read(Numbers(CLOCK), texts) == ([0, 0, 0, 34_200 * 10**9, 34_200 * 10**9], [2, 2, 2, 0, 0])


def test_an_epochs_unit_is_told_by_its_size() -> None:
    moments = [b"1700000000", b"1700000000123", b"1700000000123456", b"1700000000123456789"]
    assert read(Numbers(EPOCH), moments)[0] == [
        1_700_000_000 * 10**9,
        1_700_000_000_123 * 10**6,
        1_700_000_000_123_456 * 10**3,
        1_700_000_000_123_456_789,
    ]


def read_letters(letters: Letters, texts: list[bytes], tables: int) -> tuple[list[list[int]], list[int]]:
    outs = [np.zeros(len(texts), np.uint8) for _ in range(tables)]
    faults = np.zeros(len(texts), np.uint16)
    bad = letters.read(column(texts), 3, outs, faults)
    assert bad == np.count_nonzero(faults)
    return [out.tolist() for out in outs], (faults & 0xFF).tolist()


LETTERS = [b"b", b"s", b"buy", b"sell", b"", b" buy ", b"unknown-long-text", b"exactly8", b"\x00", b"b\x00", b"buy\x00"]


@given(
    st.lists(
        st.dictionaries(st.sampled_from(LETTERS).filter(lambda text: len(text) <= 8), st.integers(0, 255)),
        min_size=1,
        max_size=4,
    ),
    st.lists(st.one_of(st.none(), st.integers(0, 255)), min_size=4, max_size=4),
    st.lists(st.sampled_from(LETTERS)),
)
def test_letters_are_those_of_dicts(
    tables: list[dict[bytes, int]], otherwise: list[int | None], texts: list[bytes]
) -> None:
    values, faults = read_letters(Letters(*zip(tables, otherwise, strict=False)), texts, len(tables))
    fields = [text.strip(b" ") for text in texts]
    expected = [[table.get(text, other) for text in fields] for table, other in zip(tables, otherwise, strict=False)]
    assert values == [[value or 0 for value in of_table] for of_table in expected]
    unknown = [None in of_text for of_text in zip(*expected, strict=True)]
    assert faults == [(5 if text else 1) if bad else 0 for text, bad in zip(fields, unknown, strict=True)]


def test_letters_take_as_many_tables_and_texts_as_they_hold() -> None:
    known = {str(number).encode(): number for number in range(64)}
    values, faults = read_letters(Letters((known, None)), [*known, b"64"], 1)
    assert (values, faults) == ([[*range(64), 0]], [0] * 64 + [5])
    with pytest.raises(ValueError, match="64 texts"):
        Letters(({**known, b"64": 64}, None))
    with pytest.raises(ValueError, match="4 tables"):
        Letters(*[({b"a": 1}, None)] * 5)


@given(st.binary(max_size=600), st.integers(0, 3))
def test_line_ends_are_counted_and_what_else_may_end_a_line_is_seen(text: bytes, repeats: int) -> None:
    data = text * 4**repeats + b"a\n"
    assert line_ends(data) == (data.count(b"\n"), b'"' in data or b"\r" in data)


FIELD = st.one_of(st.sampled_from(["", " ", "7", " -12.5 ", "1e3", "x" * 70]), st.text("0123456789.x ", max_size=9))


@given(
    rows=st.lists(st.lists(FIELD, min_size=3, max_size=3), max_size=40),
    delimiter=st.sampled_from(",;|\t"),
    last_end=st.booleans(),
)
def test_lines_are_split_into_the_fields_that_python_splits_them_into(
    rows: list[list[str]], delimiter: str, last_end: bool
) -> None:
    text = "\n".join(map(delimiter.join, rows)) + "\n" * last_end
    found = Lines(delimiter, 3).split(text.encode(), [0, 2])
    if found is None:
        assert not rows
        return
    count, columns = found
    assert (count, list(columns)) == (len(rows), [0, 2])
    for place, split in columns.items():
        expected = [row[place].encode() for row in rows]
        assert [split.text(row) for row in range(count)] == expected
        outs, words = np.zeros((2, count), np.int64), np.zeros((2, count), np.uint16)
        for out, faults, each in zip(outs, words, (split, column(expected)), strict=True):
            Numbers(DECIMAL, 2, empty=-1).read(each, 5, out, faults)
        assert outs[0].tolist() == outs[1].tolist()
        assert words[0].tolist() == words[1].tolist()


@given(text=st.text('ab,\n \r"', max_size=300), repeats=st.integers(1, 3))
def test_lines_that_are_no_plain_table_are_not_split(text: str, repeats: int) -> None:
    data = text * repeats
    lines = data.removesuffix("\n").split("\n") if data else []
    plain = bool(lines) and not set(data) & set('"\r') and all(line.count(",") == 1 for line in lines)
    found = Lines(",", 2).split(data.encode(), [1])
    assert (found is not None) == plain
    assert Lines(",", 1).split(data.encode(), [0]) is None
    if found is not None:
        assert [found[1][1].text(row).decode() for row in range(found[0])] == [line.split(",")[1] for line in lines]


@given(st.lists(st.binary(min_size=1, max_size=12).map(lambda text: text.strip(b" ") or b"x"), max_size=800))
def test_names_are_numbered_as_they_first_appear(texts: list[bytes]) -> None:
    names, order = Names(1 << 20), list(dict.fromkeys(texts))
    half = len(texts) // 2
    ids = read(names, texts[:half], "u4")[0] + read(names, texts[half:], "u4")[0]
    assert ids == [order.index(text) for text in texts]
    assert names.all() == order


def test_thousands_of_names_outgrow_the_first_table() -> None:
    texts = [f"S{number}".encode() for number in range(20_000)]
    names = Names(20_000)
    assert read(names, texts + texts, "u4") == ([*range(20_000), *range(20_000)], [0] * 40_000)
    assert read(names, [b"one more", b"S7"], "u4") == ([0, 7], [6, 0])


def test_a_name_too_long_or_empty_is_a_fault() -> None:
    assert read(Names(10), [b"A" * 255, b"A" * 256, b"  "], "u4")[1] == [0, 7, 1]


def test_only_the_chosen_rows_are_read() -> None:
    out, faults = np.zeros(2, np.int64), np.zeros(2, np.uint16)
    chosen = np.array([3, 0], np.uint32)
    Numbers(DECIMAL, 0).read(column([b"1", b"x", b"3", b"4"]), 0, out, faults, chosen)
    assert out.tolist() == [4, 1]
    assert not faults.any()


def test_the_first_fault_of_a_row_stays() -> None:
    out, faults = np.zeros(1, np.int64), np.zeros(1, np.uint16)
    Numbers(DECIMAL).read(column([b"x"]), 5, out, faults)
    Numbers(DECIMAL).read(column([b""]), 6, out, faults)
    assert faults.tolist() == [5 << 8 | 2]


def test_arrays_that_do_not_fit_each_other_are_refused() -> None:
    with pytest.raises(ValueError, match="2 rows"):
        Numbers(DECIMAL).read(column([b"1", b"2"]), 0, np.zeros(1, np.int64), np.zeros(2, np.uint16))


@given(st.binary(max_size=2000).map(lambda data: data * 3))
def test_a_byte_is_counted_as_bytes_count_does(data: bytes) -> None:
    assert count_byte(data, 10) == data.count(b"\n")
    assert count_byte(b"\n" * len(data), 10) == len(data)
