"""Log lines of Strand, through the standard ``logging``: events with fields and bounds, and formatters without secrets.

An ``Event`` is one kind of line. docs/logs.md lists them all. Where nobody listens, a call does no more than see that.
"""

from __future__ import annotations

import datetime as dt
import json
import logging
import math
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final, Literal

from strand.brief import one_line

#: All events of the modules that were imported, by name.
EVENTS: Final[dict[str, Event]] = {}
#: Fields of the code that logs, by name, such as the task that it runs. None: it has none.
CONTEXT: Final[dict[str, Callable[[], Any]]] = {}

#: Reentrant: the garbage collector may run a ``__del__`` that logs while it is held.
_LOCK: Final = threading.RLock()
os.register_at_fork(before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release)


class Bound:
    """At most ``most`` of something within ``interval_s`` seconds; None: any number."""

    def __init__(self, most: int | None, interval_s: float) -> None:
        self.most, self.interval_s = most, interval_s
        self._since, self._n, self._left_out = -math.inf, 0, 0

    def take(self) -> int | None:
        """Takes one, and returns how many were left out since the last one that was taken. None: it is left out."""
        with _LOCK:
            now = time.monotonic()
            if now - self._since >= self.interval_s:
                self._since, self._n = now, 0
            self._n += 1
            if self.most is not None and self._n > self.most:
                self._left_out += 1
                return None
            left_out, self._left_out = self._left_out, 0
            return left_out


class Event(Bound):
    """A kind of log line. Calling it logs one, with values of its fields.

    Of more than ``most`` lines within ``interval_s`` seconds, the others are left out. The next line that is logged
    says how many. Both can be changed: ``strand.logs.EVENTS["webhook.attempt_failed"].most = 1``.

    Args:
        name: Its name.
        logger: The name of its logger; one that begins with a dot is below ``strand``.
        level: The name of its level.
        text: The message; ``%(name)s`` stands for a field.
        *fields: The names of fields that the message does not show.
        most: How many lines may come within an interval; None: any number.
        interval_s: Length of the interval, in s.
    """

    def __init__(
        self,
        name: str,
        logger: str,
        level: Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"],
        text: str,
        *fields: str,
        most: int | None = 20,
        interval_s: float = 10.0,
    ) -> None:
        self.name, self.level, self.text = name, level, text
        self._level = getattr(logging, level)
        self.fields = (*re.findall(r"%\((\w+)\)", text), *fields)
        super().__init__(most, interval_s)
        self._logger = logging.getLogger(f"strand{logger}" if logger[:1] in ("", ".") else logger)
        EVENTS[name] = self

    @property
    def is_on(self) -> bool:
        """True if a line would be logged, but for the bound."""
        return self._logger.isEnabledFor(self._level)

    @property
    def logger(self) -> str:
        """The name of its logger."""
        return self._logger.name

    def __call__(self, *, at: int | None = None, exc_info: Any = None, **fields: Any) -> None:
        """Logs a line. ``at``: its level, where that is another one each time."""
        level = self._level if at is None else at
        if not self._logger.isEnabledFor(level):
            return
        if (left_out := self.take()) is None:
            return
        extra, text = {**fields, "event": self.name}, self.text
        if left_out:
            extra["left_out"] = left_out
            text = f"{text} ({left_out:,} more were left out since the last line)"
        arguments = (fields,) if fields else ()
        self._logger.log(level, text, *arguments, exc_info=exc_info, extra=extra, stacklevel=2)


_HIDDEN: Final = "***"
_LONGEST: Final = 1 << 20
#: Tables within tables of a field's value that are looked into.
_DEEPEST: Final = 8
#: A shorter secret would hide parts of words.
_LEAST_SECRET: Final = 6
_SECRETS: Final[set[str]] = set()
_SECRET_FIELDS: Final = frozenset({"authorization", "proxy-authorization", "cookie", "password", "secret", "token"})
_PATTERNS: Final = (
    re.compile(r"(?<=://)[^/\s@'\"]+(?=@)"),  # user and password of a URL
    re.compile(r"(?i)(?<=\bbearer )\s*[^\s'\",]+"),
    re.compile(r"(?i)(?<=authorization['\"][:,] )b?(?:'[^']*'|\"[^\"]*\")"),  # in a dict or list as text
    re.compile(r"(?i)(?<=authorization: )[^\r\n'\"]+|(?<=authorization=)[^\s'\",]+"),
    re.compile(r"(?i)(?<=[?&])((?:access_?)?token|api_?key|key|secret|password|signature)=[^&\s'\"]+"),
)


def keep_secret(secret: str | bytes) -> None:
    """Lets the formatters here replace a secret by ``***`` wherever it occurs.

    Args:
        secret: The secret. One of fewer than 6 characters is not kept: it would hide parts of words.
    """
    text = secret.decode("utf-8", "replace") if isinstance(secret, bytes) else secret
    if len(text) >= _LEAST_SECRET:
        # Some text has a value as Python or JSON writes it.
        _SECRETS.update((text, repr(text)[1:-1], json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]))


def _without_secrets(text: str) -> str:
    for secret in sorted(_SECRETS, key=len, reverse=True):  # one may be the beginning of another
        text = text.replace(secret, _HIDDEN)
    for pattern in _PATTERNS:
        text = pattern.sub(_HIDDEN, text)
    return text.encode("utf-8", "backslashreplace").decode()


class TextFormatter(logging.Formatter):
    """Formats as ``logging.Formatter`` does, without secrets. A message is one line, and characters that a terminal
    would act on are shown as codes."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # the name that logging calls
        """See ``logging.Formatter``."""
        return one_line(_without_secrets(super().formatMessage(record)).rstrip(), _LONGEST)

    def format(self, record: logging.LogRecord) -> str:
        """See ``logging.Formatter``."""
        lines = _without_secrets(super().format(record)).split("\n")
        return "\n".join(one_line(line, _LONGEST) for line in lines)


#: What every record has; other attributes are fields.
_USUAL: Final = frozenset((*vars(logging.makeLogRecord({})), "message", "asctime", "taskName", "color_message"))


class JsonFormatter(logging.Formatter):
    """Formats a record of any logger as one line of JSON, without secrets.

    It has ``time`` (UTC), ``level``, ``logger``, ``event`` (of Strand's own lines), ``message``, all fields of
    ``extra=``, and ``exception``. Within a task it has ``run`` and ``task``, within a request of ``strand.http``
    ``request_id`` and ``trace_id``. They are those of the thread that formats, so give the formatter to a
    ``QueueHandler``, and not to what reads the queue.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Returns the line."""
        at = dt.datetime.fromtimestamp(record.created, dt.UTC)
        found = {"time": f"{at:%Y-%m-%dT%H:%M:%S.%f}Z", "level": record.levelname, "logger": record.name}
        fields = {name: value for name, value in vars(record).items() if name not in _USUAL}
        if "event" in fields:
            found["event"] = fields.pop("event")
        found["message"] = record.getMessage()
        found |= {name: value for name, value in fields.items() if name not in found}
        for name, read in CONTEXT.items():
            if name not in found and (value := read()) is not None:
                found[name] = value
        if record.exc_info or record.exc_text:
            found["exception"] = record.exc_text or self.formatException(record.exc_info)  # type: ignore[arg-type]
        return json.dumps(_plain(found))


def _plain(value: Any, depth: int = 0) -> Any:
    """A value as JSON has it, without secrets."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping) and depth < _DEEPEST:
        return {
            _without_secrets(str(name)): _HIDDEN if str(name).lower() in _SECRET_FIELDS else _plain(one, depth + 1)
            for name, one in value.items()
        }
    if isinstance(value, (list, tuple, set, frozenset)) and depth < _DEEPEST:
        return [_plain(one, depth + 1) for one in value]
    try:
        return _without_secrets(repr(value) if isinstance(value, BaseException) else str(value))
    except Exception:  # of an object of a user
        return f"(a {type(value).__name__} that cannot be shown as text)"


class _TerminalFormatter(TextFormatter):
    """Formats lines for standard error of a terminal: of those that only inform, as much as a line of it shows."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # the name that logging calls
        """See ``logging.Formatter``."""
        line, columns = super().formatMessage(record), 0
        if record.levelno < logging.WARNING:
            with suppress(AttributeError, OSError, ValueError):  # something else is standard error now, or it is closed
                columns = os.get_terminal_size(sys.stderr.fileno()).columns
        return one_line(line, columns) if columns else line


@contextmanager
def to_standard_error(form: Literal["text", "json"], level: str = "info") -> Iterator[None]:
    """Sends Strand's lines from a level on, and warnings of all other code, to standard error, in the block.

    Handlers that the program has set get the same lines. On a terminal, lines below a warning are cut to its width.
    """
    handler, ours = logging.StreamHandler(sys.stderr), logging.getLogger("strand")
    as_text = _TerminalFormatter if sys.stderr is not None and sys.stderr.isatty() else TextFormatter
    handler.setFormatter(JsonFormatter() if form == "json" else as_text("%(levelname)s %(name)s: %(message)s"))
    before = ours.level
    logging.getLogger().addHandler(handler)
    ours.setLevel(level.upper())
    try:
        yield
    finally:
        ours.setLevel(before)
        logging.getLogger().removeHandler(handler)
