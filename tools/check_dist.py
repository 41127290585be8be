"""Builds the sdist, the wheel from it, and checks both: contents, abi3 tag, and an import in a fresh environment."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TRY = """
import importlib.util, pkgutil, sys
import strand, strand.feeds
from strand.binding import lib
assert lib.SD_OK == 0
for module in (strand, strand.feeds):
    assert module.__file__.startswith(sys.prefix), f"imported from {module.__file__}"
import pathlib
assert all((pathlib.Path(strand.get_include()) / header).is_file() for header in strand.headers.HEADERS)
from strand import testing
testing.check_seeds(testing.feed([("A", 1, 10.5, 3)]), "count", seeds=[0])
print("imports from", strand.__path__[0])
"""


def run(*command: str | Path, cwd: Path = ROOT) -> None:
    """Run a command, its output going where ours goes; its failure is ours."""
    subprocess.run([str(part) for part in command], cwd=cwd, check=True)


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


def main() -> None:
    """Leave a checked sdist and wheel in the folder named on the command line."""
    out = (ROOT / sys.argv[1]).resolve()
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as scratch_name:
        scratch = Path(scratch_name)
        run(sys.executable, "setup.py", "--quiet", "egg_info", "--egg-base", scratch, "sdist", "--dist-dir", out)
        (sdist,) = out.glob("*.tar.gz")
        with tarfile.open(sdist) as tar:
            names = {name.split("/", 1)[1] for name in tar.getnames() if "/" in name}
        sources = {path.relative_to(ROOT).as_posix() for path in (ROOT / "csrc").rglob("*.[ch]*") if path.is_file()}
        require(names, sources | {"csrc/build_core.py", "LICENSE", "README.md", "setup.py", "feeds/base.py"}, sdist)

        # From the sdist, not from the checkout: what the sdist forgets cannot be found by the wheel.
        run(
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "-q",
            "--no-deps",
            "--no-build-isolation",
            "-w",
            out,
            sdist,
            cwd=scratch,
        )
        (wheel,) = out.glob("*.whl")
        if "-cp311-abi3-linux" not in wheel.name:
            raise SystemExit(f"{wheel.name} is not an abi3 wheel for CPython 3.11 and newer")
        names = set(zipfile.ZipFile(wheel).namelist())
        installed = ("sd_handler.h", "sd_task.h", "sd_tick.h", "sd_error.h", "handlers/book.h")
        headers = {f"strand/include/{name}" for name in installed}
        require(names, source_files("strand", "strand") | source_files("feeds", "strand/feeds") | headers, wheel)

        venv.create(scratch / "venv", with_pip=True)
        python = scratch / "venv" / "bin" / "python"
        run(python, "-m", "pip", "install", "-q", wheel, cwd=scratch)
        run(python, "-c", TRY, cwd=scratch)
    print(f"{sdist.name} and {wheel.name} are sound")


if __name__ == "__main__":
    main()
