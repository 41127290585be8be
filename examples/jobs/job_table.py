"""Runs the jobs of all packages that are here, compares their results with ours, and counts statements.

``python job_table.py`` prints the table, and fails where a result differs or a peer takes fewer statements. Statements
are those of ``ast`` in each function, nested functions and classes included, docstrings and imports at the top not.
"""

import ast
import math
import sys
import tempfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import polars as pl
from job_data import JobData, make_data
from peer_data import PeerData, make_peer_data

HERE = Path(__file__).parent
PEERS = ("polars", "databento", "nautilus")
#: Why a package has no function for a job.
NONE_OF: dict[tuple[str, str], str] = {
    ("polars", "databento_frame"): "it reads no DBN",
    ("polars", "live_volume"): "it has no live data",
    ("databento", "lobster_bars"): "it reads DBN alone",
    ("databento", "coin_bars"): "it reads DBN alone",
    ("databento", "live_volume"): "its live client connects to Databento alone",
    ("nautilus", "databento_frame"): "it gives objects of its own, and no frame",
    ("nautilus", "lobster_bars"): "it has no reader of LOBSTER",
    ("nautilus", "coin_bars"): "its bars of volume split a trade in two",
    ("nautilus", "live_volume"): "it has no adapter for ITCH",
    ("nautilus", "state_at_a_tick"): "its quotes have no number",
}
#: What the jobs that write a file call its columns, in our order.
BARS = ("symbol", "start", "open", "high", "low", "close", "volume")
QUOTES = ("ts", "symbol", "bid", "bid_size", "ask", "ask_size")
MINUTE = 60_000_000_000
DATABENTO_QUOTES = ("ts_recv", "symbol", "bid_px_00", "bid_sz_00", "ask_px_00", "ask_sz_00")


def statements(module: str) -> dict[str, int]:
    """Statements of each public function of a file by its name."""
    return {job: _count(function) for job, function in _functions(module).items()}


def _functions(module: str) -> dict[str, ast.FunctionDef]:
    nodes = ast.parse((HERE / f"{module}.py").read_text()).body
    functions = {node.name: node for node in nodes if isinstance(node, ast.FunctionDef)}
    return {name: node for name, node in functions.items() if name != "main" and not name.startswith("_")}


def _count(function: ast.FunctionDef) -> int:
    inner = (node for node in ast.walk(function) if isinstance(node, ast.stmt) and node is not function)
    return sum(not _is_docstring(node) for node in inner)


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def our_results(data: JobData) -> dict[str, Any]:
    """The result of each of our jobs; a file by its rows."""
    module = import_module("strand_jobs")
    found = {job: getattr(module, job)(data) for job in statements("strand_jobs")}
    found["minute_bars"] = sorted(_rows(pl.read_parquet(data.out / "bars.parquet"), BARS))
    found["best_quotes"] = _rows(pl.read_parquet(data.out / "bbo.parquet"), QUOTES)
    return found


def peer_results(peer: str, data: PeerData) -> Iterator[tuple[str, Any]]:
    """Job and result of a peer, in the form of ours. Raises ImportError where the package is not here."""
    module = import_module(f"{peer}_jobs")
    if peer == "nautilus":
        import_module("nautilus_data").make_catalog(data)
    for job in statements(f"{peer}_jobs"):
        found = getattr(module, job)(data)
        yield job, _FILES[job, peer](data, module) if job in ("minute_bars", "best_quotes") else found


def same(ours: Any, others: Any) -> bool:
    """Tells whether results agree: floats to a relative 1e-9, all else exactly; NaN and None say the same."""
    ours, others = _plain(ours), _plain(others)
    if isinstance(ours, dict):
        return ours.keys() == others.keys() and all(same(value, others[key]) for key, value in ours.items())
    if isinstance(ours, (list, tuple)):
        return len(ours) == len(others) and all(map(same, ours, others))
    if isinstance(ours, float) and others is not None:
        return math.isclose(ours, others, rel_tol=1e-9, abs_tol=1e-9)
    return bool(ours == others)


def _plain(value: Any) -> Any:
    """NaN as None, and a time of pandas to the microsecond, as Python's own is."""
    if isinstance(value, float) and math.isnan(value):
        return None
    return value.to_pydatetime(warn=False) if hasattr(value, "to_pydatetime") else value


def _rows(frame: pl.DataFrame, columns: tuple[str, ...]) -> list[tuple[Any, ...]]:
    return frame.select(columns).with_columns(pl.col("symbol").cast(pl.String)).rows()


def _polars_bars(data: PeerData, _: ModuleType) -> list[tuple[Any, ...]]:
    return sorted(_rows(pl.read_parquet(data.out / "bars.parquet").rename({"ts": "start"}), BARS))


def _databento_bars(data: PeerData, _: ModuleType) -> list[tuple[Any, ...]]:
    bars = pl.read_parquet(data.out / "bars.parquet").rename({"ts_recv": "start"})
    return sorted(_rows(bars.filter(pl.col("volume") > 0), BARS))


def _nautilus_bars(data: PeerData, module: ModuleType) -> list[tuple[Any, ...]]:
    bars = module.ParquetDataCatalog(data.out).bars()
    prices = ("open", "high", "low", "close", "volume")
    return sorted(
        (bar.bar_type.instrument_id.symbol.value, module.pd.Timestamp(bar.ts_event - MINUTE, tz="UTC").to_pydatetime(),
         *(float(getattr(bar, name)) for name in prices))
        for bar in bars
    )  # fmt: skip


def _polars_quotes(data: PeerData, _: ModuleType) -> list[tuple[Any, ...]]:
    return _rows(pl.read_parquet(data.out / "bbo.parquet"), QUOTES)


def _databento_quotes(data: PeerData, _: ModuleType) -> list[tuple[Any, ...]]:
    return _rows(pl.read_parquet(data.out / "bbo.parquet"), DATABENTO_QUOTES)


def _nautilus_quotes(data: PeerData, module: ModuleType) -> list[tuple[Any, ...]]:
    return [
        (module.pd.Timestamp(quote.ts_init, tz="UTC"), quote.instrument_id.symbol.value, float(quote.bid_price) or None,
         int(quote.bid_size), float(quote.ask_price) or None, int(quote.ask_size))
        for quote in module.ParquetDataCatalog(data.out).quote_ticks()
    ]  # fmt: skip


_FILES = {
    ("minute_bars", "polars"): _polars_bars,
    ("minute_bars", "databento"): _databento_bars,
    ("minute_bars", "nautilus"): _nautilus_bars,
    ("best_quotes", "polars"): _polars_quotes,
    ("best_quotes", "databento"): _databento_quotes,
    ("best_quotes", "nautilus"): _nautilus_quotes,
}


def table() -> str:
    """The table of statements, as Markdown."""
    ours, peers = statements("strand_jobs"), {peer: statements(f"{peer}_jobs") for peer in PEERS}
    about = {job: ast.get_docstring(function) or "" for job, function in _functions("strand_jobs").items()}
    lines = ["| job | strand | polars | databento | nautilus_trader |", "|---|---|---|---|---|"]
    for job, count in ours.items():
        cells = [str(peers[peer].get(job) or NONE_OF[peer, job]) for peer in PEERS]
        lines.append(f"| `{job}`: {about[job]} | {count} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> int:
    """Prints the table; 1 where something is not as it should be."""
    failed = False
    ours = statements("strand_jobs")
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as other:
        data = make_data(Path(folder))
        results, files = our_results(data), make_peer_data(data, Path(other))
        for peer in PEERS:
            counts, compared = statements(f"{peer}_jobs"), 0
            for job, found in peer_results(peer, files):
                compared += 1
                if not same(results[job], found):
                    failed = True
                    print(f"{peer}: {job}: {str(found)[:300]} where strand has {str(results[job])[:300]}")
                if counts[job] < ours[job]:
                    failed = True
                    print(f"{peer}: {job}: {counts[job]} statements, and strand {ours[job]}")
            print(f"{peer}: {compared} jobs compared with ours")
    print(table())
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
