"""Log lines: events beside the page that lists them, bounds, fields of tasks and requests, and secrets."""

from __future__ import annotations

import ast
import io
import json
import logging
import os
import pty
import re
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import strand
from strand import logs
from strand.alerts import Webhook
from strand.errors import ConfigurationError
from strand.http import App, Control
from strand.logs import EVENTS, Event, JsonFormatter, TextFormatter

pytestmark = pytest.mark.python

ROOT = Path(__file__).resolve().parents[2]
SOURCES = [path for folder in ("strand", "feeds") for path in sorted((ROOT / folder).rglob("*.py"))]
LOGGER = "strand.test"


@pytest.fixture
def lines() -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """The lines that all loggers of strand and this test have logged so far, from DEBUG on, read as JSON."""
    out, logger = io.StringIO(), logging.getLogger("strand")
    handler = logging.StreamHandler(out)
    handler.setFormatter(JsonFormatter())
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield lambda: [json.loads(line) for line in out.getvalue().splitlines()]
    logger.removeHandler(handler)
    logger.setLevel(level)


@pytest.fixture
def event() -> Iterator[Event]:
    yield Event("test.event", LOGGER, "INFO", "number %(n)d", most=3, interval_s=3600)
    del EVENTS["test.event"]


def only(found: list[dict[str, Any]], name: str) -> dict[str, Any]:
    (one,) = [line for line in found if line.get("event") == name]
    return one


# ---- Events and their page


def declared() -> dict[str, tuple[str, str, set[str]]]:
    """Logger, level and fields of each event that a module declares."""
    for path in SOURCES:
        if re.search(r"^from strand.logs import .*\bEvent\b", path.read_text("utf-8"), re.MULTILINE):
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            import_module(f"strand.{module}" if module.startswith("feeds.") else module)
    found = {name: each for name, each in EVENTS.items() if name != "test.event"}
    return {name: (each.logger, each.level, set(each.fields)) for name, each in found.items()}


def test_the_page_lists_every_event_with_its_level_and_fields() -> None:
    page = (ROOT / "docs/logs.md").read_text("utf-8")
    rows = re.findall(r"^\| `([\w.]+)` \| (\w+) \| `([\w.]+)` \|([^|]*)\|", page, re.MULTILINE)
    listed = {name: (logger, level, set(re.findall(r"`(\w+)`", fields))) for name, level, logger, fields in rows}
    assert listed == declared()


def test_each_line_has_the_fields_that_its_event_declares() -> None:
    calls, events, known = 0, 0, declared()
    for path in SOURCES:
        tree = ast.parse(path.read_text("utf-8"))
        names = {
            target.id: ast.literal_eval(node.value.args[0])
            for node in ast.walk(tree)
            if isinstance(node, (ast.Assign, ast.AnnAssign))
            and isinstance(node.value, ast.Call)
            and isinstance(node.value.func, ast.Name)
            and node.value.func.id == "Event"
            for target in ([node.target] if isinstance(node, ast.AnnAssign) else node.targets)
            if isinstance(target, ast.Name)
        }
        events += len(names)
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names:
                given = {word.arg for word in node.keywords} - {"at", "exc_info"}
                if None not in given:  # ``**``
                    assert given == known[names[node.func.id]][2], (path, node.lineno)
                calls += 1
    assert calls >= events > 20


def test_no_other_line_is_logged() -> None:
    """Others set levels and handlers, or are loggers of users' handlers."""
    others = {"strand/logs.py", "strand/handlers/context.py", "strand/handlers/basket_handlers.py"}
    found = re.compile(
        r"getLogger\([^\n]*\)\.(debug|info|warning|error|exception|critical|log)\(|= logging\.getLogger\("
    )
    assert not [
        path for path in SOURCES if found.search(path.read_text("utf-8")) and not str(path).endswith(tuple(others))
    ]


# ---- Bounds


def test_lines_beyond_the_bound_are_counted_in_the_next_line(
    event: Event, lines: Callable[[], list[dict[str, Any]]]
) -> None:
    for n in range(10):
        event(n=n)
    assert [line["n"] for line in lines()] == [0, 1, 2]
    event.interval_s = 0  # it is over
    event(n=10)
    event(n=11)
    *_, next_one, last = lines()
    assert (next_one["n"], next_one["left_out"]) == (10, 7)
    assert next_one["message"] == "number 10 (7 more were left out since the last line)"
    assert "left_out" not in last


def test_lines_of_several_threads_are_all_logged_or_counted(
    event: Event, lines: Callable[[], list[dict[str, Any]]]
) -> None:
    threads = [threading.Thread(target=lambda: [event(n=n) for n in range(500)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    event.interval_s = 0
    event(n=0)
    found = lines()
    assert len(found) - 1 + found[-1]["left_out"] == 2000


def test_where_nobody_listens_nothing_is_made_of_a_line(event: Event) -> None:
    class Unread:
        def __str__(self) -> str:
            raise AssertionError("it was read")

    logging.getLogger(LOGGER).setLevel(logging.WARNING)
    try:
        assert not event.is_on
        for _ in range(10):
            event(n=Unread())
    finally:
        logging.getLogger(LOGGER).setLevel(logging.NOTSET)
    assert event.most == 3


# ---- The formatters


def formatted(message: str, *arguments: Any, formatter: logging.Formatter | None = None, **more: Any) -> str:
    record = logging.LogRecord("users.own", logging.INFO, "file.py", 1, message, arguments, more.pop("exc_info", None))
    vars(record).update(more)
    return (formatter or JsonFormatter()).format(record)


def test_a_line_of_any_logger_is_one_line_of_json() -> None:
    found = json.loads(formatted("two\nlines %d", 7, price=1.5, nan=float("nan"), names=("a", "b"), row={"n": 1}))
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", found.pop("time"))
    assert found == {
        "level": "INFO", "logger": "users.own", "message": "two\nlines 7", "price": 1.5, "nan": "nan",
        "names": ["a", "b"], "row": {"n": 1},
    }  # fmt: skip
    assert "\n" not in formatted("two\nlines")
    try:
        raise KeyError("cause")
    except KeyError as error:
        found = json.loads(formatted("it failed", exc_info=(KeyError, error, error.__traceback__), error=error))
    assert found["error"] == "KeyError('cause')"
    assert found["exception"].endswith("KeyError: 'cause'")


def test_what_cannot_be_shown_does_not_end_the_line() -> None:
    class Broken:
        def __str__(self) -> str:
            raise ValueError("no")

    assert json.loads(formatted("a", thing=Broken()))["thing"] == "(a Broken that cannot be shown as text)"
    circle: dict[str, Any] = {"n": 1}
    circle["again"] = [circle]
    assert json.loads(formatted("a", circle=circle))["circle"]["again"][0]["n"] == 1
    assert json.loads(formatted("half a surrogate \ud800"))["message"] == "half a surrogate \\ud800"


def test_a_message_as_text_is_one_line_without_codes_for_a_terminal() -> None:
    line = formatted("closed: \x1b[2Jno\nINFO strand: forged", formatter=TextFormatter("%(levelname)s: %(message)s"))
    assert line == "INFO: closed: \\x1b[2Jno\\nINFO strand: forged"


def test_lines_that_only_inform_are_no_wider_than_a_terminal() -> None:
    code = (
        "import logging; from strand import logs\n"
        "with logs.to_standard_error('text'):\n"
        "    for tell in (logging.getLogger('strand').info, logging.getLogger('strand').warning): tell(200 * 'a')\n"
    )
    main, terminal = pty.openpty()
    termios.tcsetwinsize(terminal, (24, 60))
    subprocess.run([sys.executable, "-c", code], stderr=terminal, check=True)
    os.close(terminal)
    informs, warns = os.read(main, 4_096).decode().splitlines()
    os.close(main)
    assert informs == f"INFO strand: {43 * 'a'}...a"
    assert warns == f"WARNING strand: {200 * 'a'}"
    elsewhere = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stderr
    assert elsewhere.splitlines() == [f"INFO strand: {200 * 'a'}", warns]


def test_a_line_is_whole_where_something_else_became_standard_error() -> None:
    code = (
        "import contextlib, io, logging; from strand import logs\n"
        "with logs.to_standard_error('text'), contextlib.redirect_stderr(io.StringIO()) as other:\n"
        "    logging.getLogger('strand').info(200 * 'a')\n"
        "assert not other.getvalue(), other.getvalue()\n"
    )
    main, terminal = pty.openpty()
    termios.tcsetwinsize(terminal, (24, 60))
    subprocess.run([sys.executable, "-c", code], stderr=terminal, check=True)
    os.close(terminal)
    line = os.read(main, 4_096).decode()
    os.close(main)
    assert line == f"INFO strand: {200 * 'a'}\r\n"


@pytest.mark.parametrize("formatter", [JsonFormatter(), TextFormatter("%(message)s %(url)s %(token)s")])
@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("connected to wss://ann:pass-word@host.example/feed", "pass-word"),
        ("headers {'Authorization': 'Bearer abc.def-ghi', 'Accept': '*/*'}", "abc.def-ghi"),
        ("Authorization: Basic dXNlcjpwYXNz\r\nAccept: */*", "dXNlcjpwYXNz"),
        ("headers {'Authorization': 'Basic dXNlcjpwYXNz', 'Accept': '*/*'}", "dXNlcjpwYXNz"),
        ("headers [(b'authorization', b'Basic dXNlcjpwYXNz'), (b'Accept', b'*/*')]", "dXNlcjpwYXNz"),
        ("GET /feed?symbol=A&api_key=0123456789&x=1", "0123456789"),
        ("the value kept-secret-value lies here", "kept-secret-value"),
    ],
)
def test_secrets_stay_out_of_every_part_of_a_line(formatter: logging.Formatter, text: str, secret: str) -> None:
    logs.keep_secret(b"kept-secret-value")
    try:
        raise ValueError(text)
    except ValueError as error:
        info = ValueError, error, error.__traceback__
        line = formatted(text, formatter=formatter, url=text, token="none", inner={"list": [text]}, exc_info=info)
    assert secret not in line
    assert "***" in line
    for rest in ("host.example", "Accept", "symbol=A", "lies here"):
        assert (rest in line) == (rest in text)


@pytest.mark.parametrize("formatter", [JsonFormatter(), TextFormatter("%(message)s")])
def test_a_kept_secret_is_hidden_whole_as_python_and_json_write_it(formatter: logging.Formatter) -> None:
    secret = 'odd\t"söcret\\'
    for kept in ("begins", "begins-and-goes-on", "begins-and-goes-on-further", secret):
        logs.keep_secret(kept)
    text = f"begins-and-goes-on-further {secret} {secret!r} {json.dumps(secret)}"
    line = formatted(text, formatter=formatter)
    assert "goes-on" not in line
    assert "cret" not in line


def test_fields_named_like_secrets_are_hidden() -> None:
    found = json.loads(formatted("a", headers={"Authorization": "x", "Cookie": "y", "Host": "z"}, token="t"))
    assert found["headers"] == {"Authorization": "***", "Cookie": "***", "Host": "z"}
    assert found["token"] == "***"


def test_tokens_and_keys_of_webhooks_are_secrets(tmp_path: Path) -> None:
    token = "a-token-of-the-control-api"
    (tmp_path / "token").write_text(token)
    with strand.Scheduler(workers=1) as scheduler:
        Control(str(tmp_path / "token"), scheduler=scheduler)
    Webhook("https://example.org", b"the-key-of-a-webhook")
    assert json.loads(formatted(f"{token} the-key-of-a-webhook"))["message"] == "*** ***"


# ---- Lines of runs, tasks and requests


def test_a_line_at_the_start_says_everything_that_was_chosen_and_one_at_the_end_what_was_counted(
    lines: Callable[[], list[dict[str, Any]]],
) -> None:
    ticks = strand.ticks.zeros(100)
    with strand.Dispatcher(
        ["A", "B"], "count", workers=1, cores=None, policy=strand.Levels(), limits=strand.Limits(capacity_ticks=500),
        name="books",
    ) as run:  # fmt: skip
        run.publish(ticks)
    with strand.Scheduler(workers=1, max_queue=7, name="jobs") as jobs:
        jobs.submit(int).result()
    jobs.shutdown()
    books, of_jobs = [line for line in lines() if line["event"] == "run.started"]
    chosen = books["chosen"]
    assert (books["run"], chosen["workers"], chosen["strands"], chosen["max_symbols"]) == ("books", 1, run.n_strands, 2)
    assert chosen["cores"] is None
    assert chosen["policy"] == "Levels()"
    assert chosen["limits"]["capacity_ticks"] == 500
    assert "capacity_ticks" in books["message"]
    assert (of_jobs["run"], of_jobs["chosen"]["limits"]["max_queue"]) == ("jobs", 7)
    ended = {line["run"]: line["counts"] for line in lines() if line["event"] == "run.ended"}
    assert (ended["books"]["accepted"], ended["books"]["handled"]) == (100, 100)
    assert ended["jobs"] == {"submitted": 1, "pending": 0, "retries": 0}
    assert len([line for line in lines() if line["event"] == "run.ended"]) == 2


def test_a_failure_of_a_handler_names_run_strand_symbol_and_sequence(
    lines: Callable[[], list[dict[str, Any]]],
) -> None:
    @strand.batch_handler(state=[("n", "i8")])
    def fails(row: Any, ticks: Any, ctx: Any) -> None:
        if ticks["sequence_low"].max() == 7:
            raise ValueError("seven")

    ticks = strand.ticks.zeros(2)
    ticks["instrument_id"], ticks["sequence_low"] = (0, 1), (6, 7)
    with strand.Dispatcher(["A", "B"], fails, workers=1, cores=None, on_error="quarantine", name="books") as run:
        run.publish(ticks)
    found = only(lines(), "handler.failed")
    assert (found["run"], found["symbol"], found["sequence"], found["handler"]) == ("books", "B", 7, "fails")
    assert isinstance(found["strand"], int)
    assert "seven" in found["error"]


def test_lines_of_a_task_name_it_and_its_run(lines: Callable[[], list[dict[str, Any]]]) -> None:
    def works() -> None:
        logging.getLogger("strand.test").info("a line of the user's own", extra={"order": 5})
        raise OSError("disk")

    retry = strand.RetryPolicy(max_retries=1, base_delay="1ms")
    with strand.Scheduler(workers=1, retry=retry, name="jobs") as jobs:
        task = jobs.submit(works)
        with pytest.raises(OSError, match="disk"):
            task.result()
    found = lines()
    own = [line for line in found if "event" not in line]
    assert [(line["run"], line["task"], line["order"]) for line in own] == [("jobs", task.id, 5)] * 2
    system = [line for line in found if line.get("event") == "task.system_error"]
    assert [(line["run"], line["task"], line["attempt"]) for line in system] == [("jobs", task.id, n) for n in (1, 2)]


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("has_policy", [False, True])
def test_the_ids_of_a_request_go_with_its_task_into_the_log(
    is_async: bool, has_policy: bool, lines: Callable[[], list[dict[str, Any]]]
) -> None:
    told: list[strand.tasks.TaskFuture] = []

    def works(_: Any) -> str:
        logging.getLogger("strand.test").info("here")
        raise OSError("disk")

    trace = "0af7651916cd43dd8448eb211c80319c"
    headers = {"X-Request-ID": "request-7", "traceparent": f"00-{trace}-b7ad6b7169203331-01"}

    async def waits(request: Any) -> str:
        return works(request)

    with strand.Scheduler(workers=1, name="jobs", retry=strand.RetryPolicy()) as jobs:
        jobs.add_alert(lambda task, error: told.append(task))
        app = App(jobs)
        app.get("/a", retry=strand.RetryPolicy(max_retries=0) if has_policy else None)(waits if is_async else works)
        with TestClient(app, raise_server_exceptions=False) as client:
            assert client.get("/a", headers=headers).status_code == 500
    assert [task.state for task in told] == ["dead" if has_policy else "failed"]
    found = [line for line in lines() if line["message"] == "here" or line.get("event") == "task.system_error"]
    assert [(line["request_id"], line["trace_id"], line["run"]) for line in found] == [("request-7", trace, "jobs")] * 2
    assert len({line["task"] for line in found}) == 1


def test_lines_within_a_token_file_that_goes_wrong_name_no_token(
    tmp_path: Path, lines: Callable[[], list[dict[str, Any]]]
) -> None:
    path = tmp_path / "token"
    path.write_text("short")
    with pytest.raises(ConfigurationError), strand.Scheduler(workers=1) as scheduler:
        Control(str(path), scheduler=scheduler)
    assert "short" not in json.dumps(lines())
