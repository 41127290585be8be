"""Runs CPython's own tests of thread pools against ``strand.Scheduler``, and prints which tests ran and which failed.

    python cpython_executors.py NAME ...   names are CLASS.TEST, and are left out

They come from the ``test`` package of the Python that runs this, or from the file ``test_concurrent_futures.py`` that
``STRAND_CPYTHON_TESTS`` names.
"""

from __future__ import annotations

import faulthandler
import importlib
import importlib.util
import io
import json
import os
import sys
import unittest
from concurrent import futures
from types import ModuleType
from typing import Any

NAME = "test.test_concurrent_futures"
#: Seconds after which a run that has not ended shows its stacks and is ended.
BOUND_S = 100


def module() -> ModuleType:
    """The module with the tests. Raises ImportError where there is none."""
    given = os.environ.get("STRAND_CPYTHON_TESTS")
    if given:
        spec = importlib.util.spec_from_file_location(NAME, given)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[NAME] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[NAME])
    found = importlib.import_module(NAME)
    if hasattr(found, "__path__"):
        raise ImportError("its tests are in several files, and the list in docs/tasks.md is of CPython 3.11")
    return found


def main() -> None:
    faulthandler.dump_traceback_later(BOUND_S, exit=True)
    left_out = set(sys.argv[1:])
    try:
        found = module()
    except ImportError as error:
        print(json.dumps({"missing": str(error)}))
        return
    from strand import Scheduler

    class Adapter(Scheduler):
        """Takes the name that a thread pool has for ``workers``."""

        def __init__(self, max_workers: int | None = None, **others: Any) -> None:
            super().__init__(max_workers, **others)

    futures.ThreadPoolExecutor = Adapter  # type: ignore[assignment, misc]

    def short(test: Any) -> str:
        return ".".join(str(test.id()).split(".")[-2:])

    suite, seen = unittest.TestSuite(), set()
    for name, kind in vars(found).items():
        is_test = isinstance(kind, type) and issubclass(kind, unittest.TestCase) and "Process" not in name
        if is_test and name not in seen and (hasattr(kind, "executor_type") or name == "FutureTests"):
            seen.add(name)
            if hasattr(kind, "executor_type"):
                kind.executor_type = Adapter
            tests = unittest.defaultTestLoader.loadTestsFromTestCase(kind)
            suite.addTests(test for test in tests if short(test) not in left_out)

    class Result(unittest.TextTestResult):
        def startTest(self, test: unittest.TestCase) -> None:  # noqa: N802
            ran.append(short(test))
            print(short(test), file=sys.stderr, flush=True)
            super().startTest(test)

    ran: list[str] = []
    said = io.StringIO()
    result = unittest.TextTestRunner(said, resultclass=Result).run(suite)
    failed = sorted({short(test) for test, _ in result.failures + result.errors})
    print()
    print(json.dumps({"ran": ran, "failed": failed, "said": said.getvalue()}))


if __name__ == "__main__":
    main()
