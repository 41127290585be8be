"""Outputs as handlers declare them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from strand.errors import ConfigurationError
from strand.handlers.emitted import LARGEST, output_dtypes

pytestmark = pytest.mark.python


def test_outputs_keep_their_order_and_their_records() -> None:
    found = output_dtypes({"late": [("x", "<i8")], "early": [("y", "<f4"), ("z", "S3")]})
    assert list(found) == ["late", "early"]
    assert found["late"] == np.dtype([("x", "<i8")])
    assert found["early"].names == ("y", "z")
    assert output_dtypes(None) == {}
    assert output_dtypes({"most": [("x", "u1", (LARGEST,))]})["most"].itemsize == 16_384


@pytest.mark.parametrize(
    ("outputs", "said"),
    [
        ({"no name": [("x", "i8")]}, "'no name' cannot be an output's name"),
        ({3: [("x", "i8")]}, "3 cannot be an output's name"),
        ({"bars": [("x", "O")]}, "outputs: 'bars': "),
        ({"bars": [("x", "i8"), ("ts", "i8")]}, "every record has a column 'ts' already"),
        ({"bars": [("x", "u1", (LARGEST + 1,))]}, "a record has 16385 bytes, and at most 16384"),
    ],
)
def test_what_cannot_be_an_output_is_refused_by_name(outputs: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        output_dtypes(outputs)
