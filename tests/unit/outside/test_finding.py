"""Finding the dispatchers of a process."""

from __future__ import annotations

import os

import pytest

import strand
from strand import Dispatcher
from strand.errors import AttachError, ConfigurationError


def test_who_may_not_be_looked_at_is_refused_with_the_reason() -> None:
    with pytest.raises(AttachError, match="there is no process 4194303"):
        strand.attach(4_194_303)
    with pytest.raises(AttachError, match="'me' is not the id of a process"):
        strand.attach("me")  # type: ignore[arg-type]
    with (
        Dispatcher(4, "count", workers=1, cores=None),
        pytest.raises(AttachError, match="it has no running dispatcher with attachable=True"),
    ):
        strand.attach(os.getpid())
    with (
        Dispatcher(4, "count", workers=1, cores=None, attachable=True, name="a"),
        Dispatcher(4, "count", workers=1, cores=None, attachable=True, name="b"),
    ):
        assert strand.attach(os.getpid(), name="b").description.name == "b"
        with pytest.raises(AttachError, match="has 2 dispatchers, 'a', 'b': give the name of one"):
            strand.attach(os.getpid())
        with pytest.raises(AttachError, match="no dispatcher has the name 'c'; it has 'a', 'b'"):
            strand.attach(os.getpid(), name="c")
    with (
        Dispatcher(4, "count", workers=1, cores=None, attachable=True),
        pytest.raises(AttachError, match=r"no dispatcher has the name 'c'; it has one without a name$"),
    ):
        strand.attach(os.getpid(), name="c")
    with pytest.raises(ConfigurationError, match="name: 3 is not text"):
        Dispatcher(4, "count", attachable=True, name=3)  # type: ignore[arg-type]
