"""--config: a file's options, and those of the command line that win over them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from command_here import run_here

from strand.command.run_options import running
from strand.config.configuration import Config
from strand.dispatch.configuration import Limits, Pool
from strand.dispatch.guard import Guard
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.policies.policy import Aging, Fair, Fifo, Levels

pytestmark = pytest.mark.python


USUAL = {"cores": "auto", "strands": "auto", "idle": "backoff", "on_error": "stop", "strict": False}
LEVELS = """
policy: {name: levels}
priorities:
  low_timeout: 5ms
  symbols: {A: high}
worker_pool: {max_workers: 1, queue_capacity: 99}
"""
BOUNDED = """
policy: {name: levels}
worker_pool: {total_capacity_ticks: 50, level_capacity_ticks: {low: 20}, on_full: shed}
"""
AGING = """
policy: {name: aging, classes: {urgent: 4, high: 2, normal: 1}, low_every: 8}
priorities: {symbols: {A: [urgent, 10]}}
"""
FAIR = "{policy: {name: fair, cpu_share: 0.5, weights: {x: 2}}, groups: {A: x}}"
GUARDED = "{policy: {name: levels}, marks: {A: io}, resource_limits: {cpu_threshold: 0.5}}"
OF_LEVELS = {"policy": Levels({"low": "5ms"}), "priorities": {"A": "high"}, "capacity_ticks": 99, "workers": 1}
OF_BOUNDED = {
    "policy": Levels(), "priorities": {},
    "limits": Limits(total_capacity_ticks=50, level_capacity_ticks={"low": 20}, on_full="shed"),
}  # fmt: skip
CLASSES = {"urgent": 4, "high": 2, "normal": 1}
OF_AGING = {
    "policy": Aging(classes=CLASSES, low_every=8), "priorities": {"A": ("urgent", 10)}, "capacity_ticks": 65_536,
}  # fmt: skip
OF_FAIR = {
    "policy": Fair(cpu_share=0.5, weights={"x": 2}), "priorities": {}, "groups": {"A": "x"}, "capacity_ticks": 65_536,
}  # fmt: skip
OF_GUARDED = {
    "policy": Levels(), "priorities": {}, "guard": Guard(cpu=0.5, memory=None, io_pressure=None), "marks": {"A": "io"},
    "capacity_ticks": 65_536,
}  # fmt: skip


@pytest.fixture
def in_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run_with(file: str, args: list[str]) -> tuple[Result, list[dict[str, Any]]]:
    """A command with a file of this text, and what it was given."""
    found: list[dict[str, Any]] = []

    @click.command()
    @click.option("--workers", type=int)
    @running
    def command(run: dict[str, Any]) -> None:
        found.append(run)

    Path("a.yaml").write_text(file)
    return CliRunner().invoke(command, ["--config", "a.yaml", *args]), found


@pytest.mark.usefixtures("in_tmp")
@pytest.mark.parametrize(
    ("file", "args", "order", "told"),
    [
        (LEVELS, "", OF_LEVELS, []),
        (
            LEVELS, "--workers 3", OF_LEVELS | {"workers": 3},
            ["worker_pool.max_workers = 1 of a.yaml is not used: --workers 3 replaces it"],
        ),
        (
            BOUNDED, "", OF_BOUNDED, [],
        ),
        (
            BOUNDED, "--min-workers 2 --on-full drop_newest --level-capacity-ticks low=5 --level-capacity-ticks high=6",
            OF_BOUNDED | {"pool": Pool(min_workers=2), "limits": Limits(
                total_capacity_ticks=50, level_capacity_ticks={"low": 5, "high": 6}, on_full="drop_newest",
            )},
            [
                "worker_pool.level_capacity_ticks = {'low': 20} of a.yaml is not used: --level-capacity-ticks low=5",
                "worker_pool.on_full = 'shed' of a.yaml is not used: --on-full drop_newest replaces it",
            ],
        ),
        (LEVELS, "--workers 0", OF_LEVELS | {"workers": 0}, ["worker_pool.max_workers = 1 of a.yaml"]),
        (LEVELS, "--workers 1 --timeout low=5ms --priority A=high", OF_LEVELS, []),
        (
            LEVELS, "--capacity-ticks 7 --on-full drop_newest",
            OF_LEVELS | {"capacity_ticks": 7, "on_full": "drop_newest"},
            ["worker_pool.queue_capacity = 99 of a.yaml is not used: --capacity-ticks 7 replaces it"],
        ),
        (
            LEVELS, "--timeout high=1ms --timeout low=9ms --since created",
            OF_LEVELS | {"policy": Levels({"low": "9ms", "high": "1ms"}, "created")},
            ["priorities.low_timeout = '5ms' of a.yaml is not used: --timeout low=9ms replaces it"],
        ),
        (
            LEVELS, "--priority B=low --priority A=retry", OF_LEVELS | {"priorities": {"A": "retry", "B": "low"}},
            ["priorities.symbols.A = 'high' of a.yaml is not used: --priority A=retry replaces it"],
        ),
        (
            LEVELS, "--policy fifo", {"policy": Fifo(), "priorities": {}, "capacity_ticks": 99, "workers": 1},
            ["policy.name = 'levels'", "priorities.low_timeout = '5ms'", "priorities.symbols.A = 'high'"],
        ),
        (
            LEVELS, "--policy levels --priority B=low", OF_LEVELS | {"policy": Levels(), "priorities": {"B": "low"}},
            ["priorities.low_timeout = '5ms' of a.yaml is not used: --policy levels", "priorities.symbols.A = 'high'"],
        ),
        (
            LEVELS, "--policy aging --coefficient 2 --priority A=-3",
            OF_LEVELS | {"policy": Aging(2), "priorities": {"A": -3}},
            [
                "policy.name = 'levels'", "priorities.low_timeout = '5ms' of a.yaml is not used: --policy aging",
                "priorities.symbols.A = 'high' of a.yaml is not used: --priority A=-3",
            ],
        ),
        (
            LEVELS, "--policy fair --fair-group A=y --slice-ms 5",
            {"policy": Fair(5), "priorities": {}, "groups": {"A": "y"}, "capacity_ticks": 99, "workers": 1},
            ["policy.name = 'levels'", "priorities.low_timeout = '5ms'", "priorities.symbols.A = 'high'"],
        ),
        (LEVELS, "--guard --mark A=io", OF_LEVELS | {"guard": Guard(), "marks": {"A": "io"}}, []),
        (AGING, "--priority A=urgent:10", OF_AGING, []),
        (
            AGING, "--low-every load --max-wait 5ms --priority A=7",
            OF_AGING | {"policy": Aging(classes=CLASSES, low_every="load", max_wait="5ms"), "priorities": {"A": 7}},
            ["policy.low_every = 8 of a.yaml is not used: --low-every load", "priorities.symbols.A = ['urgent', 10]"],
        ),
        (
            AGING, "--class urgent=9 --class high=3 --class normal=1",
            OF_AGING | {"policy": Aging(classes={"urgent": 9, "high": 3, "normal": 1}, low_every=8)},
            ["policy.classes = {'urgent': 4, 'high': 2, 'normal': 1} of a.yaml is not used: --class urgent=9 "],
        ),
        (
            FAIR, "--fair-group B=x --burst-ms 7 --weight x=3",
            OF_FAIR
            | {"policy": Fair(cpu_share=0.5, burst_ms=7, weights={"x": 3}), "groups": {"A": "x", "B": "x"}},
            ["policy.weights = {'x': 2} of a.yaml is not used: --weight x=3 replaces it"],
        ),
        (
            FAIR, "--cpu-share 0.25 --slice-ms 5", OF_FAIR | {"policy": Fair(5, cpu_share=0.25, weights={"x": 2})},
            ["policy.cpu_share = 0.5 of a.yaml is not used: --cpu-share 0.25"],
        ),
        (
            FAIR, "--policy levels", {"policy": Levels(), "priorities": {}, "capacity_ticks": 65_536},
            ["policy.name = 'fair'", "policy.cpu_share = 0.5", "policy.weights = {'x': 2}", "groups.A = 'x' of a.yaml"],
        ),
        (GUARDED, "--guard", OF_GUARDED, []),
        (
            GUARDED, "--mark A=frees_memory --mark B=io",
            OF_GUARDED | {"marks": {"A": "frees_memory", "B": "io"}},
            ["marks.A = 'io' of a.yaml is not used: --mark A=frees_memory replaces it"],
        ),
        (
            GUARDED, "--policy levels --priority A=low", OF_GUARDED | {"priorities": {"A": "low"}}, [],
        ),
    ],
)  # fmt: skip
def test_what_the_command_line_gives_wins_and_that_is_told(
    file: str, args: str, order: dict[str, Any], told: list[str]
) -> None:
    done, found = run_with(file, args.split())
    assert done.exit_code == 0, done.output
    usual = {name: value for name, value in USUAL.items() if "pool" not in order or name not in ("cores", "idle")}
    assert found == [usual | order]
    lines = done.stderr.splitlines()
    assert len(lines) == len(told)
    for line, start in zip(lines, told, strict=True):
        assert line.startswith(f"config: {start}")


@pytest.mark.usefixtures("in_tmp")
@pytest.mark.parametrize(
    ("file", "args", "says"),
    [
        (LEVELS, "--max-wait 1s", "--max-wait: give --policy aging too"),
        (LEVELS, "--fair-group A=x", "--fair-group: give --policy fair too"),
        (LEVELS, "--policy aging --timeout low=1s", "--timeout: give --policy levels too"),
        (LEVELS, "--mark A=io", "--mark: give --guard too"),
        (FAIR, "--guard", "--guard: give --policy levels too"),
        ("{}", "--priority A=high", "--priority: give --policy levels or aging too"),
        ("{}", "--policy fifo --timeout low=1h", "--timeout: give --policy levels too"),
        ("{policy: {name: levels}}", "--priority A", "--priority: 'A' is not OPTION=VALUE"),
        ("{policy: {name: levels}}", "--priority A=high --priority A=low", "--priority: 'A' is given twice"),
        ("{policy: {name: fair}}", "--burst-ms 5", "--burst-ms: give --cpu-share too"),
        (FAIR, "--policy fair --burst-ms 5", "--burst-ms: give --cpu-share too"),
    ],
)
def test_an_option_that_the_policy_in_force_does_not_have_is_refused_by_name(file: str, args: str, says: str) -> None:
    done, found = run_with(file, args.split())
    assert (done.exit_code, found) == (2, [])
    assert says in done.output


def test_a_replay_by_a_file_runs_as_the_file_says(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(
        '[policy]\nname = "levels"\n[worker_pool]\nmax_workers = 2\n[resource_limits]\ncpu_threshold = 0.9\n'
        "[retry_policy]\nmax_attempts = 5\n"
    )
    done = run_here("replay", sample_path(), "--config", "a.toml", "--limit", "5000", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    plain = json.loads(done.stdout)
    assert plain["workers"] == 2
    assert plain["statistics"]["promoted"]
    assert plain["statistics"]["guard"].keys() == {"cpu", "memory", "io"}
    assert done.stderr.startswith("config: retry_policy is for tasks: this command")
    assert done.stderr.count("\n") == 1


# ---- strand policy plan


RATE = ("--rate", "100000", "--service", "25us")


def planned(*args: Any) -> dict[str, Any]:
    done = run_here("policy", "plan", *args, "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_rate_and_a_service_time_give_a_plan() -> None:
    found = planned(*RATE, "--wait", "p99=50us", "--workers", "3")
    assert [(choice["name"], choice["workers"]) for choice in found["choices"]] == [
        ("Erlang C", 5), ("rule of thumb", 7), ("as given", 3),
    ]  # fmt: skip
    assert planned(*RATE, "--wait", "mean=1ms")["choices"][0]["workers"] == 3
    assert planned(*RATE, "--wait", "p99.99 = 5ms")["quantile"] == pytest.approx(0.9999)


def test_people_are_shown_a_table_what_is_assumed_and_where_it_is_off() -> None:
    shown = run_here(
        "policy", "plan", "--rate", "HOT=90000", "--rate", "B=10000", *RATE[2:], "--wait", "p99=50us"
    ).stdout
    lines = [" ".join(line.replace("│", " ").split()) for line in shown.splitlines()]
    assert "workers 5 7" in lines
    assert "p99 wait 25.7 us 2.41 us" in lines
    text = " ".join(shown.split())
    assert "never drained: HOT has 90,000 ticks per second, but one worker at a time handles only 40,000" in text
    assert "B has" not in text
    for words in (
        "99% of the ticks wait at most 50 us",
        "assumed: arrivals are independent",
        "caution: only 2 symbols have ticks",
    ):
        assert words in text, words


def test_a_file_is_measured() -> None:
    found = planned("--from", sample_path(), "--date", SAMPLE_DATE, "--handler", "vwap", "--wait", "p99=5ms")
    assert found["rate_per_s"] == pytest.approx(4.64, abs=0.01)
    assert found["service_ns"] > 0
    assert found["squared_variation"] > 1
    assert found["choices"][1]["name"] == "busiest second"
    given = planned("--from", sample_path(), "--date", SAMPLE_DATE, "--service", "1s", "--wait", "mean=10ms")
    assert given["service_ns"] == 10**9
    assert given["choices"][0]["workers"] > 4


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ((*RATE, "--wait", "p99=50us", "--workers", "2"), "workers: 2 cannot keep up with 100,000 ticks per second"),
        ((*RATE, "--wait", "5ms"), "--wait: '5ms' is neither like p99=5ms nor like mean=1ms"),
        ((*RATE, "--wait", "p100=5ms"), "--wait: 'p100=5ms' is neither"),
        ((*RATE, "--wait", "p0=5ms"), "wait: 0.0 is not a share between 0 and 1"),
        ((*RATE, "--wait", "p99=5 parsecs"), "--wait: '5 parsecs' is not a span of time: 'parsecs' is not a unit"),
        (("--rate", "1", "--service", "fast", "--wait", "mean=1s"), "--service: 'fast' is not a span of time"),
        (("--rate", "1", "--wait", "mean=1s"), "give --rate and --service, or --from"),
        (("--rate", "fast", "--service", "1s", "--wait", "mean=1s"), "--rate: 'fast' is not a number of ticks"),
        (("--rate", "nan", "--service", "1s", "--wait", "mean=1s"), "rate: nan is not a number above 0"),
        (("--rate", "0", "--service", "1s", "--wait", "mean=1s"), "rate: 0.0 is not a number above 0"),
        (("--rate", "=5", "--service", "1s", "--wait", "mean=1s"), "--rate: '=5' is neither N nor SYMBOL=N"),
        ((*RATE, "--rate", "A=1", "--wait", "mean=1s"), "--rate: give the total rate, or the rate of each symbol"),
        ((*RATE, "--rate", "5", "--wait", "mean=1s"), "--rate: the total rate is given twice"),
        (("--rate", "A=-1", "--rate", "B=9", *RATE[2:], "--wait", "mean=1s"), "rate: A: -1.0 is not a number above 0"),
        ((*RATE, "--wait", "mean=1s", "--date", "2026-01-05"), "--date is for --from"),
        ((*RATE, "--wait", "mean=1s", "--handler", "vwap"), "--handler is for --from"),
        ((*RATE, "--wait", "mean=1s", "--from", "x"), "--rate: --from measures the rate"),
        (("--from", "-", "--wait", "mean=1s"), "--from -: standard input cannot be read twice"),
        (("--from", "no-such-file", "--wait", "mean=1s"), "there is no such file"),
    ],
)
def test_what_cannot_be_is_one_error(args: tuple[str, ...], says: str) -> None:
    done = run_here("policy", "plan", *args)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_handler_in_python_is_said_to_hold_the_gil(tmp_path: Path) -> None:
    (tmp_path / "planned_here.py").write_text(
        "import strand\n\n\n@strand.batch_handler(state=[('n', 'u8')])\n"
        "def tally(symbol, ticks, row):\n    row['n'] += len(ticks)\n"
    )
    words = ("--from", sample_path(), "--limit", "2000", "--wait", "mean=1ms", "--json")
    own = run_here("policy", "plan", *words, "--handler", "planned_here:tally", cwd=tmp_path)
    assert own.returncode == 0, own.stderr
    told = [any("in Python" in doubt for doubt in json.loads(text)["doubts"]) for text in (
        own.stdout, run_here("policy", "plan", *words, "--handler", "vwap").stdout,
    )]  # fmt: skip
    assert told == [True, False]


# ---- strand config


@pytest.mark.parametrize(("words", "name"), [((), "strand.toml"), (("--yaml",), "strand.yaml"), (("a.yml",), "a.yml")])
def test_from_init_by_check_and_load_to_show_all_are_the_defaults(
    tmp_path: Path, words: tuple[str, ...], name: str
) -> None:
    assert run_here("config", "init", *words, cwd=tmp_path).stdout == f"{name} written\n"
    done = run_here("config", "check", name, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{name}: no problems\n"
    assert Config.load(tmp_path / name) == Config()
    shown = json.loads(run_here("config", "show", name, "--json", cwd=tmp_path).stdout)
    assert {one["key"]: one["value"] for one in shown["entries"]} == {one.key: one.value for one in Config().entries()}
    assert {one["origin"] for one in shown["entries"]} == {name, "default"}


def test_init_overwrites_nothing_and_knows_two_formats(tmp_path: Path) -> None:
    (tmp_path / "strand.toml").write_text("mine")
    done = run_here("config", "init", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "strand: strand.toml: already exists: give another name, or remove it\n"
    assert (tmp_path / "strand.toml").read_text() == "mine"
    for words, says in ((("a.ini",), "ends in one of"), (("a.toml", "--yaml"), "--yaml: a.toml ends in .toml")):
        done = run_here("config", "init", *words, cwd=tmp_path)
        assert done.returncode == 2
        assert says in done.stderr
    assert json.loads(run_here("config", "init", "b.yaml", "--json", cwd=tmp_path).stdout)["format"] == "yaml"
    assert "no/such" in run_here("config", "init", "no/such/a.toml", cwd=tmp_path).stderr


def test_check_tells_all_that_is_wrong_and_ends_with_2(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('[priorities]\nlow_timeout = "30 parsecs"\n[worker_pool]\nmax_wokers = 1\n')
    done = run_here("config", "check", "a.toml", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    first, second = done.stderr.splitlines()
    assert first.startswith("strand: a.toml: priorities.low_timeout: '30 parsecs' is not a span of time")
    assert second.startswith("strand: a.toml: worker_pool.max_wokers: did you mean max_workers?")
    done = run_here("config", "check", "a.toml", "--json", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, "")
    assert [problem["field"] for problem in json.loads(done.stdout)["problems"]] == [
        "priorities.low_timeout", "worker_pool.max_wokers",
    ]  # fmt: skip
    assert run_here("config", "show", "a.toml", cwd=tmp_path).returncode == 2


def test_show_tells_people_where_values_come_from(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('[policy]\nname = "levels"\n[priorities]\nlow_timeout = "5ms"\n')
    shown = run_here("config", "show", "a.toml", cwd=tmp_path).stdout
    for words in (
        ("policy.name", '"levels"', "a.toml"),
        ("priorities.high_timeout", '"5ms"', "follows from the others"),
        ("worker_pool.queue_capacity", "65536", "default"),
        ("retry_policy.jitter", "0.1", "default"),
        ("resource_limits.cpu_threshold", "not set", "default"),
    ):
        assert any(all(word in line for word in words) for line in shown.splitlines()), words


def test_groups_marks_and_limits_are_checked_and_shown(tmp_path: Path) -> None:
    limits = "[resource_limits]\ncpu_threshold = 0.5\n"
    (tmp_path / "a.toml").write_text(f'policy.name = "levels"\nmarks.A = ["io", "frees_memory"]\n{limits}')
    assert run_here("config", "check", "a.toml", cwd=tmp_path).stdout == "a.toml: no problems\n"
    shown = run_here("config", "show", "a.toml", cwd=tmp_path).stdout
    for words in (("marks.A", '["io",', "a.toml"), ("resource_limits.cpu_threshold", "0.5", "a.toml")):
        assert any(all(word in line for word in words) for line in shown.splitlines()), words
    (tmp_path / "b.toml").write_text(f'policy.name = "fair"\ngroups.A = 5\n{limits}')
    done = run_here("config", "check", "b.toml", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == (
        "strand: b.toml: groups.A: 5 is not a name: give text\n"
        "strand: b.toml: resource_limits: Fair has no levels that could be held back; give policy=Levels(), "
        "in a file policy.name = 'levels'\n"
    )
