#!/bin/sh
# polars: times read from text lose their nanoseconds without a word
#
# read_csv(try_parse_dates=True) and str.to_datetime() make Datetime("us") of texts with nine digits, and cut the last three.
# str.to_datetime(time_unit="ns") keeps them. Ticks of one microsecond then have one time, and an order by time is lost.
# Seen with polars 2.1.0.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet polars==2.1.0
venv/bin/python - <<'END'
import io
import polars as pl

texts = ["2026-01-05 09:30:00.123456001", "2026-01-05 09:30:00.123456999"]
read = pl.read_csv(io.StringIO("t\n" + "\n".join(texts) + "\n"), try_parse_dates=True)["t"]
made = pl.Series(texts).str.to_datetime()
kept = pl.Series(texts).str.to_datetime(time_unit="ns")
print("polars", pl.__version__)
for name, column in (("read_csv", read), ("to_datetime", made), ("time_unit='ns'", kept)):
    print(name, column.dtype, column.dt.timestamp("ns").to_list())
assert read.dtype == made.dtype == pl.Datetime("us")
assert read.n_unique() == made.n_unique() == 1
assert kept.dt.timestamp("ns").to_list() == [1767605400123456001, 1767605400123456999]
END
