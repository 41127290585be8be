"""The command: options with their defaults, ranges and units, the keys and types of JSON, and refused values.

commands.json has them: tests/support/command_contract.py writes it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import command_contract as contract
import numpy as np
import pytest
from command_here import run_here

import strand
from strand import testing
from strand.errors import SavedStateError

pytestmark = pytest.mark.python
pytest.importorskip("pyarrow")

KNOWN: dict[str, dict[str, Any]] = json.loads(contract.PATH.read_text("utf-8"))
DATA = Path(__file__).resolve().parent / "data"


def test_no_command_is_gone() -> None:
    assert {" ".join(path) for path in contract.commands()} >= KNOWN["options"].keys()


@pytest.mark.parametrize("command", KNOWN["options"])
def test_a_command_has_its_options_with_their_defaults_ranges_and_units(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    found = contract.options_of(command.split())
    known = KNOWN["options"][command]
    assert {name: contract.as_known(found.get(name), option) for name, option in known.items()} == known


def test_json_has_the_keys_and_types_that_it_had(tmp_path: Path) -> None:
    found = contract.shapes(tmp_path)
    assert found.keys() == KNOWN["json"].keys()
    assert [name for name, shape in found.items() if not contract.fits(shape, KNOWN["json"][name])] == []


@pytest.mark.parametrize("command", KNOWN["refused"])
def test_a_value_that_is_none_ends_with_status_2_and_the_option_or_value(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    contract.made_here(tmp_path)
    found = contract.refused(command.split(), tmp_path)
    assert {name: found.get(name) for name in KNOWN["refused"][command]} == KNOWN["refused"][command]


@pytest.mark.parametrize(
    "args", [["nonsense"], ["replay"], ["replay", "no-such-file"], ["replay", "x", "--no-such-option"], ["info", "/"]]
)
def test_what_is_no_command_file_or_option_ends_with_status_2_and_no_traceback(args: list[str], tmp_path: Path) -> None:
    ran = run_here(*args, cwd=tmp_path)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "Traceback" not in ran.stderr
    assert any(arg.lstrip("-") in ran.stderr for arg in args)


# ---- numbers


def test_json_of_a_replay_has_the_numbers_of_the_library(tmp_path: Path) -> None:
    contract.made_here(tmp_path)
    result = strand.replay(tmp_path / "20200130.itch50", "vwap", workers=1, cores=None)
    for workers in ("0", "2"):
        told = json.loads(
            run_here(
                "replay", "20200130.itch50", "--handler", "vwap", "--workers", workers, "--json", cwd=tmp_path
            ).stdout
        )
        assert (told["ticks"], told["fingerprint"]) == (result.ticks, result.fingerprint)


# ---- two runs that differ


def test_diff_names_the_first_tick_that_differs_and_its_status_is_1(tmp_path: Path) -> None:
    ticks = testing.feed([("AB"[n % 2], 1_000 + n, 1.0, 1 + n) for n in range(200)]).ticks
    others = ticks.copy()
    others["size"][133] += 1
    for name, each in (("one", ticks), ("other", others)):
        np.savez(tmp_path / f"{name}.npz", ticks=each, symbols=["A", "B"])
        strand.replay(
            tmp_path / f"{name}.npz", "vwap", fingerprint_every=50, fingerprints=tmp_path / f"{name}.fp", workers=1,
            cores=None,
        )  # fmt: skip
    ran = run_here("diff", "one.fp", "other.fp", "--json", cwd=tmp_path)
    told = json.loads(ran.stdout)
    assert ran.returncode == 1
    assert (told["same"], told["after"], told["by"]) == (False, 100, 150)
    (symbol,) = told["symbols"]
    assert (symbol["symbol"], symbol["input_differs"], symbol["rows_differ"]) == ("B", True, True)
    assert "133" in run_here("diff", "one.fp", "other.fp", cwd=tmp_path).stdout
    same = run_here("diff", "one.fp", "one.fp", "--json", cwd=tmp_path)
    assert (same.returncode, json.loads(same.stdout)["same"]) == (0, True)
    assert run_here("diff", "one.fp", "none.fp", "--json", cwd=tmp_path).returncode == 2


# ---- saved states

SYMBOLS = ["A", "B", "C"]


def book_ticks() -> Any:
    """Orders of three symbols, a second apart."""
    rng = np.random.default_rng(11)
    ticks = strand.ticks.zeros(120)
    ticks["instrument_id"], ticks["order_id"] = rng.integers(0, 3, 120), np.arange(1, 121)
    ticks["ts_event"] = ticks["ts_recv"] = 1_580_385_600 * 10**9 + np.arange(120) * 10**9
    ticks["kind"], ticks["action"], ticks["side"] = strand.ticks.KIND_ORDER, b"A", rng.choice([b"A", b"B"], 120)
    ticks["price"], ticks["size"] = 10**9 * rng.integers(50, 60, 120), rng.integers(1, 9, 120)
    trades = np.arange(5, 120, 7)
    ticks["kind"][trades], ticks["action"][trades] = strand.ticks.KIND_TRADE, b"T"
    ticks["sequence"] = np.arange(1, 121)
    return ticks


OPTIONS: dict[str, Any] = {"feed": "plain", "workers": 2, "strands": "per-symbol", "cores": None}


def save(path: Path) -> None:
    """Write tests/contract/data/saved.strand anew."""
    dispatcher = strand.Dispatcher(SYMBOLS, strand.chain(strand.book(), strand.bars("5s")), **OPTIONS)
    dispatcher.start()
    dispatcher.publish(book_ticks()[:60])
    dispatcher.save(path)


def test_a_state_that_was_saved_before_goes_on_or_its_version_is_refused() -> None:
    """The file is of an earlier day. It is read by the same release on the same kind of processor, and by no other."""
    handler = strand.chain(strand.book(), strand.bars("5s"))
    with strand.Dispatcher(SYMBOLS, handler, **OPTIONS) as whole:
        whole.publish(book_ticks())
    try:
        with strand.Dispatcher(SYMBOLS, handler, load=DATA / "saved.strand", **OPTIONS) as dispatcher:
            dispatcher.publish(book_ticks()[60:])
    except SavedStateError as error:
        assert any(word in str(error) for word in ("version", "release", "layout", "processor"))
    else:
        assert dispatcher.rows.array.tobytes() == whole.rows.array.tobytes()
        before = len(whole.outputs["bars"].array()) - len(dispatcher.outputs["bars"].array())
        assert (whole.outputs["bars"].array()[before:] == dispatcher.outputs["bars"].array()).all()


def test_a_saved_state_that_was_cut_or_changed_is_refused(tmp_path: Path) -> None:
    data = (DATA / "saved.strand").read_bytes()
    for number, changed in enumerate((data[:-1], data[: len(data) // 2], data[:200] + b"\xff" + data[201:], b"")):
        path = tmp_path / f"{number}.strand"
        path.write_bytes(changed)
        with pytest.raises(SavedStateError):
            strand.Dispatcher(SYMBOLS, strand.chain(strand.book(), strand.bars("5s")), load=path, **OPTIONS)
