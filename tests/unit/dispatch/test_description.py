"""What a dispatcher says of itself to whoever attaches."""

from __future__ import annotations

import json

import pytest

from strand.dispatch.statistics import Description
from strand.errors import AttachError

pytestmark = pytest.mark.python


GOOD = {
    "name": "mine",
    "version": "0.1.0",
    "pid": 5,
    "made_at": 1.5,
    "configuration": {"n_workers": 2},
    "handlers": [{"name": "h", "row": [], "size_unit": None, "books": None, "of_levels": False}],
    "outputs": ["bars"],
}


@pytest.mark.parametrize("lacking", sorted(GOOD))
def test_a_text_without_one_of_its_parts_is_damaged(lacking: str) -> None:
    about = {name: value for name, value in GOOD.items() if name != lacking}
    with pytest.raises(AttachError, match="it is damaged"):
        Description.of(json.dumps(about).encode())


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"null", b"\xff", b'{"handlers": 3}'])
def test_what_is_no_such_text_is_damaged(text: bytes) -> None:
    with pytest.raises(AttachError, match="it is damaged"):
        Description.of(text)
