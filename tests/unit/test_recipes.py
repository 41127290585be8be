"""A new policy, feed, handler, sink and command go where CONTRIBUTING.md says, and work there."""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import click
import numpy as np
import pytest
from click.testing import CliRunner
from engine_support import CSRC, ticks_for
from policies import Config, Trial, build

import strand
from strand import feeds
from strand.command.cli import COMMANDS, cli
from strand.feeds import BaseFeed, FeedInfo, TickBatch
from strand.feeds.formats import registry
from strand.handlers import BUILTIN, NativeHandler
from strand.handlers.builtin.definition import Builtin, built_in
from strand.output import files
from strand.policies.policy import POLICIES

pytestmark = pytest.mark.python

ROOT = Path(__file__).resolve().parents[2]
SECTION = (ROOT / "CONTRIBUTING.md").read_text("utf-8").split("## A new part\n")[1].split("\n## ")[0]
PARTS = dict(re.findall(r"^\| (\w+) \| (.* \| .* \| .*) \|$", SECTION, flags=re.MULTILINE)[1:])


def test_the_recipe_has_a_row_for_each_kind_of_part_and_names_files_that_are_there() -> None:
    assert list(PARTS) == ["policy", "feed", "handler", "sink", "command"]
    for row in PARTS.values():
        paths = [path for path in re.findall(r"`([\w./]+/[\w./]*)`", row) if "NAME/" not in path]
        assert len(paths) >= 3
        # NAME is the new part: of that the folder is there.
        where = [(ROOT / path).parent if "NAME" in path else ROOT / path for path in paths]
        assert [path for path in where if not path.exists()] == []


# ---- policy

POLICY = """
#include "schedule/policy.h"

/* The strand below each one, and the top of each list: one more than an index; 0: none. */
static uint32_t *below(const sd_ready *ready) { return (uint32_t *)(void *)ready->state; }
static uint32_t *top(const sd_ready *ready, uint32_t list) { return below(ready) + ready->n_entries + list; }

static uint64_t state_bytes(const sd_policy_config *config, uint32_t n_lists, uint32_t n_strands, uint32_t n_entries) {
  return ((uint64_t)n_lists + n_entries) * sizeof(uint32_t);
}

static void start(const sd_ready *ready, const sd_policy_config *config) {}

static void list_strands(const sd_ready *ready, uint32_t list, const uint32_t *strands, uint32_t n, int why,
                         uint64_t now) {
  sd_lock(&ready->lists[list].lock);
  for (uint32_t i = 0; i < n; i++) {
    below(ready)[strands[i]] = *top(ready, list);
    *top(ready, list) = strands[i] + 1;
  }
  sd_list_count_listed(&ready->lists[list], n);
  sd_unlock(&ready->lists[list].lock);
}

static uint32_t pick(const sd_ready *ready, uint32_t list, uint32_t *strands, uint32_t maximum, uint32_t share) {
  uint32_t n = 0;
  sd_lock(&ready->lists[list].lock);
  const uint32_t most = (uint32_t)(((uint64_t)sd_list_length(&ready->lists[list]) * share + 3) / 4);
  for (; n < maximum && n < most && *top(ready, list); n++) {
    strands[n] = *top(ready, list) - 1;
    *top(ready, list) = below(ready)[strands[n]];
  }
  sd_list_count_taken(&ready->lists[list], n);
  sd_unlock(&ready->lists[list].lock);
  return n;
}

static uint32_t pick_if(const sd_ready *ready, uint32_t list, uint32_t *strand, sd_can_use can, const void *who) {
  sd_lock(&ready->lists[list].lock);
  const uint32_t first = *top(ready, list), taken = first && can(who, first - 1);
  if (taken) *top(ready, list) = below(ready)[*strand = first - 1];
  sd_list_count_taken(&ready->lists[list], taken);
  sd_unlock(&ready->lists[list].lock);
  return taken;
}

static uint32_t peek(const sd_ready *ready, uint32_t list, uint32_t i) { return SD_NONE; }

static int count(const sd_ready *ready, uint32_t list, uint32_t *times) {
  sd_lock(&ready->lists[list].lock);
  for (uint32_t at = *top(ready, list); at; at = below(ready)[at - 1]) times[at - 1]++;
  sd_unlock(&ready->lists[list].lock);
  return 1;
}

const sd_policy sd_policy_backwards = {
    .name = "backwards",
    .state_bytes = state_bytes,
    .start = start,
    .ready = list_strands,
    .pick = pick,
    .pick_if = pick_if,
    .peek = peek,
    .count = count,
};

const sd_policy sd_policy_unfinished = {
    .name = "unfinished",
    .state_bytes = state_bytes,
    .start = start,
    .ready = list_strands,
    .pick = pick,
    .peek = peek,
    .count = count,
};
"""
#: What registers them, in schedule/policy.h.
REGISTERED = (
    ("X(fair, SD_FAIR)", "X(fair, SD_FAIR) X(backwards, SD_BACKWARDS) X(unfinished, SD_UNFINISHED)"),
    (", SD_POLICY_COUNT }", ", SD_BACKWARDS, SD_UNFINISHED, SD_POLICY_COUNT }"),
)


def test_a_policy_written_against_the_table_compiles_and_orders_ready_strands(tmp_path: Path) -> None:
    shutil.copytree(CSRC, tmp_path / "csrc", ignore=shutil.ignore_patterns("*.o", "*.so"))
    schedule = tmp_path / "csrc/schedule"
    (schedule / "backwards.c").write_text(POLICY)
    text = (schedule / "policy.h").read_text()
    for old, new in REGISTERED:
        assert text.count(old) == 1
        text = text.replace(old, new)
    (schedule / "policy.h").write_text(text)
    built = build(tmp_path, csrc=tmp_path / "csrc")
    orders, new = {}, len(POLICIES)
    for number in (0, new):
        trial = Trial(built, Config(number), 2, 5)
        trial.ready(1, range(5), 0, 0)
        assert trial.listed() == [1] * 5
        orders[number] = [trial.next(0, 0) for _ in range(6)]
        assert trial.listed() == [0] * 5
        trial.close()
    assert orders == {0: [0, 1, 2, 3, 4, None], new: [4, 3, 2, 1, 0, None]}
    built.sd_policy_of.restype = ctypes.c_void_p
    assert [bool(built.sd_policy_of(number)) for number in (new, new + 1)] == [
        True,
        False,
    ]  # the other one lacks pick_if


# ---- feed

HEAD = b"two words a line\n"


class LinesFeed(BaseFeed):
    """Reads lines of a symbol and a size. ``strand.feeds.open`` makes such a reader for its format."""

    symbols: Sequence[str] = ("AA", "BB")

    def __init__(self, path: str | Path) -> None:
        super().__init__()
        self._path = Path(path)

    @property
    def info(self) -> FeedInfo:
        return FeedInfo("lines", str(self._path))

    def batches(self) -> Iterator[TickBatch]:
        lines = [line.split() for line in self._path.read_text().splitlines()[1:]]
        ticks = ticks_for([self.symbols.index(symbol) for symbol, _ in lines], kind=2)
        ticks["size"] = [int(size) for _, size in lines]
        ticks["action"] = b"T"
        yield ticks


def recognise(head: bytes) -> bool:
    return head.startswith(HEAD)


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "day.lines"
    path.write_bytes(HEAD + b"AA 100\nBB 7\nAA 50\n")
    return path


def test_a_feed_of_ones_own_is_replayed_as_it_is(lines: Path) -> None:
    result = strand.replay(LinesFeed(lines), "count", workers=1, cores=None)
    assert result.ticks == 3
    assert {name: int(result.rows[name]["volume"]) for name in ("AA", "BB")} == {"AA": 150, "BB": 7}


def test_a_format_is_one_line_in_the_registry_and_is_recognised_by_its_content(
    lines: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(strand.errors.UnknownFormatError):
        feeds.open(lines)
    line = registry.Format("lines", "lines of two words", "lines", "LinesFeed", (".lines",))
    monkeypatch.setattr(registry, "_FORMATS", (*registry.formats(), line))
    monkeypatch.setitem(sys.modules, "strand.feeds.formats.lines", sys.modules[__name__])
    with feeds.open(lines) as feed:
        assert isinstance(feed, LinesFeed)
        assert sum(len(batch) for batch in feed) == 3
    assert feeds.open(lines, format="lines").info.format == "lines"


# ---- handler

LARGEST = """
#include "sd_handler.h"

typedef struct largest_row { int64_t size; } largest_row;

int64_t on_largest(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx) {
  for (int64_t i = 0; i < n; i++) {
    largest_row *row = (largest_row *)((unsigned char *)rows + ticks[i].instrument_id * ctx->row_stride);
    if (ticks[i].size > row->size) row->size = ticks[i].size;
  }
  return n;
}
"""
EMITTED = np.dtype([("size", "<i8")])


@strand.batch_handler(state=[("ticks", "<i8")], outputs={"sizes": EMITTED})
def on_ticks(symbol: str, ticks: Any, row: Any, ctx: Any) -> None:
    del symbol
    sizes = np.empty(len(ticks), EMITTED)
    sizes["size"] = ticks["size"]
    ctx.emit(sizes, at=np.arange(len(ticks)))
    row["ticks"] += len(ticks)


def run_cli(*words: str) -> str:
    done = CliRunner().invoke(cli, [*words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_a_built_in_handler_is_a_function_and_one_line_and_has_a_name_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "largest.c").write_text(LARGEST)
    compiler = shutil.which(os.environ.get("CC", "cc"))
    assert compiler is not None, "a C compiler"
    library = tmp_path / "largest.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", f"-I{strand.get_include()}", "-o", library, tmp_path / "largest.c"], check=True
    )

    @built_in
    def largest() -> NativeHandler:
        """The largest size of a symbol."""
        return strand.native(str(library), "on_largest", state=[("size", "<i8")], never_publishes=True)

    monkeypatch.setattr(sys.modules[__name__], "largest", largest, raising=False)
    monkeypatch.setitem(BUILTIN, "largest", Builtin("largest", __name__))
    assert "The largest size of a symbol." in run_cli("handlers")
    assert json.loads(run_cli("handlers", "largest", "--json"))["row"] == ["size"]
    ticks = ticks_for([0, 1, 0, 1])
    ticks["size"] = [3, 5, 9, 1]
    with strand.Dispatcher(["AA", "BB"], "largest", workers=1, cores=None) as dispatcher:
        dispatcher.publish(ticks)
    assert {name: int(dispatcher.rows[name]["size"]) for name in ("AA", "BB")} == {"AA": 9, "BB": 5}


# ---- sink


class SizesSink:
    """A sink that needs no file."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.end = ""

    def write(self, batch: Any) -> None:
        self.sizes += batch["size"].tolist()

    def close(self) -> None:
        self.end = "closed"

    def abort(self) -> None:
        self.end = "aborted"


def test_a_sink_of_ones_own_is_three_methods(lines: Path) -> None:
    sink: strand.Sink = SizesSink()
    strand.replay(LinesFeed(lines), on_ticks, workers=1, cores=None, out={"sizes": sink})
    assert vars(sink) == {"sizes": [100, 7, 50], "end": "closed"}


class TextSink:
    """Writes lines into a file."""

    def __init__(self, file: BinaryIO, table: Any, names: Any) -> None:
        del table
        self._file, self._names = file, names

    def write(self, batch: Any) -> None:
        for record in batch:
            self._file.write(f"{self._names.name(int(record['instrument_id']))} {record['size']}\n".encode())

    def close(self) -> None:
        self._file.write(b"end\n")

    def abort(self) -> None:
        """Nothing waits to be written."""


def test_a_sink_for_files_is_the_same_methods_and_one_line_for_their_ending(
    lines: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "sizes.text"
    with pytest.raises(strand.errors.ConfigurationError, match="does not end in one of"):
        strand.replay(LinesFeed(lines), on_ticks, workers=1, cores=None, out={"sizes": out})
    monkeypatch.setitem(files._WRITERS, ".text", TextSink)
    result = strand.replay(LinesFeed(lines), on_ticks, workers=1, cores=None, out={"sizes": out})
    assert out.read_text() == "AA 100\nBB 7\nAA 50\nend\n"
    assert result.written["sizes"][1] == 3


# ---- command


@click.command("hello")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def hello(as_json: bool) -> None:
    """Says hello."""
    click.echo(json.dumps({"hello": "world"}) if as_json else "hello world")


def test_a_command_is_a_module_and_one_line_in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    assert CliRunner().invoke(cli, ["hello"]).exit_code == 2
    monkeypatch.setitem(COMMANDS, "hello", (__name__, "Say hello."))
    assert "Say hello." in run_cli("--help")
    assert run_cli("hello") == "hello world\n"
    assert json.loads(run_cli("hello", "--json")) == {"hello": "world"}
