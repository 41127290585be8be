"""Statements of each job, counted with ``ast`` on the text as ``ruff format`` leaves it."""

import ast
from pathlib import Path


def statements(path: Path) -> dict[str, int]:
    """Statements of each public function of a file by its name: nested ones, docstrings not."""
    functions = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)]
    return {function.name: _count(function) for function in functions if not function.name.startswith("_")}


def _count(function: ast.FunctionDef) -> int:
    inner = [node for node in ast.walk(function) if isinstance(node, ast.stmt) and node is not function]
    return sum(not _is_docstring(node) for node in inner)


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
