"""The systemd units and the container file: their commands are run as they stand, but for paths and ports."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

import strand
from strand.http import ServerOptions
from tests.support.engine_support import wait_until

pytestmark = pytest.mark.python

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
BIN = Path(sys.executable).parent


def of_unit(key: str, unit: str = "strand.service") -> str:
    (found,) = re.findall(rf"^{key}=(.*)$", (DEPLOY / unit).read_text(), re.MULTILINE)
    return str(found)


def of_container(key: str) -> list[str]:
    *_, found = re.findall(rf"\b{key} (\[.*\])$", (DEPLOY / "Containerfile").read_text(), re.MULTILINE)
    return [str(word) for word in json.loads(found)]


def unit_command() -> list[str]:
    return shlex.split(of_unit("ExecStart"))


def container_command() -> list[str]:
    return [*of_container("ENTRYPOINT"), *of_container("CMD")]


@contextmanager
def running(command: list[str], folder: Path) -> Iterator[tuple[subprocess.Popen[str], str, Path]]:
    """Runs a command as the service manager does, until it has said that it is ready. Yields the process, its address,
    and the file of its token."""
    token, inbox = folder / "token", folder / "notify"
    token.write_text("a long secret of the first day\n")
    given = dict(pairwise(command))
    assert Path(command[0]).name == "strand"
    changed = {given["--host"]: "127.0.0.1", given["--port"]: "0", given["--token-file"]: str(token)}
    words = [changed.get(word, word) for word in command[1:]]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(inbox))
        manager.settimeout(60)
        ran = subprocess.Popen(
            [BIN / "strand", *words], cwd=DEPLOY, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=os.environ | {"NOTIFY_SOCKET": str(inbox)},
        )  # fmt: skip
        try:
            assert manager.recv(100) == b"READY=1"
            assert ran.stderr is not None
            (url,) = next(found for line in ran.stderr if (found := re.findall(r"^listening at (\S+)$", line)))
            yield ran, url, token
        finally:
            ran.kill()
            ran.communicate(timeout=30)


def status(url: str, token: str = "") -> int:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


@pytest.mark.parametrize("command", [unit_command, container_command])
def test_the_command_is_ready_when_it_says_so_reads_its_token_again_and_stops_as_the_file_says(
    command: Callable[[], list[str]], tmp_path: Path
) -> None:
    with running(command(), tmp_path) as (ran, url, token):
        assert [status(f"{url}/{path}") for path in ("healthz", "readyz", "quotes/AAAHD")] == [200, 200, 401]
        assert status(f"{url}/quotes/AAAHD", "a long secret of the first day") == 200
        assert status(f"{url}/metrics", "a long secret of the first day") == 200
        token.write_text("another secret of the second day\n")
        assert of_unit("ExecReload") == "/bin/kill -HUP $MAINPID"
        ran.send_signal(signal.SIGHUP)
        wait_until(lambda: status(f"{url}/quotes/AAAHD", "another secret of the second day") == 200)
        assert status(f"{url}/quotes/AAAHD", "a long secret of the first day") == 401
        ran.send_signal(getattr(signal, of_unit("KillSignal")))
        printed, _ = ran.communicate(timeout=60)
    assert ran.returncode == 0
    assert json.loads(printed)["cut_off"] == 0


def test_the_stop_has_more_time_than_requests_and_tasks_behind_them_may_take() -> None:
    command = unit_command()
    stop = ServerOptions(token_file="token", stop_timeout=command[command.index("--stop-timeout") + 1]).stop_timeout_s
    assert int(of_unit("TimeoutStopSec")) > 2 * stop + 2
    assert of_unit("Type") == "notify"
    assert f"STOPSIGNAL {of_unit('KillSignal')}\n" in (DEPLOY / "Containerfile").read_text()


def test_the_check_of_the_container_s_health_asks_whether_it_is_ready(tmp_path: Path) -> None:
    (found,) = re.findall(r"CMD (\[.*/python.*\])", (DEPLOY / "Containerfile").read_text())
    check = json.loads(found)
    with running(container_command(), tmp_path) as (_, url, _):
        there = [sys.executable, *(word.replace("http://127.0.0.1:8000", url) for word in check[1:])]
        assert subprocess.run(there, check=False, capture_output=True).returncode == 0
    assert subprocess.run(there, check=False, capture_output=True).returncode == 1


def test_a_stop_of_the_alerts_is_no_failure_of_their_unit(tmp_path: Path) -> None:
    _, _, command = shlex.split(of_unit("ExecStart", "strand-alerts.service"))
    words = shlex.split(command)
    assert (words[0], Path(words[1]).name, words[2:4]) == ("exec", "strand", ["alerts", "run"])
    rules, gate = tmp_path / "rules.toml", threading.Event()
    rules.write_text("monitoring.queue_metrics.queue_depth.any = {warning = 0, collection_interval = '100ms'}\n")
    with strand.Scheduler(workers=1, attachable=True, name="quotes") as run:
        run.submit_many(lambda _: gate.wait(), range(3))
        with subprocess.Popen(
            [BIN / "strand", *words[2:-1], str(os.getpid()), "--config", rules], stdout=subprocess.PIPE, text=True
        ) as watching:
            assert watching.stdout is not None
            assert "queue_depth_any_warning firing" in watching.stdout.readline()
            watching.terminate()
        gate.set()
    assert str(watching.returncode) == of_unit("SuccessExitStatus", "strand-alerts.service")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_finds_no_fault_in_the_units(tmp_path: Path) -> None:
    units = []
    for unit in DEPLOY.glob("*.service"):
        units.append(tmp_path / unit.name)
        units[-1].write_text(unit.read_text().replace("/opt/strand/bin", str(BIN)))
    ran = subprocess.run(["systemd-analyze", "verify", *units], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout + ran.stderr) == (0, "")
    assert len(units) == 2
