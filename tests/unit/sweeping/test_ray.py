"""A sweep on a Ray cluster of two nodes on this machine. One of them is killed."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from strand.feeds.sample import sample_path

ray = pytest.importorskip("ray", reason="the extra ray is not installed (make proof runs this)")
pytest.importorskip("numba")

from sweep_files import FEW  # noqa: E402
from sweep_handlers import SETS, wide  # noqa: E402

from strand.sweeping.run import sweep  # noqa: E402

pytestmark = pytest.mark.python

FILES = 8


@pytest.fixture
def cluster() -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    support = Path(__file__).parents[2] / "support"
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    made.add_node(num_cpus=1)
    path = os.pathsep.join([str(support), os.environ.get("PYTHONPATH", "")])
    ray.init(address=made.address, log_to_driver=False, runtime_env={"env_vars": {"PYTHONPATH": path}})
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.mark.timeout(300)
def test_a_node_that_is_killed_costs_its_files_only_and_the_bytes_are_those_of_one_machine(
    cluster: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "days"
    folder.mkdir()
    for day in range(FILES):
        (folder / f"day{day}.gz").write_bytes(sample_path().read_bytes())
    sources = sorted(folder.iterdir())
    here = sweep(sources, wide, SETS, out=tmp_path / "here", workers=1, **FEW)
    killed: list[int] = []

    def kill_once(done: int, total: int) -> None:
        if not killed:
            second = next(node for node in cluster.list_all_nodes() if not node.is_head())
            killed.append(second.all_processes["raylet"][0].process.pid)
            os.kill(killed[0], signal.SIGKILL)

    there = sweep(sources, wide, SETS, out=tmp_path / "there", backend="ray", progress=kill_once, **FEW)
    assert killed
    assert len(there.ran) == FILES
    while sum(node["Alive"] for node in ray.nodes()) == 2:  # the cluster sees it by and by
        time.sleep(0.1)
    written = {str(path.relative_to(here.folder)): path.read_bytes() for path in here.folder.rglob("*.parquet")}
    assert len(written) == 2 * FILES
    assert written == {str(p.relative_to(there.folder)): p.read_bytes() for p in there.folder.rglob("*.parquet")}
    assert sweep(sources, wide, SETS, out=tmp_path / "there", backend="ray", **FEW).ran == ()
