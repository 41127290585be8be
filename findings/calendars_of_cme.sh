#!/bin/sh
# Two calendar packages disagree on CME's hour of rest, Good Friday and Juneteenth
#
# exchange_calendars' CMES has sessions of 24 hours, without the hour from 16:00 to 17:00 of Chicago in which Globex equity futures rest.
# It has no session on Good Friday 2026, when equity futures trade until 08:15, and a full one on Juneteenth, when they stop at noon.
# pandas_market_calendars' CME_Equity has all three.
# Both name a session that begins on Sunday evening by Monday's date.
# Seen with exchange_calendars 4.13.2, pandas_market_calendars 5.5.0, pandas 3.1.1.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet exchange_calendars==4.13.2 pandas_market_calendars==5.5.0 pandas==3.1.1
venv/bin/python - <<'END'
import warnings
warnings.simplefilter("ignore")
import exchange_calendars as xc, pandas as pd, pandas_market_calendars as mcal
from importlib.metadata import version

globex = xc.get_calendar("CMES", start="2026-01-02", end="2026-07-01")
equity = mcal.get_calendar("CME_Equity").schedule("2026-01-02", "2026-07-01")

def ends(when):
    return f"{when.tz_convert('America/Chicago'):%m-%d %H:%M}"

print("exchange_calendars", version("exchange_calendars"), "pandas_market_calendars", version("pandas_market_calendars"))
rest = pd.Timestamp("2026-01-05 16:30", tz="America/Chicago")
monday = equity.loc["2026-01-05"]
print("open at 16:30 of Chicago:", globex.is_open_on_minute(rest), "and until", ends(monday.market_close))
assert globex.is_open_on_minute(rest) and ends(monday.market_close) == "01-05 16:00"
print("Good Friday:", globex.is_session("2026-04-03"), "and until", ends(equity.loc["2026-04-03"].market_close))
assert not globex.is_session("2026-04-03") and ends(equity.loc["2026-04-03"].market_close) == "04-03 08:15"
juneteenth = ends(globex.session_close("2026-06-19")), ends(equity.loc["2026-06-19"].market_close)
print("Juneteenth until", *juneteenth)
assert juneteenth == ("06-19 17:00", "06-19 12:00")
sunday = pd.Timestamp("2026-01-04 17:30", tz="America/Chicago")
assert globex.minute_to_session(sunday) == pd.Timestamp("2026-01-05") and ends(monday.market_open) == "01-04 17:00"
END
