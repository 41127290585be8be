"""Where Python handlers run in a dispatcher: nothing there outlives it."""

from __future__ import annotations

from typing import Any

import pytest
from let_go import FAILING, HANDLERS, kept_by

from strand import Dispatcher


@pytest.mark.parametrize("handler", HANDLERS.values(), ids=HANDLERS)
def test_a_dispatcher_goes_with_the_last_reference_to_it(handler: Any) -> None:
    assert kept_by([Dispatcher(2, handler, workers=2, cores=None)]) == []


@pytest.mark.parametrize("on_error", ["stop", "quarantine"])
@pytest.mark.parametrize("handler", FAILING.values(), ids=FAILING)
def test_so_does_one_whose_handler_has_failed(handler: Any, on_error: str) -> None:
    assert kept_by([Dispatcher(2, handler, workers=2, cores=None, on_error=on_error)]) == []
