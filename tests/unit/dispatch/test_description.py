"""What a dispatcher says of itself to whoever attaches."""

from __future__ import annotations

import json
import os

import pytest

from strand import Dispatcher
from strand.dispatch.statistics import Description
from strand.errors import AttachError
from strand.outside.attached import view_of

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


def test_a_dispatcher_says_what_it_was_made_with() -> None:
    with Dispatcher(["A", "B"], "book", workers=1, cores=None, attachable=True, name="mine"):
        about = view_of(os.getpid(), "mine")[1]
    assert (about.name, about.pid) == ("mine", os.getpid())
    (handler,) = about.handlers
    assert handler.name == "book"
    assert "bid_price" in (handler.row.names or ())
    assert handler.books is not None
    assert not handler.of_levels
    assert about.configuration["n_workers"] == 1


@pytest.mark.parametrize("lacking", sorted(GOOD))
def test_a_text_without_one_of_its_parts_is_damaged(lacking: str) -> None:
    about = {name: value for name, value in GOOD.items() if name != lacking}
    with pytest.raises(AttachError, match="it is damaged"):
        Description.of(json.dumps(about).encode())


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"null", b"\xff", b'{"handlers": 3}'])
def test_what_is_no_such_text_is_damaged(text: bytes) -> None:
    with pytest.raises(AttachError, match="it is damaged"):
        Description.of(text)
