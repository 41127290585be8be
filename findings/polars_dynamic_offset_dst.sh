#!/bin/sh
# polars: days with an offset begin an hour late after the clocks went forward
#
# Days of 06:00 to 06:00 in Paris, by group_by_dynamic(every="1d", offset="6h").
# If the clocks change just before the first window, every window begins at 07:00 (in autumn at 05:00), also those of later days.
# If the first row is of a day earlier, the same rows fall into windows from 06:00.
# So a day's volume depends on where the file begins. Reported as issue 15966 of polars.
# Seen with polars 2.1.0, tzdata 2026.2.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet polars==2.1.0 tzdata==2026.2
venv/bin/python - <<'END'
from datetime import datetime, timedelta, timezone
import polars as pl

def starts(first, days):
    times = [first + timedelta(days=day) for day in range(days)]
    frame = pl.DataFrame({"t": pl.Series(times).dt.convert_time_zone("Europe/Paris"), "size": [1] * days})
    return frame.group_by_dynamic("t", every="1d", offset="6h").agg(pl.sum("size"))["t"].dt.strftime("%m-%d %H:%M").to_list()

print("polars", pl.__version__)
noon = datetime(2023, 3, 26, 12, tzinfo=timezone.utc)  # the clocks went forward at 01:00 UTC of this day
late, whole = starts(noon, 3), starts(noon - timedelta(days=1), 4)
print("from 03-26 on:", late)
print("from 03-25 on:", whole)
assert late == ["03-26 07:00", "03-27 07:00", "03-28 07:00"]
assert whole[1:] == ["03-26 06:00", "03-27 06:00", "03-28 06:00"]
autumn = starts(datetime(2023, 10, 29, 12, tzinfo=timezone.utc), 2)
print("from 10-29 on:", autumn)
assert autumn == ["10-29 05:00", "10-30 05:00"]
END
