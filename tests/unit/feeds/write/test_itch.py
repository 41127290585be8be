"""Ticks written as ITCH: byte for byte as they were read, or refused."""

from __future__ import annotations

from pathlib import Path

import itch_reference
import pytest
from converted import ITCH_NAME, assert_same, read

from strand.errors import ConfigurationError
from strand.feeds.write.conversion import convert

pytestmark = pytest.mark.python


@pytest.mark.parametrize("between", ["a.parquet", "a.arrow", "a.npz"])
def test_an_itch_file_that_was_written_survives_any_detour_byte_for_byte(
    tmp_path: Path, day: Path, between: str
) -> None:
    for folder in "bc":
        (tmp_path / folder).mkdir()
    convert(day, tmp_path / ITCH_NAME)
    assert_same(read(tmp_path / ITCH_NAME), read(day), "sequence")
    convert(tmp_path / ITCH_NAME, tmp_path / between)
    convert(tmp_path / between, tmp_path / "b" / ITCH_NAME)
    assert (tmp_path / "b" / ITCH_NAME).read_bytes() == (tmp_path / ITCH_NAME).read_bytes()
    convert(tmp_path / ITCH_NAME, tmp_path / "c" / ITCH_NAME, feed_options={"batch_ticks": 4096})
    assert (tmp_path / "c" / ITCH_NAME).read_bytes() == (tmp_path / ITCH_NAME).read_bytes()


def test_every_itch_message_that_makes_a_tick_is_written_as_it_was_or_refused(tmp_path: Path) -> None:
    names = [itch_reference.directory(7, b"AAPL"), itch_reference.directory(13, b"BRK.A")]
    refused, written = [], 0
    for body in itch_reference.every_type():
        source = tmp_path / ITCH_NAME
        source.write_bytes(b"".join(map(itch_reference.frame, [*names, body])))
        target = tmp_path / f"out.{ITCH_NAME}"
        expected = read(source)
        try:
            convert(source, target, allow_empty=True)
        except ConfigurationError as error:
            refused.append(str(error).split(":")[0])
            continue
        if len(expected[0]):
            assert_same(read(target), expected, "sequence")
            frames = itch_reference.frame(body)
            assert len(target.read_bytes()) == 41 * (expected[1] != [""]) + len(frames)  # of the same type, and its R
            written += 1
    assert set(refused) <= {"flags"}  # sizes beyond 32 bits
    assert written >= 20


def test_the_date_of_an_itch_file_must_be_in_its_name(tmp_path: Path, day: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"01052026\.x\.itch"):
        convert(day, tmp_path / "x.itch")
    with pytest.raises(ConfigurationError, match="2026-01-06"):
        convert(day, tmp_path / "20260106.itch")
