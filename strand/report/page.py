"""The report's page: one HTML file that holds all it shows, and asks the network for nothing."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from strand.errors import ConfigurationError, MissingExtraError
from strand.feeds.io.atomic_write import atomic_write
from strand.feeds.io.paths import check_folder
from strand.machine import strand_version
from strand.report.canvas import matplotlib
from strand.report.contents import contents
from strand.report.palette import DARK, LIGHT, css

if TYPE_CHECKING:
    from strand.replaying.run_result import RunResult

__all__ = ["check_page_path", "page", "write_page"]

ENDINGS = (".html", ".htm")


def check_page_path(path: Path) -> None:
    """Checks the page's path before anything runs. Raises ConfigurationError for a path no page can be written to,
    MissingExtraError without the packages that make it."""
    if path.suffix not in ENDINGS:
        raise ConfigurationError(f"report: {path.name!r} must end in one of {', '.join(ENDINGS)}")
    check_folder("report", path)
    _environment()
    matplotlib()


def page(result: RunResult, *, symbols: Sequence[str] | None = None, handler: str = "", error: str = "") -> str:
    """The page as text. ``symbols``: those asked for, in order (None: those that were watched); ``handler``: its name,
    to be shown, ``error``: what ended the run early. Raises MissingExtraError without the extra ``report``."""
    environment = _environment()
    from markupsafe import Markup

    template = environment.get_template("page.html")
    text: str = template.render(
        version=strand_version(),
        light=css(LIGHT),
        dark=css(DARK),
        stylesheet=Markup(_read("page.css")),
        **contents(result, symbols, handler, error),
    )
    return text


def write_page(
    path: Path, result: RunResult, *, symbols: Sequence[str] | None = None, handler: str = "", error: str = ""
) -> None:
    """Writes the page; the file appears under its name only when it is whole."""
    text = page(result, symbols=symbols, handler=handler, error=error)
    with atomic_write(path) as file:
        file.write(text.encode())


def _read(name: str) -> str:
    return (resources.files("strand.report") / name).read_text("utf-8")


def _environment() -> Any:
    try:
        import jinja2
    except ImportError as error:
        raise MissingExtraError("a report", "jinja2", "report") from error
    return jinja2.Environment(
        loader=jinja2.FunctionLoader(_read), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=False
    )
