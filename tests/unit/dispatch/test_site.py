"""Where Python handlers run in a dispatcher: it holds none of them."""

from __future__ import annotations

from typing import Any

import pytest
from let_go import HANDLERS, kept_by

from strand import Dispatcher


@pytest.mark.parametrize("handler", HANDLERS.values(), ids=HANDLERS)
def test_a_dispatcher_goes_with_the_last_reference_to_it(handler: Any) -> None:
    assert kept_by([Dispatcher(2, handler, workers=2, cores=None)]) == []
