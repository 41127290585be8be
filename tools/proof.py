"""Runs every check at length, and writes what came out into docs/proof.md: `make proof`.

    python tools/proof.py              all of them: most of a day on two cores
    python tools/proof.py tsan fuzz    these only; the others keep their lines

What each prints lies in build/proof/NAME.log. A line of the page has the day, the time that it took, and what its log
says of how much was tried.
"""

from __future__ import annotations

import datetime as dt
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
PAGE: Final = ROOT / "docs/proof.md"
LOGS: Final = ROOT / "build/proof"
#: By name: what is run, and which lines of its output tell how much was tried.
CHECKS: Final = {
    "mutants": ("make mutants", r"\d+ of \d+ mutants were tried"),
    "model": ("make model ITERATIONS=1000000 SEEDS=1000000", r"(?:ok|FAILED) \d+ seeds from .*"),
    "spin": ("make spin WHOLE=1", r"(?<=every state).* states, .*"),
    "bad-input": ("make bad-input", r"bad inputs tried: [\d,]+|\d+ passed.* in [\d.]+s"),
    "properties": (
        "HYPOTHESIS_PROFILE=proof make test PYTEST='-o timeout=3600 -o faulthandler_timeout=4000'",
        r"\d+ passed.* in [\d.]+s",
    ),
    "asan": ("make asan ASAN_TESTS=", r"\d+ passed.* in [\d.]+s"),
    "http-load": ("make http-load DURATION=60", r"[\d,]+ answered, .*"),
    "ray": ("make ray", r"\d+ passed.* in [\d.]+s"),
    "prometheus": ("make prometheus", r"\d+ passed.* in [\d.]+s"),
    "page": ("make page DURATION=60", r"\d+ passed.* in [\d.]+s"),
    "jobs": ("make jobs", r"\w+: \d+ jobs compared with ours"),
    "hostile": ("make hostile", r"[\d,]+ inputs, .*"),
    "tsan": ("make tsan DURATION=1800", r"\d+ rounds, .*"),
    "aarch64": ("make aarch64 DURATION=600", r"\d+ rounds in all, .*"),
    "fuzz": ("make fuzz DURATION=60", r"[\d,]+ inputs tried, .*"),
}
HEAD: Final = """# What was proven last, at length

`make proof` runs what continuous integration samples, and writes this page.

| check | command | day | minutes | result |
|---|---|---|---|---|
"""


def main(names: list[str]) -> int:
    """Runs the checks of these names, or all; 1 where one of them failed."""
    if unknown := set(names) - set(CHECKS):
        sys.exit(f"{', '.join(sorted(unknown))}: name some of {', '.join(CHECKS)}")
    LOGS.mkdir(parents=True, exist_ok=True)
    lines = _lines()
    failed = []
    for name in names or CHECKS:
        command, telling = CHECKS[name]
        begun = time.monotonic()
        with (LOGS / f"{name}.log").open("w+") as log:
            status = subprocess.run(command, shell=True, cwd=ROOT, stdout=log, stderr=log, check=False).returncode
            log.seek(0)
            told = "; ".join(" ".join(line.split()) for line in re.findall(telling, log.read())) or "nothing told"
        minutes = (time.monotonic() - begun) / 60
        result = told if status == 0 else f"**FAILED** ({status}): {told}"
        lines[name] = f"| {name} | `{command}` | {dt.date.today().isoformat()} | {minutes:.0f} | {result} |\n"
        print(lines[name], end="", flush=True)
        failed += [name] if status else []
        PAGE.write_text(HEAD + "".join(lines[name] for name in CHECKS if name in lines), "utf-8")
    if failed:
        print(f"failed: {', '.join(failed)}; see {LOGS}", file=sys.stderr)
    return 1 if failed else 0


def _lines() -> dict[str, str]:
    """The page's lines as they are, by check."""
    text = PAGE.read_text("utf-8") if PAGE.exists() else ""
    return {line.split("|")[1].strip(): line for line in text.splitlines(keepends=True) if line.startswith("| ")}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
