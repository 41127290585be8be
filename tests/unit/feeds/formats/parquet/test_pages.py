"""Pages of Parquet are held against the limits, whatever the metadata says of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from expanding_files import read_apart, write

pytestmark = pytest.mark.python
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def test_what_a_files_metadata_says_of_its_pages_is_not_believed(tmp_path: Path) -> None:
    path = write(tmp_path, 20_000_000, "parquet", "zstd")
    data = path.read_bytes()
    honest = pq.ParquetFile(path).metadata.row_group(0).column(0).total_uncompressed_size
    # Thrift's numbers are zigzag varints: the sizes are lowered where they stand, in as many bytes.
    lowered = data.replace(varint(honest), varint(honest % (1 << 21) | 1 << 28))
    assert lowered != data
    path.write_bytes(lowered)
    said, taken = read_apart(path)
    assert said.startswith("FormatError")
    assert taken < 120 << 20


def varint(value: int) -> bytes:
    value <<= 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
