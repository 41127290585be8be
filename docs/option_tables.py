"""The rows of docs/configuration.md and docs/policies.md that come from the declarations of options.

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
from strand.options import Flag, options_in
from strand.policies.policy import POLICIES

__all__ = ["PAGES", "written"]

PAGES = [Path(__file__).with_name(f"{name}.md") for name in ("configuration", "policies")]
#: The first row of the tables of files that come from the declarations, and the line behind the last one.
_ROWS = re.compile(rf"^\| `({'|'.join(TABLES)})` \|.*?(?=^\n)", re.DOTALL | re.MULTILINE)


def _text(text: str) -> str:
    """A text of a declaration, with links to pages and literals as Markdown has them."""
    linked = re.sub(r"docs/(\w+)\.md", r"[\1](\1.md)", text)
    return re.sub(r"``(.+?)``", r"`\1`", linked).replace("|", "\\|")


def _policy_rows() -> str:
    rows = []
    for name, kind in POLICIES.items():
        for option in options_in(kind).values():
            value = option.plain(option.default)
            default = "not set" if value is None else f"`{json.dumps(value)}`"
            metavar = "" if isinstance(option.kind, Flag) else f" {option.kind.metavar}"
            flag = f"`{_text(option.flag + metavar)}`" if option.flag else ""
            text = _text(option.documentation("Not set"))
            rows.append(f"| {name} | `{option.name}` | {flag} | {default} | {text} |")
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
    keys = ((option, key) for option, key in keys_of_options() if not key.startswith("policy."))
    return "".join(f"| `{_text(option)}` | `{key}` |\n" for option, key in keys)


#: By the head of a table whose rows all come from declarations: what makes them.
_TABLES = {
    "| argument | from the file |\n|---|---|\n": _scheduler_rows,
    "| option | key |\n|---|---|\n": _command_rows,
    "| policy | option | on the command line | default | what it is |\n|---|---|---|---|---|\n": _policy_rows,
}


def written(page: str) -> str:
    """The page's text with the rows of today's declarations."""
    page = _ROWS.sub(lambda _: _rows(), page, count=1)
    for head, rows in _TABLES.items():
        before, found, after = page.partition(head)
        if found:
            page = f"{before}{head}{rows()}\n{after.partition(chr(10) * 2)[2]}"
    return page


if __name__ == "__main__":
    stale = [page for page in PAGES if written(page.read_text("utf-8")) != page.read_text("utf-8")]
    for page in stale if "--write" in sys.argv else ():
        page.write_text(written(page.read_text("utf-8")), "utf-8")
    sys.exit(bool(stale) and "--write" not in sys.argv)
