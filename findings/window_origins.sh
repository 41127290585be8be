#!/bin/sh
# pandas, polars, duckdb and pyarrow: windows that do not divide a day have four different grids
#
# The same minutes in windows of 7 minutes. Each library counts windows from another origin.
# pandas counts from midnight of the day of the first row, so a file that begins a day earlier has other bars.
# polars counts from 1970-01-01, duckdb from 2000-01-03, and pyarrow from 1970-01-01, or from each hour with calendar_based_origin.
# All four agree only on windows that divide a day.
# Seen with pandas 3.1.1, polars 2.1.0, duckdb 2.0.1, pyarrow 26.0.1.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet pandas==3.1.1 polars==2.1.0 duckdb==2.0.1 pyarrow==26.0.1
venv/bin/python - <<'END'
import duckdb, pandas as pd, polars as pl, pyarrow as pa, pyarrow.compute as pc

minutes = pd.date_range("2026-01-05 00:00", "2026-01-05 01:00", freq="1min")
frame = pl.DataFrame({"t": minutes.to_numpy()})
column = pa.array(minutes)

def shown(times):
    return [f"{t:%d %H:%M}" for t in times]

found = {
    "pandas": shown(pd.Series(1, minutes).resample("7min").sum().index[:2]),
    "pandas, rows from the day before": shown(pd.Series(1, minutes.insert(0, pd.Timestamp("2026-01-04 23:00"))).resample("7min").sum().loc["2026-01-04 23:50":].index[:3]),
    "polars": shown(frame.group_by_dynamic("t", every="7m").agg(pl.len())["t"][:2]),
    "duckdb": shown(row[0] for row in duckdb.sql("select distinct time_bucket(interval 7 minute, t) b from frame order by b limit 2").fetchall()),
    "pyarrow": shown(pc.floor_temporal(column, 7, "minute").unique()[:2].to_pylist()),
    "pyarrow, calendar_based_origin": shown(pc.floor_temporal(column, 7, "minute", calendar_based_origin=True).unique()[8:10].to_pylist()),
}
print("pandas", pd.__version__, "polars", pl.__version__, "duckdb", duckdb.__version__, "pyarrow", pa.__version__)
for name, starts in found.items():
    print(f"{name}: {starts}")
assert found["pandas"] == ["05 00:00", "05 00:07"]
assert found["pandas, rows from the day before"] == ["04 23:55", "05 00:02", "05 00:09"]
assert found["polars"] == ["04 23:54", "05 00:01"]
assert found["duckdb"] == ["05 00:00", "05 00:07"]
assert found["pyarrow"] == ["04 23:54", "05 00:01"]
assert found["pyarrow, calendar_based_origin"] == ["05 00:56", "05 01:00"]
week = pd.Series(1, pd.date_range("2026-01-06", periods=60, freq="1min"))
a = shown(duckdb.sql("select min(time_bucket(interval 7 minute, t)) from (select unnest(range(timestamp '2026-01-06', timestamp '2026-01-06 00:07', interval 1 minute)) t)").fetchall()[0])
b = shown(week.resample("7min").sum().index[:1])
print("a day later: duckdb", a, "pandas", b)
assert a != b
END
