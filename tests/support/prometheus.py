"""A real Prometheus on 127.0.0.1, in a folder of its own, for as long as a block."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from socket import create_server
from typing import Any

from tests.support.engine_support import wait_until

PROGRAM = shutil.which("prometheus")
WHY = "prometheus is not installed (Debian: prometheus)"


class Prometheus:
    """Answers of a running server."""

    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, path: str, **given: str) -> Any:
        """Returns the data of an answer of its API. Raises AssertionError where it is an error."""
        query = f"?{urllib.parse.urlencode(given)}" if given else ""
        try:
            with urllib.request.urlopen(f"{self.url}/api/v1/{path}{query}", timeout=30) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path} {given}: {error.read().decode()}") from None

    def values(self, query: str) -> list[float]:
        """Returns the values of a query now."""
        return [float(one["value"][1]) for one in self.ask("query", query=query)["result"]]

    def labels(self, name: str, of: str) -> list[str]:
        """Returns the values of a label of a selector's series."""
        found: list[str] = self.ask(f"label/{name}/values", **{"match[]": of})
        return found

    def rules(self) -> dict[str, dict[str, Any]]:
        """Returns all rules by name, with their states."""
        return {rule["name"]: rule for group in self.ask("rules")["groups"] for rule in group["rules"]}

    def scrapes(self) -> dict[str, str]:
        """Returns the last error by target: empty for one that was scraped."""
        return {
            one["scrapeUrl"]: one["lastError"] if one["health"] != "unknown" else "not yet"
            for one in self.ask("targets")["activeTargets"]
        }


@contextmanager
def prometheus(
    folder: Path, targets: Sequence[str], *, interval: str = "1s", rules: Sequence[Path] = ()
) -> Iterator[Prometheus]:
    """Runs a server that scrapes the URLs ``targets`` and evaluates files of rules, until the block ends."""
    assert PROGRAM is not None
    with create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    hosts = [urllib.parse.urlsplit(target).netloc for target in targets]
    told = {
        "global": {"scrape_interval": interval, "evaluation_interval": interval},
        "rule_files": [str(path) for path in rules],
        "scrape_configs": [{"job_name": "strand", "static_configs": [{"targets": hosts}]}],
    }
    (folder / "prometheus.json").write_text(json.dumps(told))
    options = {
        "config.file": folder / "prometheus.json",
        "storage.tsdb.path": folder / "series",
        "web.listen-address": address,
        "log.level": "warn",
    }
    with (folder / "prometheus.log").open("wb") as log:
        server = subprocess.Popen([PROGRAM, *(f"--{k}={v}" for k, v in options.items())], stdout=log, stderr=log)
    try:
        found = Prometheus(f"http://{address}")
        wait_until(lambda: server.poll() is not None or _is_ready(found.url))
        assert server.poll() is None, (folder / "prometheus.log").read_text()
        yield found
    finally:
        server.terminate()
        server.wait(30)


def _is_ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/-/ready", timeout=5):
            return True
    except OSError:
        return False
