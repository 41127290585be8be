"""End of a command: every error is one line on standard error and an exit status, and no traceback."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Final

import click

from strand.command import starting
from strand.errors import HandlerError, StrandError

_BAD_INPUT: Final = 2
_NO_MEMORY: Final = "use fewer workers (--workers) or symbols (--symbols), or free some memory: there is not enough"

#: Of a file without a name, which is standard output.
_NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


class _Terminated(KeyboardInterrupt):
    """A request to terminate: what is under way ends as by an interrupt, and leaves nothing half done."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.exit_code = 128 + number


@contextlib.contextmanager
def _requests_to_terminate() -> Iterator[None]:
    """Raises requests to terminate, unless other handlers were set for them: nohup ignores one, listen and serve end by
    them."""

    def end(number: int, _: object) -> None:
        raise _Terminated(number)

    taken = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) is signal.SIG_DFL]
    for number in taken:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


@contextlib.contextmanager
def ended_by(end: Callable[[], object]) -> Iterator[None]:
    """Calls ``end`` on an interrupt, or a request to terminate, in the block, and does not end the command."""
    before = {number: signal.signal(number, lambda *_: end()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run_to_its_end(command: Callable[[], object]) -> None:
    """Runs the command, and ends the process with a status where it fails.

    2: bad input or options, a file or standard output that cannot be written, no memory. 130: Ctrl-C; 143: a request to
    terminate; 1: whoever read standard output is gone.
    """
    try:
        starting.done()
        with _requests_to_terminate():
            command()
        if sys.stdout is not None:  # as it is where it was closed before the start
            sys.stdout.flush()
    except click.exceptions.Exit as exit_:
        sys.exit(exit_.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(error.exit_code)
    except click.ClickException as error:
        _end(f"strand: {_refused(error)}", error.exit_code)
    except (KeyboardInterrupt, click.Abort) as error:
        request = error.__cause__ if isinstance(error, click.Abort) else error
        if isinstance(request, _Terminated):
            _end("terminated", request.exit_code)
        _end("interrupted", starting.INTERRUPTED)
    except BrokenPipeError:
        forget_standard_output()
        sys.exit(1)
    except HandlerError as error:
        _end(f"strand: {error.described(with_line=True)}")
    except StrandError as error:
        _end(f"strand: {error}")
    except MemoryError as error:
        _end(f"strand: {_NO_MEMORY}{f' ({error})' if str(error) else ''}")
    except OSError as error:
        _end(f"strand: {_explained(error)}")
    except RuntimeError as error:
        # Python says so where a thread's stack cannot be had.
        if "can't start new thread" not in str(error):
            raise
        _end(f"strand: {_NO_MEMORY} for another thread")


def _end(message: str, status: int = _BAD_INPUT) -> None:
    from strand.report.quantities import printable

    with contextlib.suppress(OSError):
        click.echo(printable(message), err=True)
    sys.exit(status)


def _refused(error: click.ClickException) -> str:
    """Error of click in one line: the option, the fault of its value, and the command for its help."""
    text = error.format_message()
    if isinstance(error, click.BadParameter) and isinstance(error.param, click.Option) and error.message:
        text = f"{max(error.param.opts, key=len)}: {error.message}"
    text = re.sub(r"\s*\n\s*", " ", text).removesuffix(".")
    context = error.ctx if isinstance(error, click.UsageError) else None
    return text if context is None else f"{text} ({context.command_path} --help)"


def _explained(error: OSError) -> str:
    """Text of an error of the system. Readers and writers of files raise FeedError instead."""
    reason = error.strerror or str(error)
    if error.filename is not None:
        return f"{error.filename}: {reason}"
    if error.errno not in _NO_SPACE:
        return reason
    forget_standard_output()
    return f"free some disk space, or send standard output elsewhere: it cannot be written ({reason})"


def forget_standard_output() -> None:
    """Drops standard output, so that Python does not try to write the rest of it when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
