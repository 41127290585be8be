#!/bin/sh
# pandas: read_json makes numbers of texts, so symbols lose their zeros, and ids their last digits
#
# Venues and ccxt quote symbols, ids and prices in JSON, so that no reader rounds them. read_json tries to make numbers of all texts.
# "0700" and "0005", symbols of Hong Kong, become 700 and 5. Two ids of 20 digits become one float. A column whose name ends in
# "_time" becomes times. dtype=False with convert_dates=False leaves all as it is.
# Seen with pandas 3.1.1.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet pandas==3.1.1
venv/bin/python - <<'END'
import io
import json
import pandas as pd

text = json.dumps([
    {"symbol": "0700", "id": "18446744073709551614", "sequence_time": "1767571200001"},
    {"symbol": "0005", "id": "18446744073709551615", "sequence_time": "1767571200002"},
])
read = pd.read_json(io.StringIO(text))
kept = pd.read_json(io.StringIO(text), dtype=False, convert_dates=False)
print("pandas", pd.__version__)
print(read, read.dtypes, sep="\n")
assert read["symbol"].tolist() == [700, 5]
assert read["id"].dtype == float and read["id"].nunique() == 1
assert str(read["sequence_time"].dtype).startswith("datetime64")
assert kept["symbol"].tolist() == ["0700", "0005"]
assert kept["id"].tolist() == ["18446744073709551614", "18446744073709551615"]
assert kept["sequence_time"].tolist() == ["1767571200001", "1767571200002"]
END
