"""The memory that a dispatcher shares (csrc/memory/space.h)."""

from __future__ import annotations

from typing import Any, Final

from strand.binding import CORE, Core
from strand.binding.gate import checked
from strand.binding.memory import owned

__all__ = ["Space"]


class Space:
    """Addresses for all that a dispatcher and its handlers keep, and memory where they ask for it.

    ``attachable``: another process may look at it. ``more``: bytes of addresses beside the usual ones. ``core``: the
    module in C whose engine and handlers use it.
    Raises MemoryError where the process may not have so many addresses.
    """

    def __init__(self, *, attachable: bool = False, more: int = 0, core: Core = CORE) -> None:
        self._ffi, self._lib = core
        lib = self._lib
        out = core.ffi.new("sd_space **")
        checked(
            lib.sd_space_create(attachable, more, out),
            f"the process may not reserve {(lib.SD_SPACE_BYTES + more) / 2**30:,.0f} GiB of addresses: see ulimit -v",
            MemoryError,
        )
        self.pointer: Final[Any] = owned(out[0], lib.sd_space_destroy)

    def offset_of(self, pointer: Any) -> int:
        """Where something that lies in it does, from its start."""
        base = self._lib.sd_space_base(self.pointer)
        return self._address(pointer) - self._address(base)

    def _address(self, pointer: Any) -> int:
        return int(self._ffi.cast("uintptr_t", pointer))

    @property
    def fd(self) -> int:
        """The descriptor of the file that it lies over, which is the space's own; -1: it is private."""
        return int(self.pointer.fd)

    @property
    def bytes(self) -> int:
        """What has been asked for; pages never touched take no memory, unless it is attachable."""
        return int(self._lib.sd_space_bytes(self.pointer))
