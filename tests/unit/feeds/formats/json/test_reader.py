"""JSON lines from disk: what a profile makes of them is what Python's json and fractions say."""

from __future__ import annotations

import datetime as dt
import gzip
import json
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from json_lines import FIRST_NS, LINES, TRADE, profile, write
from reading import read

import strand
from strand import feeds
from strand.errors import ConfigurationError, FormatError, UnknownFormatError
from strand.feeds.formats.json.profile import read_profile
from strand.feeds.formats.json.reader import JsonLinesFeed
from strand.ticks import KIND_QUOTE, KIND_TRADE, UNDEF_PRICE, Ticks

pytestmark = pytest.mark.python


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
@pytest.mark.parametrize("batch_ticks", [1, 4096])
def test_messages_become_the_ticks_that_the_profile_says(tmp_path: Path, name: str, batch_ticks: int) -> None:
    feed = feeds.open(write(tmp_path / name, LINES), profile=profile(tmp_path), batch_ticks=batch_ticks)
    ticks, error = read(feed)
    assert error is None
    assert (feed.info.format, feed.info.size_unit, list(feed.symbols)) == ("jsonl", 1e-8, ["ETHUSDT"])
    found = [
        (int(tick["ts_recv"]), int(tick["ts_event"]), int(tick["price"]), int(tick["size"]), tick["side"], tick["kind"])
        for tick in ticks
    ]
    assert found == [
        (FIRST_NS, 10**6, 2683_810_000_000, 10_000, b"A", 2),
        (FIRST_NS + 1, 2 * 10**6, 1_500_000_000, 2 * 10**8, b"B", 3),
        (FIRST_NS + 1, 2 * 10**6, 10**9, 0, b"B", 3),
        (FIRST_NS + 1, 2 * 10**6, 3 * 10**9, 4 * 10**8, b"A", 3),
        (FIRST_NS + 2, FIRST_NS + 2, 2 * 10**9, 10**14, b"N", 3),
    ]
    assert (int(ticks["order_id"][4]), int(ticks["ref_id"][4])) == (3 * 10**9, 5 * 10**7)
    assert int(ticks.view(Ticks)["sequence"][4]) == 35_346_513_501
    assert feed.statistics()["other_messages"] == 1


@pytest.mark.parametrize(
    ("field", "text", "words"),
    [
        ("q", "-1", "size: -1 is below 0: give signed = true if such a size is a sell"),
        ("q", "-1e-20", "size: -1E-20 is below 0: give signed = true if such a size is a sell"),
        ("q", "1e11", "size: give a larger size_unit: 1E+11 is more than 2^63 - 1 units of 1e-8"),
        (
            "q",
            "1e-9",
            (
                "size: give size_unit='0.000000001' (--feed size_unit=0.000000001): 1E-9 is not a whole number "
                "of units of 1e-8: inexact='round' rounds it to the nearest"
            ),
        ),
        ("p", "null", "price: data.p is null: if that means no value, give optional = true"),
        ("p", "true", "price: true is not a number"),
        ("p", "9" * 5000, f"price: {'9' * 80}... is not a number that a tick can hold"),
        ("p", "1e99999999999999999999", "holds a number with an exponent of 10^18 or more"),
        ("s", "null", "symbol: null is not a name"),
        ("m", "1", "side: 1 is not one of true, false"),
    ],
    ids=lambda text: text[:20],
)
def test_a_value_that_cannot_be_is_shown_as_it_is_with_its_own_cure(
    tmp_path: Path, field: str, text: str, words: str
) -> None:
    line = json.dumps({"data": TRADE | {field: "HERE"}}).replace('"HERE"', text)
    path = write(tmp_path / "a.jsonl", [LINES[0], line, LINES[0]])
    ticks, error = read(feeds.open(path, profile=profile(tmp_path)))
    assert len(ticks) == 1
    assert f"line 2: message 2: {words}: mend it or its mapping" in str(error)
    feed = feeds.open(path, profile=profile(tmp_path), on_bad_record="skip")
    assert len(read(feed)[0]) == 2
    assert feed.skipped.total == 1


def test_a_cut_or_damaged_line_is_told_with_its_place_and_can_be_left_out(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [LINES[0], "{no", LINES[0]])
    whole = path.read_bytes()
    mine = profile(tmp_path)
    ticks, error = read(feeds.open(path, profile=mine))
    assert len(ticks) == 1
    assert isinstance(error, FormatError)
    assert (error.line, error.offset) == (2, whole.index(b"%d {no" % (FIRST_NS + 1)))
    feed = feeds.open(path, profile=mine, on_bad_record="skip")
    assert (len(read(feed)[0]), feed.skipped.total) == (2, 1)
    sound = whole.replace(b"%d {no\n" % (FIRST_NS + 1), b"")
    for end in range(len(sound)):
        path.write_bytes(sound[:end] or b" ")
        ticks, error = read(feeds.open(path, profile=mine))
        assert len(ticks) == sound[:end].count(b"\n") + sound[:end].endswith(b"}}")
        cut = sound[:end].rpartition(b"\n")[2]
        assert (error is None) == (cut == b"" or cut.endswith(b"}}"))
    path.write_bytes(b"99999999999999999999 {}\n")
    assert isinstance(read(feeds.open(path, profile=mine))[1], FormatError)
    path.write_bytes(b'{"a": "' + b"x" * (1 << 21) + b'"}\n' + json.dumps(LINES[0]).encode())
    assert "is longer than 1,048,576 bytes" in str(read(feeds.open(path, profile=mine))[1])
    assert len(read(feeds.open(path, profile=mine, on_bad_record="skip"))[0]) == 1


def test_price_unit_stands_in_place_of_the_profiles(tmp_path: Path) -> None:
    mine = {"name": "cents", "message": [{"symbol": "s", "fields": {
        "ts_event": {"column": "t", "unit": "ms"}, "price": "p", "kind": {"constant": "trade"}}}]}  # fmt: skip
    path = write(tmp_path / "a.jsonl", [{"s": "A", "t": 1, "p": "1250"}])
    for unit, price in ((None, 1250 * 10**9), ("0.01", 12_500_000_000)):
        (batch,) = feeds.open(path, profile=mine, price_unit=unit)
        assert batch["price"].tolist() == [price]
    with pytest.raises(ConfigurationError, match="price_unit: give a power of ten"):
        feeds.open(path, profile=mine, price_unit="0.5")
    mine["message"][0]["fields"]["price"] = {"column": "p", "unit": "1e-2"}
    (batch,) = feeds.open(path, profile=mine, price_unit="0.01")
    assert batch["price"].tolist() == [12_500_000_000]
    mine["message"][0]["fields"]["price"] = {"constant": 5}  # is no number of the file
    with pytest.raises(ConfigurationError, match="price_unit: leave it out: cents reads no prices"):
        feeds.open(path, profile=mine, price_unit="0.01")
    del mine["message"][0]["fields"]["price"]
    with pytest.raises(ConfigurationError, match="price_unit: leave it out: cents reads no prices"):
        feeds.open(path, profile=mine, price_unit="0.01")


def test_what_cannot_work_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", LINES)
    with pytest.raises(UnknownFormatError, match=r"looks like JSON lines: give a profile .*docs/feeds/json\.md"):
        feeds.open(path)
    with pytest.raises(ConfigurationError, match="profile: give a profile"):
        JsonLinesFeed(path)
    for options, words in (
        ({"size_unit": "0.5"}, "size_unit: give a power of ten"),
        ({"inexact": "near"}, "inexact: 'near' is not one of raise, round"),
        ({"on_bad_record": "stop"}, "on_bad_record: 'stop' is not one of raise, skip"),
        ({"batch_ticks": 0}, "batch_ticks"),
        ({"max_symbols": 0}, "max_symbols"),
    ):
        with pytest.raises(ConfigurationError, match=words):
            JsonLinesFeed(path, profile=profile(tmp_path), **options)  # type: ignore[arg-type]
    quote = {"symbol": "s", "kind": "quote", "fields": {"bid_price": "b", "bid_size": "B", "ask_price": "a"}}
    with pytest.raises(ConfigurationError, match="a quote has bid_price and ask_price, both sizes or neither"):
        read_profile({"message": [quote]})
    with pytest.raises(ConfigurationError, match=r"message\[1\].fields.price.unit: give a power of ten"):
        read_profile({"message": [{"symbol": "s", "fields": {"price": {"column": "p", "unit": "0.3"}}}]})


def test_a_recorded_hour_is_what_json_says(shared_data: Path, tmp_path: Path) -> None:
    (path,) = (shared_data / "jsonl").glob("*.jsonl.gz")
    expected = []
    for line in gzip.decompress(path.read_bytes()).decode().splitlines():
        received, _, text = line.partition(" ")
        message = json.loads(text)
        data, stream, at = message.get("data", {}), message.get("stream", ""), int(received)
        if data.get("e") == "trade":
            sides = [(data["p"], data["q"], b"A" if data["m"] else b"B", data["T"] * 10**6)]
        elif data.get("e") == "depthUpdate":
            levels = [(level, side) for name, side in (("b", b"B"), ("a", b"A")) for level in data[name]]
            sides = [(price, size, side, data["E"] * 10**6) for (price, size), side in levels]
        elif stream == "ethusdt@bookTicker":
            sides = [(data["b"], data["B"], b"N", at)]
        else:
            continue
        for price, size, side, event in sides:
            expected.append((at, event, int(Decimal(price).scaleb(9)), int(Decimal(size).scaleb(8)), side))
    feed = feeds.open(path, profile=profile(tmp_path))
    ticks, error = read(feed)
    assert error is None
    columns = [ticks[name].tolist() for name in ("ts_recv", "ts_event", "price", "size", "side")]
    assert list(zip(*columns, strict=True)) == expected
    assert max(size for _, _, _, size, _ in expected) >= 1 << 31
    assert UNDEF_PRICE not in ticks["price"]
    assert list(feed.symbols) == ["ETHUSDT"]


RECORDS = """
name = "records"
[[message]]
where = { channel = "trades" }
each = "data"
optional = true
kind = "trade"
symbol = "s"
fields = { price = "p", ref_id = { column = "i", text = "TEXT" }, ts_event = { column = "t", unit = "s" } }
"""


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("hash", ["d9cd8295-40dc-5dce-8deb-42882580a7ab", "7", str(2**64 - 1), str(2**64), "x", "\u00e4"]),
        ("hex", ["ff", "FFFFFFFFFFFFFFFF", "0", "00Aa"]),
    ],
)  # fmt: skip
def test_ids_that_are_texts_become_the_numbers_that_csv_makes_of_them(
    tmp_path: Path, text: str, ids: list[str]
) -> None:
    lines = [{"channel": "trades", "data": [{"s": "A", "p": "1", "i": each, "t": 1767571200} for each in ids]}]
    (tmp_path / "j.toml").write_text(RECORDS.replace("TEXT", text))
    found = feeds.open(write(tmp_path / "a.jsonl", lines), profile=tmp_path / "j.toml").to_numpy()
    (tmp_path / "c.toml").write_text(
        'name = "c"\n[symbol]\nconstant = "A"\n[fields]\nprice = "p"\nts_recv = { column = "t", unit = "s" }\n'
        f'ref_id = {{ column = "i", text = "{text}" }}\nkind = {{ constant = "trade" }}\n'
    )
    (tmp_path / "a.csv").write_text("i,p,t\n" + "".join(f"{each},1,1767571200\n" for each in ids))
    same = feeds.open(tmp_path / "a.csv", profile=tmp_path / "c.toml").to_numpy()
    assert found["ref_id"].tolist() == same["ref_id"].tolist()
    assert len(set(found["ref_id"].tolist())) == len(ids)


def test_an_acknowledgement_of_the_same_channel_is_passed_over_where_the_rule_says_so(tmp_path: Path) -> None:
    trade = {"channel": "trades", "data": [{"s": "A", "p": "1", "i": "x", "t": 1767571200}]}
    path = write(
        tmp_path / "a.jsonl", [{"event": "subscribe", "channel": "trades"}, trade, {"channel": "trades", "data": None}]
    )
    (tmp_path / "j.toml").write_text(RECORDS.replace("TEXT", "hash"))
    feed = feeds.open(path, profile=tmp_path / "j.toml")
    assert len(feed.to_numpy()) == 1
    assert feed.statistics()["other_messages"] == 2
    (tmp_path / "j.toml").write_text(RECORDS.replace("TEXT", "hash").replace("optional = true\n", ""))
    with pytest.raises(FormatError, match="no list at data: if such messages have no data, give optional = true"):
        feeds.open(path, profile=tmp_path / "j.toml").to_numpy()


@pytest.mark.parametrize("text", ["1_000", "1__0", "\uff11\uff10", "\u0663", "0x10", ""])
def test_a_text_that_is_no_number_of_ascii_digits_is_an_error(tmp_path: Path, text: str) -> None:
    for field in ("p", "i"):
        record = {"s": "A", "p": "1", "i": 7, "t": 1767571200} | {field: text}
        path = write(tmp_path / "a.jsonl", [{"channel": "trades", "data": [record]}])
        (tmp_path / "j.toml").write_text(RECORDS.replace('ref_id = { column = "i", text = "TEXT" }', 'sequence = "i"'))
        with pytest.raises(FormatError, match="is not a"):
            feeds.open(path, profile=tmp_path / "j.toml").to_numpy()


def test_a_line_that_is_a_list_of_objects_holds_several_messages(tmp_path: Path) -> None:
    trade = {"channel": "trades", "data": [{"s": "A", "p": "1", "i": "x", "t": 1767571200}]}
    later = {"channel": "trades", "data": [{"s": "B", "p": "2", "i": "y", "t": 1767571201}]}
    bad = {"channel": "trades", "data": [{"s": "B", "i": "y", "t": 1767571201}]}
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in ([{"event": "on"}], [trade, later], [trade, bad])))
    (tmp_path / "j.toml").write_text(RECORDS.replace("TEXT", "hash"))
    feed = feeds.open(path, profile=tmp_path / "j.toml")
    found = []
    with pytest.raises(FormatError, match="line 3: message 5: price: there is no field p"):
        found.extend(batch.copy() for batch in feed.batches())
    assert np.concatenate(found)["price"].tolist() == [10**9, 2 * 10**9, 10**9]
    assert [feed.statistics()[name] for name in ("messages", "other_messages")] == [5, 1]


def test_one_rule_takes_a_list_of_levels_and_another_a_single_level_and_heartbeats_are_passed_over(
    tmp_path: Path,
) -> None:
    """Messages as Bitfinex sends them: the number of a channel, then a book, a level (price, count, amount) or text."""
    messages = [
        [7, [["100.5", 1, "2"], ["101", 2, "-3"]]],
        [7, "hb"],
        [7, ["101", 0, "-1"]],
        [7, []],
        [7, ["100.25", 1, "4"]],
    ]
    field = 'price = "{0}0", size = {{ column = "{0}2", signed = true }}, '
    field += 'action = {{ column = "{0}1", map = {{ 0 = "C" }}, otherwise = "M" }}'
    start = 'optional = true\nkind = "quote"\nsymbol = { constant = "A" }\n'
    (tmp_path / "j.toml").write_text(
        f'name = "j"\n[[message]]\neach = "1"\n{start}fields = {{ {field.format("")} }}\n'
        f"[[message]]\n{start}fields = {{ {field.format('1.')} }}\n"
    )
    path = tmp_path / "a.jsonl"
    path.write_text("".join(f"{1_767_571_200 * 10**9} {json.dumps(each)}\n" for each in messages))
    feed = feeds.open(path, profile=tmp_path / "j.toml")
    found = [tuple(each) for each in feed.to_numpy()[["price", "size", "side", "action"]].tolist()]
    e9 = 10**9
    assert found == [
        (100 * e9 + e9 // 2, 2, b"B", b"M"),
        (101 * e9, 3, b"A", b"M"),
        (101 * e9, 1, b"A", b"C"),
        (100 * e9 + e9 // 4, 4, b"B", b"M"),
    ]
    assert feed.statistics()["other_messages"] == 1


# ---- JSON messages become ticks: their times, what is rounded, and numbers that no field reads


def test_lines_without_a_time_of_receipt_have_that_of_their_event(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", ["", *LINES[:2]], None)
    ticks, error = read(feeds.open(path, profile=profile(tmp_path)))
    assert error is None
    assert ticks["ts_recv"].tolist() == ticks["ts_event"].tolist() == [10**6, *[2 * 10**6] * 3]
    ticks, error = read(feeds.open(write(path, LINES[1:], None), profile=profile(tmp_path)))
    assert len(ticks) == 3
    assert "line 2: message 2: has no time of receipt and no ts_event: map one" in str(error)


def test_what_is_no_whole_number_of_units_is_refused_or_rounded_and_counted(tmp_path: Path) -> None:
    amounts = ["0.00000001", "0.000000015", "0.000000025", "1"]
    lines = [{"data": {**TRADE, "q": amount}} for amount in amounts]
    path = write(tmp_path / "a.jsonl", lines)
    ticks, error = read(feeds.open(path, profile=profile(tmp_path)))
    assert ticks["size"].tolist() == [1]
    assert (
        "size: give size_unit='0.000000001' (--feed size_unit=0.000000001): '0.000000015' is not a whole number of "
        "units of 1e-8: inexact='round'" in str(error)
    )
    feed = feeds.open(path, profile=profile(tmp_path), inexact="round")
    ticks, error = read(feed)
    assert error is None
    assert ticks["size"].tolist() == [round(Fraction(amount) * 10**8) for amount in amounts]
    assert feed.statistics()["rows_rounded"] == 2
    feed = feeds.open(path, profile=profile(tmp_path), size_unit="0.001", inexact="round")
    assert "rounds to 0: give a finer size_unit" in str(read(feed)[1])
    fine = feeds.open(path, profile=profile(tmp_path), size_unit="1e-9")
    assert read(fine)[0]["size"].tolist() == [10, 15, 25, 10**9]


def test_a_number_of_many_digits_that_no_field_reads_is_passed_over(tmp_path: Path) -> None:
    line = json.dumps({"data": TRADE | {"x": "HERE"}}).replace('"HERE"', "9" * 5000)
    ticks, error = read(feeds.open(write(tmp_path / "a.jsonl", [LINES[0], line]), profile=profile(tmp_path)))
    assert error is None
    ticks["ts_recv"], ticks["sequence"] = 0, 0
    assert ticks[:1].tobytes() == ticks[1:].tobytes()


@pytest.mark.parametrize("text", ["NaN", "-Infinity", '"\\ud800"', "1e400", "[" * 200 + "]" * 200])
def test_values_that_only_pythons_json_reads_are_passed_over_where_no_field_reads_them(
    tmp_path: Path, text: str
) -> None:
    line = json.dumps({"data": TRADE | {"x": "HERE"}}).replace('"HERE"', text)
    ticks, error = read(feeds.open(write(tmp_path / "a.jsonl", [LINES[0], line]), profile=profile(tmp_path)))
    assert error is None
    assert ticks["price"].tolist() == [2683_810_000_000] * 2


def test_prices_and_sizes_are_exact_in_every_form_and_as_often_as_they_come(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    texts = ["0", "00012", "1.", ".5", "1.50", "1e3", "1.5E-7", "9223372036.854775806", "-0.0", "+7", " 8 "]
    texts += [f"{rng.integers(0, 10**9)}.{rng.integers(0, 10**8):08}" for _ in range(500)]
    plain = [text for text in texts if text[0].isdigit() and text[:2] != "00" and text[-1] != "."]
    forms = [*[(json.dumps(text), text) for text in texts], *[(text, text) for text in plain]] * 2
    lines = [json.dumps({"data": TRADE | {"p": "HERE"}}).replace('"HERE"', written) for written, _ in forms]
    ticks, error = read(feeds.open(write(tmp_path / "a.jsonl", lines), profile=profile(tmp_path)))
    assert error is None
    assert ticks["price"].tolist() == [Fraction(Decimal(text)) * 10**9 for _, text in forms]


@pytest.mark.parametrize("seed", range(3))
def test_a_bad_line_has_its_place_however_long_the_lines_before_it_are(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    lines = [LINES[0] | {"pad": "x" * int(rng.integers(0, 1 << int(rng.integers(4, 19))))} for _ in range(60)]
    lines[40:40] = ["{bad", {"pad": "x" * (1 << 20)}, LINES[0], "{bad"]
    path = write(tmp_path / "a.jsonl", lines)
    content = path.read_bytes()
    feed = feeds.open(path, profile=profile(tmp_path), on_bad_record="skip")
    assert len(read(feed)[0]) == 61
    places = [sum(map(len, content.splitlines(keepends=True)[:at])) for at in (40, 41, 43)]
    assert [(sample.offset, sample.line) for sample in feed.skipped.samples] == [
        (places[0], 41), (places[1], 42), (places[2], 44)
    ]  # fmt: skip


def kraken(kept: int, rng: np.random.Generator) -> tuple[list[dict[str, Any]], list[tuple[list[Any], list[Any]]]]:
    """Messages of a venue that sends the best ``kept`` levels of each side, and says nothing of a level that others
    push beyond them; and the levels after each message, best first."""
    sides: tuple[dict[int, int], dict[int, int]] = ({}, {})
    messages, books, middle = [], [], 1_000
    shown: tuple[list[Any], list[Any]] = ([], [])
    for number in range(600):
        middle += int(rng.integers(-4, 5))
        changes = []
        for side, before, sign in zip(sides, shown, (-1, 1), strict=True):
            for price in [price for price in side if sign * (price - middle) <= 0]:
                del side[price]
            for distance in rng.integers(1, 25, 3).tolist():
                price = middle + sign * distance
                if side.pop(price, None) is None:
                    side[price] = int(rng.integers(1, 99))
            for distance in range(1, kept + 25):
                if len(side) < kept + 2:
                    side.setdefault(middle + sign * distance, 5)
            now = sorted(side.items(), key=lambda level, sign=sign: sign * level[0])[:kept]
            gone = [(price, 0) for price, _ in before if price not in side and sign * (price - now[-1][0]) < 0]
            changed = [*(level for level in now if level not in before), *gone]
            changes.append([changed[at] for at in rng.permutation(len(changed))])
            before[:] = now
        messages.append({"s": "BTC/USD", "t": number + 1, "new": not number, "b": changes[0], "a": changes[1]})
        books.append(([*shown[0]], [*shown[1]]))
    return messages, books


def test_levels_that_a_venue_s_bound_pushes_out_are_removed_at_the_end_of_the_message(tmp_path: Path) -> None:
    messages, books = kraken(10, np.random.default_rng(3))
    rules = [
        {"where": {"new": new}, "each": side, "more": side == "b", "kind": "quote", "symbol": "s", "snapshot": new,
         "fields": {"price": "0", "size": "1", "side": {"constant": side.upper()}, "action": {"constant": "M"},
                    "ts_event": {"column": "t", "unit": "s"}}}
        for new in (True, False) for side in "ba"
    ]  # fmt: skip
    path = tmp_path / "kraken.jsonl"
    path.write_text("".join(json.dumps(message) + "\n" for message in messages))
    seen: dict[bool, list[Any]] = {}
    for bounded in (True, False):
        bound = {"book_levels": 10} if bounded else {}
        result = strand.replay(
            path, strand.chain(strand.depth(top=12), strand.bbo()), workers=1, cores=None,
            feed_options={"profile": {"message": rules, **bound}},
        )  # fmt: skip
        book = result.books["BTC/USD"]
        seen[bounded] = [
            [(price // 10**9, size) for price, size in side.tolist()] for side in (book.bids(), book.asks())
        ]
        tops = [
            [
                row[name] // 10**9 if name in ("bid", "ask") else row[name]
                for name in ("bid", "bid_size", "ask", "ask_size")
            ]
            for row in result.outputs["bbo"]
        ]
        wanted = [[*bids[0], *asks[0]] for bids, asks in books]
        wanted = [top for top, before in zip(wanted, [None, *wanted], strict=False) if top != before]
        assert (tops == wanted) is bounded
        assert bool(result.warnings) is not bounded
    assert tuple(seen[True]) == books[-1]
    assert tuple(seen[False]) != books[-1]
    with pytest.raises(ConfigurationError, match=r"book_levels: 0 is not a whole number"):
        feeds.open(path, profile={"message": rules, "book_levels": 0})


# ---- Profiles of JSON messages: where they come from, what they make of messages, and what is refused


def ticks_of(path: Path, given: Any, *messages: Any) -> Any:
    """The ticks of messages by a profile."""
    return feeds.open(write(path / "a.jsonl", list(messages)), profile=given).to_numpy()


def test_what_is_optional_empty_or_zero_is_no_value_and_maps_say_what_texts_mean(tmp_path: Path) -> None:
    fields = {
        "price": {"column": ["p", "price"], "zero": "none", "empty": "none"},
        "ref_id": {"column": "id", "optional": True},
        "kind": {"column": "k", "map": {"t": "trade"}, "otherwise": "quote"}, "side": "s",
    }  # fmt: skip
    profile = {"message": [{"symbol": {"constant": "X"}, "fields": fields}]}
    items = ({"p": 0, "k": "t", "s": "A", "id": 7}, {"price": "1.5", "k": "t", "s": "B"}, {"p": "", "k": "x", "s": "N"})
    found = ticks_of(tmp_path, profile, *items)
    assert found[["price", "ref_id", "kind", "side", "action"]].tolist() == [
        (UNDEF_PRICE, 7, KIND_TRADE, b"A", b"T"),
        (1_500_000_000, 0, KIND_TRADE, b"B", b"T"),
        (UNDEF_PRICE, 0, KIND_QUOTE, b"N", b"N"),
    ]


def test_a_profile_is_read_from_toml(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        'name = "mine"\n[[message]]\nwhere = { "a.b" = 7 }\nkind = "trade"\nsymbol = "d.0"\n'
        '[message.fields]\nprice = "d.1"\nside = { constant = "A" }\n'
    )
    feed = feeds.open(write(tmp_path / "a.jsonl", [{"a": {"b": 7}, "d": ["X", 3]}, {"a": {"b": 8}}]), profile=path)
    assert feed.to_numpy()[["price", "side"]].tolist() == [(3_000_000_000, b"A")]
    assert (list(feed.symbols), feed.statistics()["other_messages"]) == (["X"], 1)
    path.write_text("not = [toml")
    with pytest.raises(ConfigurationError, match="cannot be read as a profile"):
        read_profile(path)


@pytest.mark.parametrize(
    ("profile", "words"),
    [
        ({}, "at least one"),
        ({"messages": []}, "messages: is not a key here"),
        ({"size_unit": 3, "message": [{}]}, "size_unit: give a power of ten"),
        (
            {"message": [{"symbol": "s", "kind": "tick"}]},
            "kind: give 'none' or 'order' or 'trade' or 'quote' or 'status', not 'tick'",
        ),
        ({"message": [{}]}, "symbol: give"),
        ({"message": [{"symbol": {"column": ["s", "t"]}}]}, "symbol: give one column, or"),
        ({"message": [{"symbol": "s", "fields": {"cost": "p"}}]}, "fields.cost: is not a field of a tick"),
        ({"message": [{"symbol": "s", "fields": {"ts_event": "t"}}]}, "fields.ts_event.unit: is needed"),
        ({"message": [{"symbol": "s", "gapless": True}]}, "gapless: give the column"),
        ({"message": [{"symbol": "s..t"}]}, "is not a path"),
        (
            {"message": [{"symbol": "s", "fields": {"ts_event": {"column": "t", "unit": "clock"}}}]},
            "give date_column under",
        ),
        ({"message": [{"symbol": "s", "fields": {"ts_recv": {"column": "t", "unit": "s"}}}]}, "ts_recv: leave it out"),
        (
            {"message": [{"symbol": "s", "fields": {"order_id": {"later_of": ["a", "b"]}}}]},
            "later_of: is not a key here",
        ),
        ({"message": [{"symbol": "s", "fields": {"side": {"constant": "X"}}}]}, "'X' is not one of A, B, N"),
        ({"message": [{"symbol": "s", "fields": {"side": {"column": "m", "map": {"1": "up"}}}}]}, "'up' is not one of"),
    ],
)
def test_a_profile_that_cannot_work_is_refused_with_the_key(profile: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match="profile") as caught:
        read_profile(profile)
    assert words in str(caught.value)


def test_a_profile_written_down_is_the_same_read_again(tmp_path: Path) -> None:
    where = {"a": True, "b": 1.5, "c": dt.date(2026, 1, 5), "d": None, "e": {"f": 2.5}, "g": float("nan")}
    given = {
        "name": "seven",
        "size_unit": 0.001,
        "message": [
            {
                "where": where, "symbol": {"constant": "1.5"}, "gapless": False, "more": False, "kind": "trade",
                "fields": {
                    "side": {"column": "m", "map": {True: "A", None: "B"}}, "price": {"constant": Decimal("1.5")},
                    "ts_event": {"column": "T", "unit": "stamp"},
                },
            }
        ],
    }  # fmt: skip
    profile = read_profile(given)
    again = read_profile(json.loads(json.dumps(profile.source, allow_nan=False)))
    assert again.source == profile.source
    assert again.name == profile.name
    (rule,), (same,) = profile.rules, again.rules
    assert (rule.where, rule.symbol, rule.numbering, rule.more) == (same.where, same.symbol, same.numbering, same.more)
    assert [(field.rule, field.paths) for field in rule.fields] == [(field.rule, field.paths) for field in same.fields]
    record = {"a": True, "b": 1.5, "c": "2026-01-05", "d": None, "e": "{'f': 2.5}", "g": "nan"}
    record |= {"m": True, "T": "2026-01-05T00:00:00Z"}
    found = [ticks_of(tmp_path, each, record) for each in (given, again.source)]
    assert len(found[0]) == 1
    assert found[0].tobytes() == found[1].tobytes()


def test_marks_in_texts_are_no_depth_of_a_message_and_real_ones_are_refused(tmp_path: Path) -> None:
    def taken(text: str) -> int:
        line = json.dumps({"data": TRADE | {"x": "HERE"}}).replace('"HERE"', text)
        options = {"profile": profile(tmp_path), "on_bad_record": "skip"}
        return len(read(feeds.open(write(tmp_path / "a.jsonl", [LINES[0], line]), **options))[0])

    assert taken(json.dumps(["[" * 1000, '\\"[' * 1000])) == 2
    assert taken(json.dumps([["]}", "a"]] * 1000)) == 2
    assert taken("[" * 300 + '"]]]\\""' + "]" * 300) == 2
    assert taken('["]]]]]\\"]", ' + "[" * 500 + "]" * 500 + "]") == 1
