"""Every atomic operation of the core carries a label, and docs/memory-order.md explains exactly those labels."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

pytestmark = pytest.mark.python

ROOT = Path(__file__).resolve().parents[2]
LABEL = re.compile(r"[A-Z][A-Z]?[0-9]+")
ROW = re.compile(r"^\|\s*`?([A-Z][A-Z]?[0-9]+)`?\s*\|", re.MULTILINE)
ORDERS = {"relaxed", "consume", "acquire", "release", "acq_rel", "seq_cst"}
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)


def calls(text: str) -> Iterator[tuple[str, list[str]]]:
    """Name and arguments of each call of an sd_ function or macro, nested ones too."""
    text = COMMENT.sub(" ", text)
    for match in re.finditer(r"\b(sd_\w+)\s*\(", text):
        depth, arguments = 0, [""]
        for char in text[match.end() - 1 :]:
            depth += (char == "(") - (char == ")")
            if depth == 0:
                break
            if char == "," and depth == 1:
                arguments.append("")
            elif not (char == "(" and depth == 1 and arguments == [""]):
                arguments[-1] += char
        yield match[1], [argument.strip() for argument in arguments]


def labels_used(sources: Iterable[str]) -> set[str]:
    return {args[-1] for text in sources for _, args in calls(text) if LABEL.fullmatch(args[-1])}


def orders_by_label(sources: Iterable[str]) -> dict[str, set[str]]:
    """The orders that each label's operations state."""
    found: dict[str, set[str]] = {}
    for text in sources:
        for _, args in calls(text):
            if LABEL.fullmatch(args[-1]):
                found.setdefault(args[-1], set()).update(ORDERS & set(args))
    return found


def other_orders(sources: Iterable[str], document: str) -> list[str]:
    """Orders of the code that a label's row does not state, and those its second column does and no operation has."""
    rows = {match[1]: line for line in document.splitlines() if (match := ROW.match(line))}
    wrong = []
    for label, used in sorted(orders_by_label(sources).items()):
        row = rows.get(label, "")
        stated = set(re.findall(r"\w+", row)) & ORDERS
        column = set(re.findall(r"\w+", row.split("|")[2])) & ORDERS if row else set()
        wrong += [f"{label} is {order} in csrc/, and its row does not say so" for order in sorted(used - stated)]
        wrong += [f"{label} is {order} in its row, and nowhere in csrc/" for order in sorted(column - used)]
    return wrong


def unlabelled(sources: Mapping[str, str]) -> list[str]:
    """Calls that state a memory order and no label."""
    return [
        f"{where}: {name}({', '.join(args)})"
        for where, text in sources.items()
        for name, args in calls(text)
        if ORDERS & set(args) and not LABEL.fullmatch(args[-1])
    ]


def disagreements(sources: Iterable[str], document: str) -> list[str]:
    """Differences of code and document, a line each; empty when they agree."""
    used, listed = labels_used(sources), ROW.findall(document)
    return [
        *(f"{label} is used in csrc/ and not listed" for label in sorted(used - set(listed))),
        *(f"{label} is listed and used nowhere" for label in sorted(set(listed) - used)),
        *(f"{label} is listed more than once" for label in sorted({x for x in listed if listed.count(x) > 1})),
    ]


def core_sources() -> dict[str, str]:
    return {path.relative_to(ROOT).as_posix(): path.read_text() for path in sorted((ROOT / "csrc").rglob("*.[ch]"))}


def test_every_label_of_the_core_is_in_the_document_and_the_other_way_round() -> None:
    document = ROOT / "docs" / "memory-order.md"
    assert disagreements(core_sources().values(), document.read_text() if document.exists() else "") == []


def test_every_atomic_of_the_core_that_states_an_order_states_a_label() -> None:
    assert unlabelled(core_sources()) == []


def test_the_orders_of_every_label_are_those_of_its_row() -> None:
    assert other_orders(core_sources().values(), (ROOT / "docs" / "memory-order.md").read_text()) == []


def test_the_functions_the_document_names_are_there() -> None:
    text = "\n".join(core_sources().values())
    rows = [line.split("|") for line in (ROOT / "docs" / "memory-order.md").read_text().splitlines() if ROW.match(line)]
    named = {word for row in rows for word in re.findall(r"\bsd_\w+\b(?!\.c)", row[3])}
    assert len(named) > 30
    assert [word for word in sorted(named) if not re.search(rf"\b{word}\(", text)] == []


def operations(text: str) -> list[tuple[str, str, str]]:
    """Name, order and label of each atomic operation, in the order in which they are written."""
    return [
        (name, next(iter(ORDERS & set(args)), ""), args[-1])
        for name, args in calls(text)
        if len(args) > 2 and LABEL.fullmatch(args[-1]) and ORDERS & set(args)
    ]


def body_of(function: str, text: str) -> str:
    """The text between the braces of a function."""
    text = COMMENT.sub(" ", text)
    start = re.search(rf"\b{function}\([^;{{}}]*\)\s*{{", text)
    assert start, f"there is no {function}"
    depth = 1
    for at in range(start.end(), len(text)):
        depth += (text[at] == "{") - (text[at] == "}")
        if depth == 0:
            return text[start.end() : at]
    raise AssertionError(f"{function} has no end")


def strays(models: Mapping[str, str], sources: Iterable[str]) -> list[str]:
    """Operations of the models that the core has not, with this label and this order."""
    real = {operation for text in sources for operation in operations(text)}
    return [
        f"{where}: {name}(..., {order}, {label})"
        for where, text in models.items()
        for name, order, label in operations(text)
        if (name, order, label) not in real
    ]


def test_every_label_stronger_than_relaxed_has_a_verdict() -> None:
    rows = [line.split("|") for line in (ROOT / "docs" / "memory-order.md").read_text().splitlines() if ROW.match(line)]
    verdicts = {row[1].strip(): (row[2].strip(), row[-2].strip()) for row in rows}
    assert len(verdicts) > 70
    assert [label for label, (order, verdict) in verdicts.items() if (order == "relaxed") != (verdict == "-")] == []
    told = [verdict for _, verdict in verdicts.values() if verdict != "-"]
    assert [verdict for verdict in told if not re.match(r"(caught|redundant): ", verdict)] == []


def test_the_models_use_the_labels_and_orders_of_the_core() -> None:
    models = {path.name: path.read_text() for path in sorted((ROOT / "tests" / "model").glob("*.[ch]pp"))}
    assert "numbering/watermark.c" in models["engine.hpp"]
    assert strays(models, core_sources().values()) == []


def test_the_model_of_the_benchmarks_has_the_steps_of_each_function_it_stands_for() -> None:
    model = (ROOT / "tests" / "model" / "bench.cpp").read_text()
    stands_for = {
        "route.c": ("serve", "publish_ring", "wait_for_space", "await_handled", "dismiss", "muster"),
        "latency.c": ("arrive", "work", "send_all", "play"),
    }
    labels = set()
    for file, functions in stands_for.items():
        source = (ROOT / "csrc" / "lab" / "bench" / file).read_text()
        for function in functions:
            steps = operations(body_of(function, source))
            assert operations(body_of(function, model)) == steps, function
            labels |= {label for _, _, label in steps}
    assert labels == {label for label in labels_used(core_sources().values()) if re.match("B[RL]", label)}


def test_an_order_of_a_model_that_the_core_has_not_is_reported() -> None:
    source = "void f(void) { sd_store(&s->a, 1, release, M1); }"
    assert strays({"a.cpp": source}, [source]) == []
    assert strays({"a.cpp": source.replace("release", "relaxed")}, [source]) == ["a.cpp: sd_store(..., relaxed, M1)"]
    assert operations(body_of("f", source)) == [("sd_store", "release", "M1")]


CODE = """
/* P1: pairs with W9 in sd_gone(acquire, W9). */
old = sd_fetch_add(&s->pending, (uint64_t)(k + 1), acq_rel, P2); // sd_load(&x, acquire, Z1)
if (sd_cas(&s->owner, &(uint64_t){0}, sd_word(me, sd_load(&s->epoch, relaxed, W3)),
           acquire, relaxed, W1)) return sd_other(A, b);
"""
DOCUMENT = "| label | what |\n|---|---|\n| P2 | x |\n| `W1` | x |\n| W3 | pairs with | P2 |\n"


def test_labels_are_found_in_calls_over_lines_and_inside_each_other_but_not_in_comments() -> None:
    assert labels_used([CODE]) == {"P2", "W1", "W3"}
    assert disagreements([CODE], DOCUMENT) == []


def test_an_order_that_the_row_does_not_state_is_reported() -> None:
    document = "| P2 | acq_rel | x |\n| W1 | acquire (relaxed where it fails) | x |\n| W3 | release | x |\n"
    assert other_orders([CODE], document) == [
        "W3 is relaxed in csrc/, and its row does not say so",
        "W3 is release in its row, and nowhere in csrc/",
    ]


def test_a_label_missing_from_the_document_is_reported() -> None:
    assert disagreements([CODE], DOCUMENT.replace("| P2 | x |\n", "")) == ["P2 is used in csrc/ and not listed"]
    assert disagreements([CODE], "") != []


def test_a_label_that_left_the_code_is_reported() -> None:
    assert disagreements([CODE.replace("P2)", "P3)")], DOCUMENT + "| P3 | x |\n") == ["P2 is listed and used nowhere"]


def test_a_label_listed_twice_is_reported() -> None:
    assert disagreements([CODE], DOCUMENT + "| W1 | again |\n") == ["W1 is listed more than once"]


def test_an_atomic_without_a_label_is_reported() -> None:
    assert unlabelled({"a.c": CODE}) == []
    assert unlabelled({"a.c": CODE.replace(", W3)", ")")}) == ["a.c: sd_load(&s->epoch, relaxed)"]
