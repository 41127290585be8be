"""The only package that touches ``lib``: one module here for each C module, thin and typed."""

from __future__ import annotations

from strand._core import ffi, lib

__all__ = ["ffi", "lib"]
