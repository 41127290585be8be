"""Small wrong changes of the engine, each of which a named check has to catch: mutants.py [--sample N] [NAME ...]

The changes are in tests/model/mutants. Each gives a name, what is wrong, its check, and the texts to exchange:

    mutant: name-of-it
    What is wrong, in a sentence.
    check: name-of-the-check
    <<<< room/file.c
    the old text, which occurs once in csrc/room/file.c
    ====
    the new text
    >>>>

A check is one of tests/model/checks.c, or a program of scenarios: schedule and liveness, and under a policy
schedule-levels, liveness-levels and so on. It tries seeds over the changed copy until it fails, and has to pass with
that same seed over the engine as it is. All changes have to apply, also those that are not run.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
CSRC = HERE.parent.parent / "csrc"
#: The rooms of csrc that the engine is in.
ROOMS = (CSRC / "engine_rooms").read_text().split()
CC = [*shlex.split(os.environ.get("CC", "cc")), "-std=gnu11", "-O1", "-w", "-DSD_MODEL_SCHEDULER"]
#: At most so many are tried of the programs of scenarios; a check of tests/model/checks.c has its own number of them.
SEEDS = {"schedule": 30000, "liveness": 2000}
POLICIES = re.findall(r"X\((\w+), SD_", (CSRC / "schedule" / "policy.h").read_text())
SEEDS |= {f"{program}-{policy}": n for program, n in SEEDS.items() for policy in POLICIES[1:]}
SEEDS |= {"schedule-aging": 10000, "liveness-aging": 1000}
PROGRAMS = ("schedule", "liveness", "checks")
#: A check ends by itself, in steps of the scheduler. A change that makes the engine loop without one is no use here.
HANG_SECONDS = 900


@dataclass
class Mutant:
    """A change, and the check that has to catch it."""

    name: str
    check: str = ""
    what: str = ""
    where: str = ""
    edits: list[tuple[str, str, str]] = field(default_factory=list)

    def changed(self) -> dict[str, str]:
        """The text of each file it changes. Each old text has to occur once."""
        texts: dict[str, str] = {}
        for file, old, new in self.edits:
            text = texts.get(file) or (CSRC / file).read_text()
            if (found := text.count(old)) != 1:
                raise ValueError(f"this text occurs {found} times in {file}:\n{old}")
            texts[file] = text.replace(old, new)
        return texts


def read(path: Path) -> list[Mutant]:
    """The mutants of a file."""
    mutants: list[Mutant] = []
    lines = iter(path.read_text().splitlines(keepends=True))

    def until(mark: str) -> str:
        taken = []
        for line in lines:
            if line.rstrip("\n") == mark:
                return "".join(taken)
            taken.append(line)
        raise SystemExit(f"FAILED      {path.name}: {mutants[-1].name}: an edit has no line {mark!r}")

    for line in lines:
        key, _, value = line.rstrip("\n").partition(" ")
        if key == "mutant:":
            mutants.append(Mutant(value, where=path.name))
        elif key == "check:":
            mutants[-1].check = value
        elif key == "<<<<":
            mutants[-1].edits.append((value, until("===="), until(">>>>")))
        elif mutants and not mutants[-1].check:
            mutants[-1].what += line
        elif line.strip():
            raise SystemExit(f"FAILED      {path.name}: {mutants[-1].name if mutants else ''}: what is {line!r}?")
    return mutants


def read_all() -> list[Mutant]:
    """All mutants, each of which says what it should and applies."""
    mutants = [mutant for path in sorted((HERE / "mutants").glob("*.txt")) for mutant in read(path)]
    checks = {*SEEDS, *re.findall(r'^    \{"([a-z-]+)"', (HERE / "checks.c").read_text(), re.MULTILINE)}
    names = [mutant.name for mutant in mutants]
    wrong = []
    for mutant in mutants:
        if not mutant.what.strip() or not mutant.edits or mutant.check not in checks or names.count(mutant.name) > 1:
            wrong.append(f"{mutant.where}: {mutant.name}: its own name, a sentence, an edit or its check is missing")
        try:
            mutant.changed()
        except ValueError as error:
            wrong.append(f"{mutant.where}: {mutant.name}: {error}")
    if wrong:
        raise SystemExit("\n".join(f"FAILED      {line}" for line in wrong))
    return mutants


def engine_files() -> list[Path]:
    """The engine, the headers that handlers share with it, and the seeded scheduler."""
    rooms = (path for room in ROOMS for path in (CSRC / room).glob("*.[ch]"))
    return sorted([*CSRC.glob("*.h"), *rooms, *(CSRC / "seeded").glob("scheduler.[ch]")])


def sampled(mutants: list[Mutant], n: int) -> list[Mutant]:
    """So many of them: others when the engine is another, so that all have their turn."""
    sources = b"".join(path.read_bytes() for path in engine_files())
    return sorted(mutants, key=lambda mutant: hashlib.sha256(mutant.name.encode() + sources).digest())[:n]


# ---- building and running


def program_of(check: str) -> str:
    return check.partition("-")[0] if check in SEEDS else "checks"


def sources_of(program: str, csrc: Path) -> list[Path]:
    """The program, and the engine but for its clock, in whose place the scheduler has its own."""
    engine = [csrc / file.relative_to(CSRC) for file in engine_files() if file.suffix == ".c"]
    return [*(path for path in engine if path.name != "clock.c"), HERE / f"{program}.c"]


def compile_one(source: Path, csrc: Path, to: Path) -> None:
    command = [*CC, f"-I{csrc}", f"-I{HERE}", "-c", str(source), "-o", str(to / f"{source.name}.o")]
    subprocess.run(command, check=True)


def link(program: str, objects: list[Path], to: Path) -> None:
    subprocess.run([*CC, *map(str, objects), "-o", str(to / program), "-lm"], check=True)


def run(program: Path, check: str, seed: str = "") -> tuple[bool, str]:
    """Tells whether the check passes, with one seed or with all of them, and what it says first."""
    command = [program, str(SEEDS.get(check, check))]
    environment = os.environ | {"POLICY": check.partition("-")[2] if check in SEEDS else ""}
    environment |= {"SEED": seed} if seed else {}
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=HANG_SECONDS, env=environment)
    said = done.stdout.partition("\n")[0] or f"it ended by signal {-done.returncode}"
    return done.returncode == 0, said


def is_wrong_anyway(check: str, said: str, right: Path) -> bool:
    """Tells whether the engine as it is fails, too, with the seed that the check told."""
    told = re.search(r"\bseed (\d+):", said)
    return told is None or not run(right / program_of(check), check, told[1])[0]


def try_mutant(mutant: Mutant, right: Path) -> str:
    """Builds it beside the objects of the engine as it is, runs its check, and says how that ended."""
    program, texts = program_of(mutant.check), mutant.changed()
    all_anew = any(file.endswith(".h") for file in texts)
    with tempfile.TemporaryDirectory(dir=right) as folder:
        copy, csrc = Path(folder), Path(folder) / "csrc"
        for path in engine_files():
            name = path.relative_to(CSRC)
            (csrc / name).parent.mkdir(parents=True, exist_ok=True)
            (csrc / name).write_text(texts.get(name.as_posix()) or path.read_text())
        objects = []
        try:
            for source in sources_of(program, csrc):
                anew = all_anew or f"{source.parent.name}/{source.name}" in texts
                objects.append((copy if anew else right) / f"{source.name}.o")
                if anew:
                    compile_one(source, csrc, copy)
            link(program, objects, copy)
            passed, said = run(copy / program, mutant.check)
            if not passed and is_wrong_anyway(mutant.check, said, right):
                return f"FAILED      the engine as it is, by {mutant.check}: {said}"
        except subprocess.CalledProcessError:
            return f"FAILED      {mutant.name}: it does not compile"
        except subprocess.TimeoutExpired:
            return f"FAILED      {mutant.name}: {mutant.check} has no end: it has to fail"
    return f"FAILED      {mutant.name}: {mutant.check} passes" if passed else f"caught      {mutant.name}: {said}"


def main() -> int:
    """Not 0 when one is not caught."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, metavar="N", help="so many of them, others when the engine is another")
    parser.add_argument("name", nargs="*", help="only these")
    options = parser.parse_args()
    mutants = read_all()
    if unknown := set(options.name) - {mutant.name for mutant in mutants}:
        parser.error(f"no mutant is called {', '.join(sorted(unknown))}")
    chosen = [mutant for mutant in mutants if not options.name or mutant.name in options.name]
    if options.sample is not None:
        chosen = sampled(chosen, options.sample)

    failed = 0
    jobs = int(os.environ.get("JOBS") or len(os.sched_getaffinity(0)))
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        right = Path(folder)
        sources = {source for program in PROGRAMS for source in sources_of(program, CSRC)}
        list(pool.map(lambda source: compile_one(source, CSRC, right), sorted(sources)))
        for program in PROGRAMS:
            link(program, [right / f"{source.name}.o" for source in sources_of(program, CSRC)], right)
        for said in pool.map(lambda mutant: try_mutant(mutant, right), chosen):
            failed += said.startswith("FAILED")
            print(said, flush=True)
    print(f"{'FAILED' if failed else 'ok'}          {len(chosen)} of {len(mutants)} mutants were tried")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
