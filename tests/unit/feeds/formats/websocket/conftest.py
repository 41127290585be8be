"""What tests of recordings share."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from websocket_recordings import HEADER, recorded

from strand.feeds.formats.json.profile import read_profile
from strand.feeds.formats.websocket import Header


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """Five messages of one tick each; the third has a line's end in it. Short: every byte of it is damaged."""
    profile = read_profile({"message": [{"symbol": "s", "fields": {"sequence": "n"}}]})
    texts = [json.dumps({"s": f"S{n % 2}", "n": n}, indent=1 if n == 2 else None) for n in range(5)]
    return recorded(tmp_path / "whole.ws", *texts, header=Header(profile, HEADER.url, "raise", (), 16, 1 << 16))
