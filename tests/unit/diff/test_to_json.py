"""Values as JSON has them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from strand.diff.runs import to_json

pytestmark = pytest.mark.python


def test_each_kind_of_field_becomes_what_json_has() -> None:
    row = np.zeros(1, [("n", "<u8"), ("side", "S1"), ("name", "U3"), ("top", "<i8", (2,)), ("deep", [("x", "<f4")])])[0]
    row["n"], row["side"], row["name"], row["top"], row["deep"] = 2**63, b"\xe9", "abc", (1, 2), (0.5,)
    found = {name: to_json(row[name]) for name in row.dtype.names}
    assert found == {"n": 2**63, "side": "\xe9", "name": "abc", "top": [1, 2], "deep": [0.5]}
    assert json.loads(json.dumps(found)) == found
