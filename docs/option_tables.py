"""The rows of docs/configuration.md that come from the declarations of options.

.venv/bin/python docs/option_tables.py --write   writes them; a test says whether they are up to date
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from strand.command.run_options import keys_of_options
from strand.config.configuration import OF_SCHEDULERS
from strand.config.file import TABLES, lines_of_tables
from strand.options import options_in
from strand.policies.policy import POLICIES

__all__ = ["written"]

PAGE = Path(__file__).with_name("configuration.md")
#: The rows of the policies' options, and the row behind them.
_OF_POLICIES = re.compile(r"^\| `policy` \|.*?(?=^\| `priorities` \|)", re.DOTALL | re.MULTILINE)
#: The first row of the other tables that come from the declarations, and the line behind the last one.
_ROWS = re.compile(rf"^\| `({'|'.join(TABLES)})` \|.*?(?=^\n)", re.DOTALL | re.MULTILINE)


def _text(text: str) -> str:
    """A text of a declaration, with links to pages and literals as Markdown has them."""
    linked = re.sub(r"docs/(\w+)\.md", r"[\1](\1.md)", text)
    return re.sub(r"``(.+?)``", r"`\1`", linked).replace("|", "\\|")


def _policy_rows() -> str:
    rows = ['| `policy` | `name` | `"fifo"` | The name of a [policy](policies.md). Its options follow. |']
    for name, kind in POLICIES.items():
        for option in options_in(kind).values():
            if option.name == "timeouts":  # keys of the table priorities
                continue
            value = option.plain(option.default)
            default = "not set" if value is None else f"`{json.dumps(value)}`"
            rows.append(f"| | `{option.name}` | {default} | For {name}: {_text(option.documentation('Not set'))} |")
    return "".join(f"{row}\n" for row in rows)


def _rows() -> str:
    rows = []
    for (table, *_), comment, lines in lines_of_tables():
        if table in TABLES:
            rows.append(f"| `{table}` | | | {_text(comment)} |")
            for line in lines:
                default = f"`{json.dumps(line.value)}`" if line.is_set else "not set"
                rows.append(f"| | `{line.key}` | {default} | {_text(line.comment)} |")
    return "".join(f"{row}\n" for row in rows)


def _scheduler_rows() -> str:
    rows = {name: " or else ".join(f"`{key}`" for key in keys) for name, (keys, _) in OF_SCHEDULERS.items()}
    rows["policy"] = rows["policy"].replace(" or else ", ", and the timeouts in ")
    return "".join(f"| `{name}` | {keys} |\n" for name, keys in rows.items())


def _command_rows() -> str:
    return "".join(f"| `{_text(option)}` | `{key}` |\n" for option, key in keys_of_options())


#: By the head of a table whose rows all come from declarations: what makes them.
_TABLES = {
    "| argument | from the file |\n|---|---|\n": _scheduler_rows,
    "| option | key |\n|---|---|\n": _command_rows,
}


def written(page: str) -> str:
    """The page's text with the rows of today's declarations."""
    page = _ROWS.sub(lambda _: _rows(), _OF_POLICIES.sub(lambda _: _policy_rows(), page, count=1), count=1)
    for head, rows in _TABLES.items():
        before, _, after = page.partition(head)
        page = f"{before}{head}{rows()}\n{after.partition(chr(10) * 2)[2]}"
    return page


if __name__ == "__main__":
    now = PAGE.read_text("utf-8")
    if "--write" in sys.argv:
        PAGE.write_text(written(now), "utf-8")
    sys.exit(written(now) != now and "--write" not in sys.argv)
