"""Options that readers share: the error names an option of a wrong type and says what is wrong with it."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest
from feed_samples import SAMPLES, Sample

from strand import feeds
from strand.errors import ConfigurationError
from strand.feeds.formats.registry import format_named
from strand.feeds.mapping.options import check_options

pytestmark = pytest.mark.python


def _one_each() -> list[Sample]:
    """A sample of each format."""
    return list({sample.format: sample for sample in SAMPLES if sample.available}.values())


@pytest.mark.parametrize("sample", _one_each(), ids=lambda sample: sample.format)
def test_an_option_of_a_wrong_type_is_refused_by_name(sample: Sample, tmp_path: Path) -> None:
    path = sample.build(tmp_path)
    reader = format_named(sample.format).feed_class()
    with_option = [
        name
        for name, parameter in inspect.signature(reader).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and name not in ("select", "symbols")
    ]
    assert "batch_ticks" in with_option
    for name in with_option:
        for wrong in (object(), 5.5, [5.5], b"5"):
            with pytest.raises(ConfigurationError, match=rf"^{name}(\[\d+\])?: "):
                reader(path, **{name: wrong})
            with pytest.raises(ConfigurationError, match=rf"^{name}(\[\d+\])?: "):
                feeds.open(path, format=None if name == "profile" else sample.format, **{name: wrong})
    for wrong in (5, [5]):
        with pytest.raises(ConfigurationError, match=r"^symbols: "):
            feeds.open(path, format=sample.format, symbols=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"columns": 5}, "columns: give a table, not 5"),
        ({"columns": [1]}, r"columns: give a table, not \[1\]"),
        ({"columns": {5: "price"}}, "columns: give names that are text, not 5"),
        ({"time_zone": 5}, "time_zone: give text, not 5"),
        ({"nulls": 1}, "nulls: give 'raise' or 'undefined', not 1"),
        ({"time_unit": "h"}, "time_unit: give 's' or 'ms' or 'us' or 'ns', not 'h'"),
    ],
)
def test_what_is_wrong_with_an_option_is_said_in_words(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{words}$"):
        check_options(**options)
