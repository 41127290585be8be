"""Configuration files as they are: TOML or YAML, a value for each key."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from strand.errors import ConfigurationError, MissingExtraError
from strand.feeds.io.files import small_text

__all__ = ["Key", "format_of", "read_file"]

#: Key of a value: ``("worker_pool", "max_workers")``, ``("priorities", "symbols", "AAPL")``.
Key = tuple[str, ...]


def read_file(path: str | os.PathLike[str]) -> Mapping[Any, Any]:
    """The tables of a file; its ending says whether it is TOML or YAML.

    Raises ConfigurationError for a file that cannot be read or is neither, and MissingExtraError for YAML without the
    extra ``config``.
    """
    parse = _PARSERS[format_of(path)]
    text = small_text(Path(path), "config")
    try:
        tables = parse(text)
    except (tomllib.TOMLDecodeError, _NoYamlError, RecursionError) as error:
        reason = "tables are nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise ConfigurationError(f"{path}: is not valid {format_of(path).upper()}: {reason}") from None
    if tables is None:
        return {}
    if not isinstance(tables, Mapping):
        raise ConfigurationError(f"{path}: has a {type(tables).__name__}: give tables of keys, such as worker_pool")
    return tables


def format_of(path: str | os.PathLike[str]) -> str:
    """``"toml"`` or ``"yaml"``, by the ending of a file's name. Raises ConfigurationError for another one."""
    ending = Path(path).suffix
    if ending not in _FORMATS:
        raise ConfigurationError(f"{path}: the name of a configuration file ends in one of {', '.join(_FORMATS)}")
    return _FORMATS[ending]


class _NoYamlError(Exception):
    """Text that is no YAML, or in which a key stands twice."""


def _read_yaml(text: str) -> Any:
    try:
        import yaml
    except ImportError:
        raise MissingExtraError("a configuration in YAML", "PyYAML", "config") from None

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        """Refuses a key that stands twice, of which PyYAML would keep the last."""

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            keys = [key for key, _ in node.value] if isinstance(node, yaml.MappingNode) else []
            seen: set[str] = set()
            for key in keys:
                if isinstance(key, yaml.ScalarNode) and key.value in seen:
                    raise _NoYamlError(f"{key.value!r} is twice in a table, in line {key.start_mark.line + 1}")
                seen.update([key.value] if isinstance(key, yaml.ScalarNode) else [])
            return super().construct_mapping(node, deep=deep)

    try:
        return yaml.load(text, Loader)
    except (yaml.YAMLError, ValueError) as error:
        raise _NoYamlError(re.sub(r"\s*\n\s*", " ", str(error))) from None


_PARSERS: Final[Mapping[str, Callable[[str], Any]]] = {"toml": tomllib.loads, "yaml": _read_yaml}
_FORMATS: Final = {".toml": "toml", ".yaml": "yaml", ".yml": "yaml"}
