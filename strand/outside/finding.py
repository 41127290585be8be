"""Finding the memory of a dispatcher: a file without a name, by its descriptor here or in /proc/PID/fd."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

from strand.binding.outside import NotRunningError, OutsideView
from strand.dispatch.description import Description
from strand.errors import AttachError

__all__ = ["view_at", "view_of"]

#: Text of such files' links.
_LINK: Final = "/memfd:strand (deleted)"


def view_of(target: int, name: str | None) -> tuple[OutsideView, Description]:
    """The dispatcher of a process, by its id; where it has several, that with a name. Raises AttachError."""
    found = _views(target)
    chosen = [(view, about) for view, about in found if name in (None, about.name)]
    names = ", ".join(repr(about.name) if about.name else "one without a name" for _, about in found)
    if not chosen:
        raise AttachError(f"process {target}: no dispatcher has the name {name!r}; it has {names}")
    if len(chosen) > 1:
        raise AttachError(f"process {target} has {len(chosen)} dispatchers, {names}: give the name of one")
    return chosen[0]


def view_at(fd: int) -> tuple[OutsideView, Description]:
    """The dispatcher whose memory an open file is. Raises AttachError."""
    try:
        return _view(fd)
    except AttachError as error:
        raise AttachError(f"descriptor {fd}: {error}") from None


def _view(fd: int) -> tuple[OutsideView, Description]:
    view = OutsideView(fd)
    return view, Description.of(view.description)


def _refused(error: PermissionError) -> str:
    """Error text for a refusal that the system does not explain: the known facts, and possible causes."""
    assert error.errno is not None
    return (
        f"this process may not look at it: the system refuses ({errno.errorcode[error.errno]}). It may be another "
        "user's, have rights that this process lacks, or forbid it (prctl PR_SET_DUMPABLE)"
    )


def _views(pid: int) -> list[tuple[OutsideView, Description]]:
    folder = Path("/proc") / str(pid) / "fd"
    try:
        files = sorted(folder.iterdir(), key=lambda path: int(path.name))
    except FileNotFoundError:
        raise AttachError(f"there is no process {pid}") from None
    except PermissionError as error:
        raise AttachError(f"process {pid}: {_refused(error)}") from None
    found: list[tuple[OutsideView, Description]] = []
    refused: list[AttachError] = []
    seen: set[int] = set()  # a process may have several descriptors of one file
    for path in files:
        try:
            if path.readlink() != Path(_LINK) or (file := path.stat().st_ino) in seen:
                continue
            seen.add(file)
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except PermissionError as error:
            refused.append(AttachError(_refused(error)))
            continue
        except OSError:
            continue  # it was closed meanwhile
        try:
            found.append(_view(fd))
        except NotRunningError:
            continue
        except AttachError as error:
            refused.append(error)
        finally:
            os.close(fd)
    if not found:
        why = str(refused[0]) if refused else "it has no running dispatcher with attachable=True"
        raise AttachError(f"process {pid}: {why}")
    return found
