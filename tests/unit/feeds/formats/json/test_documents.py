"""Documents of JSON: built-in profiles against the json module and Decimal, pieces, cut files and bad items."""

from __future__ import annotations

import json
import random
import re
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from csv_tables import as_dicts
from json_documents import DOCUMENTS, items_of, reference, text_of, write
from json_lines import PAGE
from reading import read

import strand
from strand import feeds
from strand.errors import ConfigurationError, FeedError, FormatError, TruncatedFeedError, UnknownFormatError
from strand.feeds.formats.json import reader
from strand.feeds.formats.json.profile import built_in
from strand.feeds.formats.json.reader import list_begin

pytestmark = pytest.mark.python

PROFILE = {
    "document": True,
    "message": [
        {
            "kind": "trade",
            "symbol": "s",
            "fields": {"ts_event": {"column": "t", "unit": "ns"}, "price": "p", "size": "q"},
        }
    ],
}


ONE = '[{"s": "A", "t": 1, "p": 1, "q": 1}'


def trades(count: int, **more: Any) -> list[dict[str, Any]]:
    return [{"s": f"S{at % 3}", "t": 10**18 + at, "p": 1 + at, "q": at, **more} for at in range(count)]


def written(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


@pytest.mark.parametrize("name", DOCUMENTS)
def test_each_profile_is_recognised_and_reads_what_the_json_module_and_decimal_read(name: str, tmp_path: Path) -> None:
    path = write(tmp_path, name, 400)
    feed = feeds.open(path)
    assert feed.info.details["profile"] == name.split(" ", maxsplit=1)[0]
    assert as_dicts(feed) == reference(name, text_of(name, items_of(name, 400)))
    given = feeds.open(path, profile=name.split(" ", maxsplit=1)[0])
    assert given.to_numpy().tobytes() == feeds.open(path).to_numpy().tobytes()


def test_every_built_in_profile_is_tried_here() -> None:
    assert {name.split(" ", maxsplit=1)[0] for name in DOCUMENTS} == set(built_in())


@pytest.mark.parametrize("piece", [1, 7, 64, 1 << 18])
@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("where", ["", "data.trades", "0.trades"])
def test_pieces_of_any_size_give_the_ticks_of_the_whole(
    piece: int, indent: int | None, where: str, *, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "_CHUNK_BYTES", piece)
    rng = random.Random(piece)
    texts = ["plain", '"},{"', "\\", "]]", "é,", 'a\\"b', "[", ""]
    items = trades(60)
    for item in items:
        item["note"] = {"x": [rng.choice(texts), [], {}], rng.choice(texts): rng.choice(texts)}
    value: Any = {"": items, "data.trades": {"n": {"a": [1]}, "data": {"k": "]", "trades": items}, "end": [1]}}.get(
        where, [{"before": ["[", 1], "trades": items}, 3]
    )
    path = written(tmp_path / "a.json", b"\xef\xbb\xbf" + json.dumps(value, indent=indent).encode())
    feed = feeds.open(path, profile={**PROFILE, "document": where or True})
    ticks, error = read(feed)
    assert error is None
    assert (ticks["price"] // 10**9).tolist() == [item["p"] for item in items]
    assert [feed.symbols[key] for key in ticks["instrument_id"]] == [item["s"] for item in items]


@pytest.mark.parametrize("where", ["", "data.trades"])
def test_a_document_that_is_cut_anywhere_gives_ticks_of_whole_items_and_an_error(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "_CHUNK_BYTES", 50)
    items = trades(6, note="a]")
    value = {"data": {"trades": items, "more": 1}} if where else items
    data = json.dumps(value).encode()
    profile = {**PROFILE, "document": where or True}
    whole = feeds.open(written(tmp_path / "whole.json", data), profile=profile).to_numpy()
    begin = list_begin(data, where.split(".") if where else [])
    assert begin is not None
    for size in range(1, len(data)):
        path = written(tmp_path / "cut.json", data[:size])
        ticks, error = read(feeds.open(path, profile=profile))
        assert isinstance(error, FormatError if size < begin else FeedError), size
        assert error.path is not None
        if begin <= size < data.rindex(b"}]") + 2:
            assert isinstance(error, TruncatedFeedError)
            assert error.offset == size
        assert ticks.tobytes() == whole[: len(ticks)].tobytes()
        assert len(ticks) >= data[:size].count(b"}, {")


@pytest.mark.parametrize(
    ("text", "words", "place"),
    [
        (f'{ONE}, {{"s": "A", "t": 1, "p": 1x, "q": 1}}]', "message 2: is not JSON", (37, 1)),
        (f'{ONE},\n\n  {{"s": "A", "t": 1, "p": "y", "q": 1}}]', "price: 'y' is not a number", (40, 3)),
        (f'{ONE},\n {{"s": "A", "t": 1, "q": 1}}\n]', "there is no field p", (38, 2)),
        (f"{ONE},]", "message 2: is not JSON", (36, 1)),
        (f"{ONE},, {{}}]", "message 2: is not JSON", (36, 1)),
        (f"{ONE}] x", "is not one JSON value behind its list", (36, None)),
        (ONE, "ends inside its list of messages", (35, 1)),
        (f"{ONE}}}", "is not one JSON value behind its list", (36, None)),
    ],
)
def test_a_bad_item_is_named_with_its_place_after_the_ticks_before_it(
    text: str, words: str, place: tuple[int, int | None], tmp_path: Path
) -> None:
    path = written(tmp_path / "a.json", text)
    ticks, error = read(feeds.open(path, profile=PROFILE))
    assert isinstance(error, FeedError)
    assert str(error.path) == str(path)
    with pytest.raises(FeedError, match=words):
        raise error
    assert (error.offset, getattr(error, "line", None)) == place
    assert len(ticks) == (text != ONE)  # its only item may go on


def test_bad_items_are_skipped_and_counted_where_that_is_asked_for(tmp_path: Path) -> None:
    texts = [json.dumps(item) for item in trades(5)]
    texts[1], texts[3] = '{"s": 1x}', '{"s": "A"}'
    feed = feeds.open(written(tmp_path / "a.json", f"[{', '.join(texts)}]"), profile=PROFILE, on_bad_record="skip")
    ticks, error = read(feed)
    assert error is None
    assert (ticks["price"] // 10**9).tolist() == [1, 3, 5]
    assert sum(feed.skipped.counts.values()) == 2


@pytest.mark.parametrize("text", ["[]", " [ \n ] "])
def test_an_empty_list_has_no_ticks(text: str, tmp_path: Path) -> None:
    ticks, error = read(feeds.open(written(tmp_path / "a.json", text), profile=PROFILE))
    assert (len(ticks), error) == (0, None)


def test_an_item_longer_than_may_be_is_refused_with_the_way_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "_LONGEST_ITEM", 5_000)
    monkeypatch.setattr(reader, "_CHUNK_BYTES", 100)
    items = [*trades(1), *trades(1, note="x" * 30_000)]
    ticks, error = read(feeds.open(written(tmp_path / "a.json", json.dumps(items)), profile=PROFILE))
    with pytest.raises(FormatError, match=r"more than 5,000 bytes: make a line of each message, as jq -c"):
        raise error or AssertionError
    assert len(ticks) == 1


def test_memory_does_not_grow_with_the_document(tmp_path: Path) -> None:
    peaks = []
    for count in (4_000, 60_000):
        path = written(tmp_path / "a.json", json.dumps(trades(count, note="x" * 200)))
        with feeds.open(path, profile=PROFILE) as feed:
            tracemalloc.start()
            try:
                assert sum(map(len, feed.batches())) == count
                peaks.append(tracemalloc.get_traced_memory()[1])
            finally:
                tracemalloc.stop()
    assert peaks[1] < peaks[0] + (1 << 20)


def test_the_length_and_the_symbol_of_candles_come_from_the_name_or_by_options(tmp_path: Path) -> None:
    items = items_of("ccxt-candles", 5)
    feed = feeds.open(write(tmp_path, "ccxt-candles", items))
    assert len(feed.to_numpy()) == 20
    assert (feed.info.bars, feed.info.has_sizes, list(feed.symbols)) == (300 * 10**9, True, ["ETH_USDT_USDT"])
    path = written(tmp_path / "fetched.json", json.dumps(items))
    with pytest.raises(ConfigurationError, match=r"fetched.json does not hold it.*give symbol="):
        feeds.open(path)
    with pytest.raises(ConfigurationError, match=r"does not say their length: give it, as in bars='1m'"):
        feeds.open(path, symbol="X")
    same = feeds.open(path, symbol="X", bars="5m")
    assert same.to_numpy().tobytes() == feeds.open(tmp_path / DOCUMENTS["ccxt-candles"].file).to_numpy().tobytes()
    month = feeds.open(path, symbol="X", bars="1mo")
    assert month.info.details["bars_of"] == "months of UTC"
    assert set(month.to_numpy()["ts_recv"].tolist()) == {int(np.datetime64("2026-02-01", "ns").astype(np.int64))}
    trade = write(tmp_path, "freqtrade-trades", 3)
    with pytest.raises(ConfigurationError, match="its messages are no bars"):
        feeds.open(trade, bars="1m")
    with pytest.raises(ConfigurationError, match="says where the messages have it: leave symbol out"):
        feeds.open(write(tmp_path, "ccxt-trades", 3), symbol="X")
    result = strand.replay(tmp_path / DOCUMENTS["ccxt-candles"].file, strand.bars("10m"))
    assert len(result.outputs["bars"]) == 3  # five bars of five minutes


def test_a_list_that_no_profile_knows_asks_for_one(tmp_path: Path) -> None:
    for items in ([[1, 2]], [{"a": 1}], [1, 2], [["x"] * 7], []):
        with pytest.raises(UnknownFormatError, match=r"give a profile|starts with"):
            feeds.open(written(tmp_path / "a.json", json.dumps(items)))
    with pytest.raises(ConfigurationError, match="or one of ccxt-candles, ccxt-trades, freqtrade-trades"):
        feeds.open(written(tmp_path / "a.json", "[[1, 2]]"), format="jsonl")


def test_the_answer_of_an_exchange_is_read_by_the_profile_of_the_page(tmp_path: Path) -> None:
    _, text = re.findall(r"```toml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    (tmp_path / "kraken.toml").write_text(text)
    rows = [["91000.10000", "0.00010000", 1767571200.1234567, "b", "m", "", 7], ["1", "2", 1767571201, "s", "l", "", 8]]
    answer = {"error": [], "result": {"XXBTZUSD": rows, "last": "1767571201000000000"}}
    feed = feeds.open(written(tmp_path / "a.json", json.dumps(answer)), profile=tmp_path / "kraken.toml")
    first, second = as_dicts(feed)
    assert (first["ts_event"], first["price"], first["size"], first["side"], first["ref_id"]) == (
        1767571200123456700, 91000100000000, 10000, "B", 7,
    )  # fmt: skip
    assert (second["symbol"], second["side"], second["kind"]) == ("XXBTZUSD", "A", 2)
