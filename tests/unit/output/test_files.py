"""Files of what handlers emit: right, the same bytes whatever the run looked like, and whole or not there."""

from __future__ import annotations

import gc
import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet
import pytest
from command_here import run_here
from engine_support import ticks_for, wait_until

from strand import TICK, Dispatcher, Handler, native, replay
from strand.background import BackgroundWriter
from strand.errors import ConfigurationError, FeedError, HandlerError, MissingExtraError
from strand.output import files as output_files
from strand.output.files import OutputFile
from strand.output.outputs import Outputs
from strand.output.records import merged_dtype
from strand.output.sinks import Sinks
from strand.symbols import SymbolTable
from strand.ticks import UNDEF_PRICE
from strand.units import COUNT, INNER, LETTER, NOTIONAL, PRICE, SIZE, TIME, declare, undeclared

pytestmark = pytest.mark.python
ROW = [("ticks", "<u8")]
SEEN = np.dtype([("count", "<u8"), ("size", "<u4"), ("place", "u1")], align=True)
OUTPUTS = {"seen": SEEN, "fifth": np.dtype([("nth", "<u4")])}
NAMES = ["AAA", "BBB", 'C"C', "D,D"]
SUFFIXES = ["parquet", "arrow", "npy", "csv"]


def echo(library: Path) -> Handler:
    return native(library, "on_echo", state=ROW, never_publishes=True, outputs=OUTPUTS)


def stream(n: int) -> npt.NDArray[Any]:
    ticks = ticks_for(np.random.default_rng(n).integers(0, 4, n))
    ticks["depth"] = 1 + ticks["size"] % 2
    ticks["ts_recv"] += 1_700_000_000_000_000_000
    return ticks


def run(library: Path, ticks: npt.NDArray[Any], out: dict[str, Path], **options: Any) -> Outputs:
    with Dispatcher(NAMES, echo(library), out=out, cores=None, **options) as d:
        for part in np.array_split(ticks, 5):
            d.publish(part)
    return d.outputs


def read(path: Path) -> dict[str, list[Any]]:
    if path.suffix == ".npy":
        array = np.load(path)
        return {name: array[name].tolist() for name in array.dtype.names}
    if path.suffix == ".parquet":
        table = pa.parquet.read_table(path)
    elif path.suffix == ".arrow":
        table = pa.ipc.open_file(path).read_all()
    else:
        table = pa.csv.read_csv(path)
    # Times are moments in UTC there, and ns since 1970 in arrays.
    moments = table["ts"].cast(pa.timestamp("ns", "UTC")).cast(pa.int64())
    table = table.set_column(table.schema.get_field_index("ts"), "ts", moments)
    columns: dict[str, list[Any]] = table.to_pydict()
    return columns


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_holds_what_would_have_been_collected(c_handlers: Path, tmp_path: Path, suffix: str) -> None:
    ticks = stream(3000)
    expected = run(c_handlers, ticks, {}, workers=2)["seen"].array()
    path = tmp_path / f"seen.{suffix}"
    outputs = run(c_handlers, ticks, {"seen": path}, workers=2)
    columns = read(path)
    symbols = columns.pop("symbol", None)
    if suffix != "npy":
        assert symbols == [NAMES[key] for key in expected["instrument_id"]]
    assert columns == {name: expected[name].tolist() for name in expected.dtype.names or ()}
    assert outputs["seen"].records == len(expected)
    assert len(outputs["fifth"].array()) > 0
    with pytest.raises(ConfigurationError, match="not collected"):
        outputs["seen"].array()
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_an_output_nobody_emitted_to_is_an_empty_file_with_its_columns(
    c_handlers: Path, tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"fifth.{suffix}"
    run(c_handlers, stream(4)[:0], {"fifth": path}, workers=1)
    columns = read(path)
    columns.pop("symbol", None)
    assert columns == {"number": [], "sequence": [], "ts": [], "instrument_id": [], "nth": []}


KINDS = {
    "big": ">i8", "small": "i1", "single": "f4", "real": ">f8", "flag": "?", "text": "S5", "word": "U4",
    "pair": ("<i4", (2,)),
}  # fmt: skip


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_fields_of_all_kinds_over_several_groups_and_symbols_that_come_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    monkeypatch.setattr(output_files, "GROUP_ROWS", 1000)
    monkeypatch.setattr(output_files, "PART_ROWS", 64)
    kinds = {name: kind for name, kind in KINDS.items() if suffix != "csv" or name != "pair"}
    dtype = merged_dtype(np.dtype(list(kinds.items()), align=True))
    rng = np.random.default_rng(5)
    records = np.zeros(3456, dtype)
    records["number"] = np.arange(len(records))
    records["instrument_id"] = rng.integers(0, 1 + np.arange(len(records)) // 2)
    for name in ("big", "small"):
        bounds = np.iinfo(dtype[name])
        records[name] = rng.integers(bounds.min, bounds.max, len(records), endpoint=True)
    records["single"], records["real"] = rng.integers(0, 1 << 20, (2, len(records)))
    records["flag"] = rng.random(len(records)) < 0.5
    records["text"] = rng.choice([b"a", b"bcd", b"\xe4\xf6", b"x,y"], len(records))
    records["word"] = rng.choice(["a", "äöü", "€", "x y"], len(records))
    if "pair" in kinds:
        records["pair"] = rng.integers(-9, 9, (len(records), 2))
    names = [f"S{i}é" for i in range(len(records))]
    file = OutputFile(tmp_path / f"x.{suffix}", dtype, SymbolTable(names))
    for part in np.array_split(records, [1, 700, 701, 2500]):
        file.write(part)
    file.close()
    found = read(tmp_path / f"x.{suffix}")
    expected = {name: records[name].tolist() for name in dtype.names or ()}
    if suffix != "npy":
        expected["symbol"] = [names[key] for key in expected["instrument_id"]]
        expected["text"] = [text.decode("ascii", "backslashreplace") for text in expected["text"]]
    assert found == expected


def test_a_symbol_that_is_named_late_has_its_name_from_then_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_files, "GROUP_ROWS", 4)
    table = SymbolTable(3)
    table.learn(["A"])
    records = np.zeros(4, merged_dtype(np.dtype([("x", "u1")])))
    records["instrument_id"] = [0, 1, 2, 1]
    file = OutputFile(tmp_path / "x.parquet", records.dtype, table)
    file.write(records)
    table.learn(["A", "", "C"])
    file.write(records)
    table.learn(["A", "B", "C"])
    file.write(records)
    file.close()
    assert read(tmp_path / "x.parquet")["symbol"] == [
        "A", "#1", "#2", "#1",
        "A", "#1", "C", "#1",
        "A", "B", "C", "B",
    ]  # fmt: skip


@pytest.mark.parametrize("where", [BackgroundWriter, Sinks])
def test_an_interrupt_while_outputs_are_completed_leaves_a_whole_file_or_none_and_nobody_waiting(
    c_handlers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: type
) -> None:
    d = Dispatcher(NAMES, echo(c_handlers), out={"seen": tmp_path / "seen.npy"}, workers=1)
    d.start()
    d.publish(stream(1000))
    d.drain()

    def interrupt(*_: Any, **__: Any) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    if where is BackgroundWriter and not d.outputs._sinks._writers:
        d.stop()
        pytest.skip("on one core no thread writes")
    monkeypatch.setattr(where, "close", interrupt)
    with pytest.raises(KeyboardInterrupt):
        d.stop()
    d.stop(drain=False)
    assert sum(map(len, d.outputs["fifth"])) > 0
    if where is BackgroundWriter:  # a wait for it goes on
        assert d.outputs.merger.failure is None
        assert len(np.load(tmp_path / "seen.npy")) == 1500
    else:  # a sink's own end was cut short
        assert d.outputs.merger.failure is not None
        assert list(tmp_path.iterdir()) == []
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("strand-seen")]


@pytest.mark.parametrize(
    ("out", "match"),
    [
        ({"bars": "x.npy"}, "no handler emits to an output named 'bars': there are seen, fifth"),
        ({"seen": "x.txt"}, "does not end in one of .parquet, .arrow"),
        ({"seen": "no/such/x.npy"}, "there is no folder"),
        ({"seen": "x.npy", "fifth": "x.npy"}, "a file of its own"),
    ],
)
def test_files_that_cannot_be_are_refused_before_anything_runs(
    c_handlers: Path, out: dict[str, str], match: str
) -> None:
    with pytest.raises(ConfigurationError, match=match):
        Dispatcher(4, echo(c_handlers), out=out)


DECLARED = np.dtype(
    [
        ("at", TIME),
        ("price", PRICE),
        ("size", SIZE),
        ("notional", NOTIONAL),
        ("side", declare(LETTER, "S1")),
        ("high", declare(PRICE, given={"trades": 1})),
        ("trades", COUNT),
        ("half", INNER),
    ]
)
FACTS: dict[str, list[Any]] = {
    "at": [5, UNDEF_PRICE, 1_700_000_000_123_456_789],
    "price": [7_280_000_001, UNDEF_PRICE, -1],
    "size": [1, 0, 123_456_789_012],
    "notional": [150.0, np.nan, 1e18],
    "side": [b"A", b"N", b"B"],
    "high": [7, 0, 5_000_000_000],
    "trades": [1, 0, 2],
    "half": [1, 2, 3],
}


@pytest.mark.parametrize("ending", ["parquet", "arrow", "csv", "npy"])
def test_files_that_are_tables_have_natural_units_and_npy_exact_integers(tmp_path: Path, ending: str) -> None:
    dtype = merged_dtype(DECLARED)
    records = np.zeros(3, undeclared(dtype))
    for name, values in FACTS.items():
        records[name] = values
    path = tmp_path / f"o.{ending}"
    file = OutputFile(path, dtype, SymbolTable(["A"]), 1e-8)
    file.write(records)
    file.close()
    found = read(path)
    if ending == "npy":
        assert {name: found[name] for name in FACTS if name != "notional"} == {
            name: values for name, values in FACTS.items() if name != "notional"
        }
        return
    assert "half" not in found
    assert found["symbol"] == ["A"] * 3
    assert found["price"] == [7.280000001, None, -1e-9]
    assert found["size"] == [1e-8, 0.0, 1234.56789012]
    assert found["notional"] == [150e-8, None, 1e10]
    assert found["side"] == ["A", "N", "B"]
    assert found["high"] == [7e-9, None, 5.0]
    assert found["trades"] == [1, 0, 2]
    moments = [None if at is None else np.datetime64(at.replace(tzinfo=None), "us").astype(int) for at in found["at"]]
    assert moments == [0, None, 1_700_000_000_123_456]


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_a_table_of_sizes_without_one_unit_is_refused_when_it_is_opened(tmp_path: Path, ending: str) -> None:
    with pytest.raises(ConfigurationError, match="size: the merged files have sizes in different units: read them"):
        OutputFile(tmp_path / f"o.{ending}", merged_dtype(DECLARED), SymbolTable(["A"]), None)
    assert list(tmp_path.iterdir()) == []
    OutputFile(tmp_path / "o.npy", merged_dtype(DECLARED), SymbolTable(["A"]), None).close()


def test_out_without_any_outputs_says_so() -> None:
    with pytest.raises(ConfigurationError, match="no handler has any"):
        Dispatcher(4, "count", out={"bars": "x.npy"})


def test_without_pyarrow_the_extra_is_named(c_handlers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"strand\[parquet\]"):
        Dispatcher(4, echo(c_handlers), out={"seen": "x.parquet"})
    with pytest.raises(MissingExtraError, match=r"strand\[csv\]"):
        Dispatcher(4, echo(c_handlers), out={"seen": "x.csv"})
    Dispatcher(4, echo(c_handlers), out={"seen": "x.npy"})


def test_a_failing_handler_leaves_a_file_of_what_was_final(c_handlers: Path, tmp_path: Path) -> None:
    ticks = stream(50_000)
    ticks["flags"][30_000] = 255
    whole = np.repeat(np.arange(len(ticks)), ticks["depth"])
    path = tmp_path / "seen.npy"
    with pytest.raises(HandlerError):
        run(c_handlers, ticks, {"seen": path}, workers=2, batch_ticks=64)
    found = read(path)["number"]
    assert found == whole[whole != 30_000][: len(found)].tolist()


def test_a_disk_that_is_full_ends_the_run_with_the_file_s_error_and_leaves_none(
    c_handlers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(output_files._Npy, "write", full)
    path = tmp_path / "seen.npy"
    path.write_bytes(b"what was there")
    with pytest.raises(FeedError, match="No space left"):
        run(c_handlers, stream(1000), {"seen": path}, workers=1)
    assert path.read_bytes() == b"what was there"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_cannot_be_written_to_is_an_error_at_the_start(c_handlers: Path, tmp_path: Path) -> None:
    (tmp_path / "seen.npy").mkdir()
    d = Dispatcher(4, echo(c_handlers), out={"seen": tmp_path / "seen.npy"}, workers=1)
    with pytest.raises(FeedError, match="folder"):
        d.start()


HANDLERS = """
import pathlib
import numpy as np
import strand

@strand.batch_handler(state=[("ticks", "<u8")], outputs={"every": [("size", "<u4")], "other": [("size", "<u4")]})
def on_ticks(symbol, ticks, row, ctx):
    sizes = ticks["size"].astype(np.uint32).view([("size", "<u4")])
    ctx.emit(sizes, at=np.arange(len(ticks)), output="every")
    ctx.emit(sizes[:0], at=[], output="other")
    row["ticks"] += len(ticks)
    pathlib.Path(__file__).with_name("begun").touch()
"""


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    (tmp_path / "my_handlers.py").write_text(HANDLERS)
    np.save(tmp_path / "ticks.npy", stream(20_000))
    return tmp_path


def test_the_command_writes_rows_and_outputs(recorded: Path) -> None:
    done = run_here(
        "replay", "ticks.npy", "--handler", "my_handlers:on_ticks", "--json",
        "--out", "rows.npy", "--out", "every=every.parquet",
        cwd=recorded,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["outputs"] == {
        "every": {"records": 20_000, "path": "every.parquet"},
        "other": {"records": 0, "path": None},
    }
    assert read(recorded / "every.parquet")["size"] == stream(20_000)["size"].tolist()
    assert np.load(recorded / "rows.npy")["ticks"].sum() == 20_000


@pytest.mark.parametrize("out", [("a.npy", "b.npy"), ("every=a.npy", "every=b.npy")])
def test_the_command_refuses_two_files_for_the_same(recorded: Path, out: tuple[str, str]) -> None:
    done = run_here(
        "replay", "ticks.npy", "--handler", "my_handlers:on_ticks", "--out", out[0], "--out", out[1], cwd=recorded
    )
    assert done.returncode == 2
    assert "--out" in done.stderr


def test_ctrl_c_leaves_a_file_of_all_that_was_handled_and_reports_it(recorded: Path) -> None:
    ticks = stream(20_000)
    ticks["ts_recv"] = 1_700_000_000_000_000_000 + np.arange(len(ticks)) * 1_000_000  # 20 s
    np.save(recorded / "ticks.npy", ticks)
    arguments = ["replay", "ticks.npy", "--handler", "my_handlers:on_ticks", "--json", "--speed", "1"]
    process = subprocess.Popen(
        [sys.executable, "-m", "strand", *arguments, "--out", "every=every.parquet"],
        cwd=recorded,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: (recorded / "begun").exists() and bool(list(recorded.glob(".every.parquet.*.partial"))))
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    report = json.loads(said)
    found = read(recorded / "every.parquet")
    assert len(found["size"]) == report["outputs"]["every"]["records"] == report["ticks"] > 0
    assert found["size"] == ticks["size"][: len(found["size"])].tolist()
    assert not list(recorded.glob(".*partial"))


def test_names_that_a_feed_tells_while_it_is_read_are_written_beside_what_their_ticks_emit(tmp_path: Path) -> None:
    from strand.feeds.sample import SAMPLE_DATE, sample_path

    (tmp_path / "my_handlers.py").write_text(HANDLERS)
    space: dict[str, Any] = {"__file__": str(tmp_path / "my_handlers.py")}
    exec(HANDLERS, space)
    path = tmp_path / "every.parquet"
    result = replay(
        sample_path(), space["on_ticks"], feed_options={"date": SAMPLE_DATE}, out={"every": path}, workers=2, cores=None
    )
    columns = read(path)
    assert result.written == {"every": (path, result.ticks)}
    assert result.outputs.keys() == {"other"}
    assert columns["symbol"] == [result.symbols[key] for key in columns["instrument_id"]]
    assert not any(name.startswith("#") for name in columns["symbol"])
    assert path.stat().st_size < result.ticks * TICK.itemsize


@pytest.mark.parametrize("ending", SUFFIXES)
def test_a_file_that_is_aborted_leaves_nothing_and_reports_nothing_later(
    tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", heard.append)
    file = OutputFile(tmp_path / f"o.{ending}", merged_dtype(np.dtype([("n", "<i8")])), SymbolTable(["A"]))
    file.write(np.zeros(3, merged_dtype(np.dtype([("n", "<i8")]))))
    file.abort()
    del file
    gc.collect()
    assert not heard
    assert not list(tmp_path.iterdir())


def test_times_in_csv_say_that_they_are_in_utc(tmp_path: Path) -> None:
    dtype = merged_dtype(np.dtype([("at", TIME)]))
    records = np.zeros(3, undeclared(dtype))
    records["ts"] = [0, 1_700_000_000_123_456_789, -1]
    records["at"] = [UNDEF_PRICE, 5, 86_400_000_000_000]
    file = OutputFile(tmp_path / "o.csv", dtype, SymbolTable(["A"]))
    file.write(records)
    file.close()
    _, *rows = (tmp_path / "o.csv").read_text().replace('"', "").splitlines()
    assert [(row.split(",")[2], row.split(",")[-1]) for row in rows] == [
        ("1970-01-01T00:00:00.000000000Z", ""),
        ("2023-11-14T22:13:20.123456789Z", "1970-01-01T00:00:00.000000005Z"),
        ("1969-12-31T23:59:59.999999999Z", "1970-01-02T00:00:00.000000000Z"),
    ]
