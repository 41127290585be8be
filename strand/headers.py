"""Folder of the C headers for handlers that users compile."""

from __future__ import annotations

from pathlib import Path
from typing import Final

__all__ = ["HEADERS", "get_include"]

#: Installed headers: the handler's contract, the tick, result codes, and the row of order books for chains.
HEADERS: Final = (
    "sd_handler.h", "sd_task.h", "sd_tick.h", "sd_error.h", "handlers/book.h", "handlers/book_questions.h",
    "handlers/book_row.h", "handlers/trade.h",
)  # fmt: skip


def get_include() -> str:
    """The path of the folder with ``sd_handler.h``, for the compiler's ``-I``."""
    here = Path(__file__).resolve().parent
    installed = here / "include"
    # In a checkout they are where they are written.
    return str(installed if installed.is_dir() else here.parent / "csrc")
