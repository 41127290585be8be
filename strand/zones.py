"""Time zones by name, from the newer of the system's database and that of the package tzdata."""

from __future__ import annotations

import datetime as dt
import functools
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from strand.errors import ConfigurationError

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo


class ZoneData(NamedTuple):
    """The database that zones come from.

    Attributes:
        version: The release of the IANA database, such as ``"2026a"``; None if the system does not say it.
        owner: ``"the system"`` or ``"the package tzdata"``.
    """

    version: str | None
    owner: str

    def __str__(self) -> str:
        return f"{self.version or 'version unknown'}, of {self.owner}"


def _version_in(folder: Path) -> str | None:
    """The release that a folder of zones says, in either of the two files that systems have for it."""
    for name in ("tzdata.zi", "+VERSION"):
        try:
            with (folder / name).open(encoding="ascii") as file:
                found = re.fullmatch(r"(?:# version )?(\d{4}[a-z]+)\s*", file.readline(80))
        except (OSError, UnicodeDecodeError):
            continue
        if found is not None:
            return found[1]
    return None


def _package() -> Any:
    try:
        import tzdata  # type: ignore[import-untyped]
    except ImportError:
        return None
    return tzdata


@functools.cache
def zone_data() -> ZoneData:
    """The newer of the two databases. The package's, where the system does not say how old its own is."""
    from zoneinfo import TZPATH

    folder = next((Path(path) for path in TZPATH if (Path(path) / "UTC").exists()), None)
    system = None if folder is None else _version_in(folder)
    package = getattr(_package(), "IANA_VERSION", None)
    if package is not None and (folder is None or system is None or package > system):
        return ZoneData(package, "the package tzdata")
    return ZoneData(system, "the system")


@functools.cache
def zone_named(name: str) -> ZoneInfo:
    """The zone of that name, from ``zone_data()``; from the other database if that one lacks it.

    Raises:
        zoneinfo.ZoneInfoNotFoundError: If neither has it; it is a KeyError.
        ValueError: If the name is not one that a zone can have.
    """
    from zoneinfo import ZoneInfo

    found = ZoneInfo(name)  # which knows what a name may be, and the zones of a system
    if zone_data().owner == "the system":
        return found
    try:
        # importlib.resources would find it too, and imports zipfile and random, which no run needs otherwise.
        with Path(_package().__file__).with_name("zoneinfo").joinpath(*name.split("/")).open("rb") as file:
            return ZoneInfo.from_file(file, key=name)
    except (OSError, ValueError):
        return found


def checked_zone(where: str, zone: str) -> str:
    """A time zone's name. Raises ConfigurationError where nobody knows it."""
    try:
        zone_named(zone)
    except (KeyError, TypeError, AttributeError, ValueError, OSError):
        raise ConfigurationError(
            where, f"{zone!r} is not a time zone that this system knows: give one like America/New_York"
        ) from None
    return zone


class FeedClock(NamedTuple):
    """The zone that times are shown in, and what it is called."""

    zone: dt.tzinfo
    name: str

    def moment(self, ns: int) -> str:
        """A time in ns since 1970-01-01 UTC, as 2026-01-05 09:30:00.123 on these clocks."""
        second, rest = divmod(ns, 10**9)
        return f"{dt.datetime.fromtimestamp(second, self.zone):%Y-%m-%d %H:%M:%S}.{rest // 10**6:03}"


UTC_CLOCK: Final = FeedClock(dt.UTC, "UTC")


def clock_of(zone: str | None, *, undated: bool = False) -> FeedClock:
    """The clock of ``FeedInfo.zone`` and ``FeedInfo.undated``: that of the market; UTC where nobody knows its zone, or
    this system does not."""
    if undated:
        return FeedClock(dt.timezone(dt.timedelta(0), "undated"), f"{zone or 'the market'}, date unknown")
    try:
        return UTC_CLOCK if zone is None else FeedClock(zone_named(zone), zone)
    except (ValueError, OSError, KeyError):  # a file may name any
        return UTC_CLOCK
