#!/bin/sh
# duckdb: INT96 times and time_bucket lose nanoseconds without a word
#
# Spark, Hive and Impala write times of Parquet as INT96, which hold nanoseconds. duckdb reads them as TIMESTAMP, in microseconds.
# time_bucket of a TIMESTAMP_NS gives a TIMESTAMP: buckets below a microsecond are all one.
# pyarrow reads the same file to the nanosecond. Reported as issue 25857 of duckdb.
# Seen with duckdb 2.0.1, pyarrow 26.0.1.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet duckdb==2.0.1 pyarrow==26.0.1
venv/bin/python - <<'END'
import duckdb, pyarrow as pa, pyarrow.parquet as pq

times = pa.table({"t": pa.array([1767571200123456001, 1767571200123456999], pa.timestamp("ns"))})
pq.write_table(times, "int64.parquet")
pq.write_table(times, "int96.parquet", use_deprecated_int96_timestamps=True)
print("duckdb", duckdb.__version__)
found = {}
for name in ("int64", "int96"):
    found[name] = duckdb.sql(f"select typeof(t), epoch_ns(t) from '{name}.parquet'").fetchall()
    print(name, found[name])
bucket = duckdb.sql("select typeof(time_bucket(interval 1 second, t)) from 'int64.parquet' limit 1").fetchall()
print("time_bucket gives", bucket)
assert found["int64"] == [("TIMESTAMP_NS", 1767571200123456001), ("TIMESTAMP_NS", 1767571200123456999)]
assert found["int96"] == [("TIMESTAMP", 1767571200123456000)] * 2
assert bucket == [("TIMESTAMP",)]
assert pq.read_table("int96.parquet")["t"].cast(pa.int64()).to_pylist() == [1767571200123456001, 1767571200123456999]
END
