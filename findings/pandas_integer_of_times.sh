#!/bin/sh
# pandas 3: the integers of times are in us or in ns, as the text's digits decide
#
# Code that wrote times by .astype("int64"), or made seconds of them by // 10**9, got ns up to pandas 2.
# pandas 3 gives microseconds for texts of up to six digits and ns for nine, us for whole seconds and ns for seconds with a fraction.
# Timestamp.value of the same times is in ns. A Parquet or npy file of such integers does not say which they are.
# Seen with pandas 3.1.1.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet pandas==3.1.1
venv/bin/python - <<'END'
import io
import pandas as pd

def integer(text):
    frame = pd.read_csv(io.StringIO(f"t\n{text}\n"), parse_dates=["t"])
    return int(frame["t"].astype("int64")[0])

six, nine = integer("2026-01-05 00:00:00.500000"), integer("2026-01-05 00:00:00.500000000")
whole, fraction = (int(pd.to_datetime([s], unit="s").astype("int64")[0]) for s in (1767571200, 1767571200.5))
value = pd.Timestamp("2026-01-05").value
print("pandas", pd.__version__)
print("six digits", six, "nine digits", nine)
print("whole seconds", whole, "with a fraction", fraction, "Timestamp.value", value)
assert six == 1767571200500000 and nine == 1767571200500000000
assert whole == 1767571200000000 and fraction == 1767571200500000000
assert value == 1767571200000000000
END
