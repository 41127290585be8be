"""Readers' options as a command line gives them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from strand import feeds
from strand.command.cli import cli
from strand.errors import ConfigurationError, UnknownSymbolError
from strand.feeds.io.bytestream import InflateLimits
from strand.feeds.reader_options import option_values

pytestmark = pytest.mark.python


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        ({}, {}),
        ({"price_unit": "0.01", "levels": "5"}, {"price_unit": "0.01", "levels": 5}),
        ({"symbol": "600000", "session": "0000000001"}, {"symbol": "600000", "session": "0000000001"}),
        ({"port": "26400,26401"}, {"port": [26400, 26401]}),
        ({"size_unit": "0.001", "inexact": "round"}, {"size_unit": "0.001", "inexact": "round"}),
        ({"blank_headers": "true"}, {"blank_headers": True}),
        ({"columns.price.column": "zz,ipx"}, {"columns": {"price": {"column": ["zz", "ipx"]}}}),
        (
            {"columns.price": "a,b", "columns.price.unit": "0.01,1"},
            {"columns": {"price": {"column": "a,b", "unit": ["0.01", "1"]}}},
        ),
        ({"columns.price": "px", "columns.flags": ""}, {"columns": {"price": "px", "flags": None}}),
        ({"constants.kind": "2", "constants.side": "B"}, {"constants": {"kind": 2, "side": "B"}}),
        (
            {"limits.max_ratio": "1e3", "limits.max_bytes": "4096"},
            {"limits": InflateLimits(max_ratio=1000.0, max_bytes=4096)},
        ),
    ],
    ids=",".join,
)
def test_a_text_becomes_what_the_readers_take(texts: dict[str, str], values: dict[str, Any]) -> None:
    assert option_values(texts) == values


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        ({"prize": "1"}, r"prize: no reader has such an option; there are array, "),
        ({"date": "2026-01-05"}, r"date: give it by --date, an option of its own"),
        ({"on_bad_record": "skip"}, r"on_bad_record: give it by --on-bad-record, an option of its own"),
        ({"levels": "five"}, r"levels: 'five' is not a whole number"),
        ({"port": "1,b"}, r"port: '1,b' is not a whole number"),
        ({"blank_headers": "yes"}, r"blank_headers: give true or false, not 'yes'"),
        ({"columns": "price"}, r"columns: it is given as columns.NAME=VALUE"),
        ({"levels.bid": "1"}, r"levels.bid: it is given as levels=VALUE"),
        (
            {"columns.side.map": "x", "columns.side.map.buy": "B"},
            r"columns.side.map: given both as one text and by its entries",
        ),
        (
            {"columns.side.map.buy": "B", "columns.side.map": "x"},
            r"columns.side.map: given both as one text and by its entries",
        ),
        ({"limits.ratio": "3"}, r"limits.ratio: there are max_ratio, max_bytes"),
        ({"limits.max_bytes": "much"}, r"limits.max_bytes: 'much' is not a whole number"),
        ({"limits.max_ratio": "much"}, r"limits.max_ratio: 'much' is not a number"),
    ],
    ids=lambda given: ",".join(given) if isinstance(given, dict) else "",
)
def test_a_text_that_cannot_be_meant_is_refused(texts: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        option_values(texts)


def said_of(*arguments: object) -> Any:
    return json.loads(CliRunner().invoke(cli, [*map(str, arguments), "--json"], catch_exceptions=False).stdout)


@pytest.fixture
def coins(tmp_path: Path) -> Path:
    """Two trades of fractions of a coin, as an array of one symbol."""
    rows = np.zeros(2, [("at", "<i8"), ("p", "<i8"), ("q", "<i8")])
    rows["at"], rows["p"], rows["q"] = [10**18, 10**18 + 1], [7, 8], 3
    np.save(tmp_path / "coins.npy", rows)
    return tmp_path / "coins.npy"


OPTIONS = ("--feed", "columns.ts_recv=at", "--feed", "columns.price=p", "--feed", "columns.size=q",
           "--feed", "symbol=XBT", "--feed", "price_unit=1", "--feed", "constants.side=B")  # fmt: skip


@pytest.mark.parametrize("command", ["info", "replay"])
def test_commands_hand_them_to_the_reader(coins: Path, command: str) -> None:
    assert said_of(command, coins, *OPTIONS)["ticks"] == 2


def test_convert_hands_them_to_the_reader(coins: Path) -> None:
    out = coins.with_name("out.npz")
    assert said_of("convert", coins, out, *OPTIONS)["ticks"] == 2
    with feeds.open(out) as feed:
        (ticks,) = [batch.copy() for batch in feed.batches()]
        assert feed.symbols == ("XBT",)
    assert ticks["price"].tolist() == [7 * 10**9, 8 * 10**9]
    assert ticks["side"].tolist() == [b"B", b"B"]


def test_an_option_of_another_reader_is_refused(coins: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"open\(\) of npy files has no option 'levels'"):
        said_of("info", coins, *OPTIONS, "--feed", "levels=2")


def test_a_name_that_no_symbol_has_is_an_error_of_every_command(coins: Path) -> None:
    out = coins.with_name("out.npz")
    for arguments in (("info", coins), ("replay", coins), ("convert", coins, out)):
        with pytest.raises(UnknownSymbolError, match=r"nothing in .*coins.npy is named 'ETH\*'"):
            said_of(*arguments, *OPTIONS, "--symbols", "XBT,ETH*")
        with pytest.raises(UnknownSymbolError, match=r"is named 'xbt'; did you mean 'XBT'\?$"):
            said_of(*arguments, *OPTIONS, "--symbols", "xbt")
        with pytest.raises(ConfigurationError, match="cannot be read"):
            said_of(*arguments, *OPTIONS, "--symbols", "@no-such-file")
    assert not out.exists()
    assert said_of("convert", coins, out, *OPTIONS, "--symbols", "X*")["ticks"] == 2


def test_convert_says_what_it_passed_over(tmp_path: Path) -> None:
    import itch_reference as ref

    sound = ref.frame(ref.message("D", 1, 2, 3))
    bad = next(bytearray(body) for body in ref.every_type() if body[:1] == b"A")
    bad[19] = ord("?")  # neither B nor S
    (tmp_path / "20190130.itch").write_bytes(sound + ref.frame(bytes(bad)) + sound * 9)
    found = said_of("convert", tmp_path / "20190130.itch", tmp_path / "out.npz", "--on-bad-record", "skip")
    assert (found["ticks"], found["skipped"]["counts"]) == (10, {"bad side": 1})
    assert [sample["offset"] for sample in found["skipped"]["samples"]] == [len(sound)]
