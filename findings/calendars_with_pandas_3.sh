#!/bin/sh
# exchange_calendars loses sessions and whole calendars with pandas 3, and lacks Korea's exam days after 2020
#
# The same package with pandas 2 and pandas 3. With pandas 3 sessions on weekends are gone without a word: of XBOM, XMOS, and XKRX before 1998.
# XTAE, ASEX, XBEL, XBSE and XCYS cannot be made at all.
# With both, XKRX opens at 09:00 on the exam days of 2021 to 2025, and opened at 10:00 on that of 2020, as it did on each of them.
# With both, XHKG has sessions on 2023-09-01 and 2023-09-08, when storms closed the exchange.
# Seen with exchange_calendars 4.13.2, pandas 2.3.3 and 3.1.1.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat > look.py <<'END'
import warnings
warnings.simplefilter("ignore")
import exchange_calendars as xc, pandas as pd
from importlib.metadata import version

print("exchange_calendars", version("exchange_calendars"), "pandas", version("pandas"))
weekend = {}
for name, first, last in (("XBOM", "2024-01-01", "2025-03-01"), ("XMOS", "1999-01-01", "2025-01-31"), ("XKRX", "1998-01-01", "1998-12-31")):
    days = xc.get_calendar(name, start=first, end=last).sessions
    weekend[name] = int((days.day_of_week > 4).sum())
made = {}
for name in ("XTAE", "ASEX", "XBEL", "XBSE", "XCYS"):
    try:
        made[name] = len(xc.get_calendar(name, start="2024-01-02", end="2024-12-30").sessions) > 200
    except Exception as error:
        made[name] = type(error).__name__
print("sessions on weekends:", weekend)
print("calendars:", made)
korea = xc.get_calendar("XKRX", start="2020-01-02", end="2025-12-30")
exams = ["2020-12-03", "2021-11-18", "2022-11-17", "2023-11-16", "2024-11-14", "2025-11-13"]
opens = [f"{korea.session_open(day).tz_convert('Asia/Seoul'):%H:%M}" for day in exams]
print("opens of exam days from 2020 on:", opens)
assert opens == ["10:00"] + ["09:00"] * 5
storms = [xc.get_calendar("XHKG", start="2023-08-01", end="2023-10-30").is_session(day) for day in ("2023-09-01", "2023-09-08")]
print("sessions of XHKG on two days of storms:", storms)
assert storms == [True, True]
if pd.__version__.startswith("2."):
    assert weekend == {"XBOM": 2, "XMOS": 40, "XKRX": 46} and set(made.values()) == {True}
else:
    assert weekend == {"XBOM": 0, "XMOS": 0, "XKRX": 0}
    assert made == {"XTAE": "ValueError"} | dict.fromkeys(("ASEX", "XBEL", "XBSE", "XCYS"), "NotImplementedError")
END
for pandas in 2.3.3 3.1.1; do
    python3 -m venv venv
    venv/bin/pip install --quiet exchange_calendars==4.13.2 pandas==$pandas
    venv/bin/python look.py
    rm -r venv
done
