"""``tools/sizes.py`` counts lines and parameters as they are, and holds them against the reasons that are listed."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]

C = """\
#define TWICE(x) ((x) + (x))
typedef struct sd_pair {
  int64_t (*of)(int a, int b);
} sd_pair;
static const sd_pair pairs[] = {
    {.of = NULL},
};
int declared(int a, int b, int c, int d, int e, int f, int g, int h, int i);

static inline int short_one(void) { return 0; }

__attribute__((noinline)) static int64_t long_head(const sd_pair *pair, int (*each)(int a, int b),
                                                   uint64_t n) {
  struct sd_pair copy = {0};
  if (n) {
    return 1;
  }
  return 0;
}
"""

PYTHON = '''\
class Part:
    def __init__(self, a, /, b, *others, c=1, **named):
        """Says

        more."""

    @classmethod
    def of(
        cls,
        a,
    ):
        async def inner():
            return a
        return inner

    @staticmethod
    def free(a): ...
'''


@pytest.fixture(scope="module")
def sizes() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sizes", ROOT / "tools/sizes.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["sizes"] = module  # its dataclass looks there
    spec.loader.exec_module(module)
    return module


def counted(sizes: ModuleType, file: str, text: str) -> list[tuple[str, int, int]]:
    return [(each.name, each.lines, each.parameters) for each in sizes.functions(file, text)]


def test_functions_in_c_are_those_with_a_body(sizes: ModuleType) -> None:
    assert counted(sizes, "a.c", C) == [("short_one", 1, 0), ("long_head", 8, 3)]


def test_self_and_cls_are_no_parameters_and_keywords_are(sizes: ModuleType) -> None:
    assert counted(sizes, "a.py", PYTHON) == [
        ("Part.__init__", 4, 5), ("Part.of", 7, 1), ("Part.of.inner", 2, 0), ("Part.free", 1, 1),
    ]  # fmt: skip


def test_a_file_of_400_lines_is_too_long_wherever_it_lies_but_in_tests(sizes: ModuleType, tmp_path: Path) -> None:
    for name, lines in (("csrc/a/b.h", 400), ("feeds/b.py", 399), ("tests/c.py", 900), ("strand/page.css", 900)):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("\n" * lines)
    assert sizes.too_long(tmp_path) == ["csrc/a/b.h has 400 lines: split it along meaning"]


def test_a_function_over_a_bound_needs_a_reason_and_a_reason_needs_a_function(sizes: ModuleType) -> None:
    found = [
        sizes.Function("a.c", "at_both_bounds", 60, 8),
        sizes.Function("a.c", "too_long", 61, 1),
        sizes.Function("a.c", "with_a_reason", 1, 9),
        sizes.Function("b.py", "too_many", 1, 9),
        sizes.Function("b.py", "without_words", 1, 9),
    ]
    allowed = {
        "a.c": {"with_a_reason": "A table of the specification.", "at_both_bounds": "It was over once."},
        "b.py": {"without_words": " ", "gone": "There was one."},
    }
    told = [line.partition(" has ")[0].partition(" is ")[0] for line in sizes.disagreements(found, allowed)]
    assert told == ["a.c: too_long", "b.py: too_many", "b.py: without_words", "a.c: at_both_bounds", "b.py: gone"]


def test_each_reason_is_a_sentence_of_its_own(sizes: ModuleType) -> None:
    listed = sizes.tomllib.loads(sizes.ALLOWED.read_text("utf-8"))
    reasons = [reason for named in listed.values() for reason in named.values()]
    assert all(reason.endswith(".") and len(reason.split()) > 5 for reason in reasons)
    assert len(set(reasons)) == len(reasons)
