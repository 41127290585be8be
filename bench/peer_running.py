"""Search for the sides of bench/peers.py, and their runs: see bench/peer_sides/protocol.py."""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Side", "SideError", "TooSlowError", "missing", "programs", "run_side", "version_of"]

SIDES = Path(__file__).resolve().parent / "peer_sides"


class SideError(Exception):
    """A side could not do it; says why in a line."""


class TooSlowError(SideError):
    """It was stopped."""


@dataclass(frozen=True)
class Side:
    """``shards``: into how many parts symbols are split, 0 for as many as there are cores; a process has each, but for
    ``threads``, where one process has all. ``package``: what has to be installed. ``way``: what the program is told."""

    name: str
    program: str
    shards: int
    package: str | None = None
    threads: bool = False
    way: str = ""


# ---- what is there


def missing(side: Side) -> str | None:
    """``PEER_NAME`` says why the package NAME could not be installed, where somebody has tried."""
    if side.package is None or importlib.util.find_spec(side.package) is not None:
        return None
    reason = os.environ.get(f"PEER_{side.package.upper()}")
    return f"not installed: {reason}" if reason else "not installed"


def build(source: Path, into: Path) -> list[str]:
    """Compiles a side in C++, by ``CXX`` or c++. Returns the command that runs it."""
    command = [*shlex.split(os.environ.get("CXX", "c++")), "-O3", "-std=c++17", "-pthread", source, "-o", into]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    except OSError as error:
        raise SideError(f"not built: {command[0]}: {error.strerror}") from None
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if "error" in line]
        raise SideError(f"not built: {errors[0].split('error: ')[-1] if errors else f'{command[0]} failed'}")
    return [str(into)]


def programs(sides: list[Side], folder: Path) -> dict[str, list[str] | SideError]:
    """Command of each program, or the reason why it cannot run."""
    found: dict[str, list[str] | SideError] = {}
    for program in {side.program for side in sides}:
        found[program] = [sys.executable, str(SIDES / program)]
        if program.endswith(".cpp"):
            try:
                found[program] = build(SIDES / program, folder / Path(program).stem)
            except SideError as error:
                found[program] = error
    return found


def version_of(command: list[str] | SideError | None) -> list[str]:
    """Compiler of a side in C++, as the side names it."""
    if not isinstance(command, list):
        return []
    try:
        said = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return []  # running it will say why
    return [said.stdout.strip()]


# ---- running a side


def run_side(
    side: Side, command: list[str], job: str, folder: Path, patience: float
) -> tuple[float, float, npt.NDArray[Any]]:
    """Seconds to load, seconds to run from the word to the last process's answer, and the results."""
    cores = len(os.sched_getaffinity(0))
    shards = side.shards or cores
    outs = [folder / f"out{i}.npy" for i in range(1 if side.threads else shards)]
    # The programs import what lies beside them.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    running = [
        subprocess.Popen(
            [*command, job, folder, str(i), str(shards), out, side.way],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=env,
        )
        for i, out in enumerate(outs)
    ]
    # As long again for what is not counted: starting, compiling, and collecting the results.
    late = threading.Timer(2 * patience, lambda: [process.kill() for process in running])
    late.start()
    try:
        load_s = max(answer(process)["load_s"] for process in running)
        begun = time.perf_counter()
        for process in running:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        for process in running:
            answer(process)
        run_s = time.perf_counter() - begun
        for process in running:
            answer(process)
    except SideError:
        if late.is_alive():
            raise
        raise TooSlowError(f"stopped after {2 * patience:.0f} s") from None
    finally:
        late.cancel()
        for process in running:
            process.kill()
            process.communicate()
    results = np.concatenate([np.load(out) for out in outs])
    return load_s, run_s, results[np.argsort(results["symbol"])]


def answer(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    assert process.stderr is not None
    for line in process.stdout:
        if line.startswith("{"):
            found: dict[str, Any] = json.loads(line)
            return found
    said = process.stderr.read().strip().splitlines()
    raise SideError("failed: " + (said[-1] if said else f"it ended with status {process.wait()}"))
