"""What a terminal would act on and not show is shown as its code."""

from __future__ import annotations

import pytest

from strand.report.quantities import printable

pytestmark = pytest.mark.python


def test_what_is_not_to_be_seen_is_its_escape_and_all_else_stays() -> None:
    assert printable("A\x1b[2J\x9b\u202eB\nnext") == "A\\x1b[2J\\x9b\\u202eB\nnext"
    assert printable("é 中 [x]\\") == "é 中 [x]\\"
    assert printable("\udc80\0\r") == r"\udc80\x00\r"
