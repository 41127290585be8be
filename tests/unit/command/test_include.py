"""strand include."""

from __future__ import annotations

import json

import pytest
from command_here import run_here

from strand import get_include

pytestmark = pytest.mark.python


def test_the_folder_of_the_headers_is_printed_as_text_and_as_json() -> None:
    assert run_here("include").stdout.strip() == get_include()
    assert json.loads(run_here("include", "--json").stdout) == {"include": get_include()}
