"""Volume as columns: one huge trade, as an opening cross is, leaves the others readable, and is labelled."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.report.canvas import WIDTH, matplotlib
from strand.report.palette import Palette
from strand.report.quantities import count

__all__ = ["draw_volume", "scale_top", "step_ns", "volume_by_time"]

#: Columns of a panel at most, where times are cut into equal steps.
MAX_STEPS: Final = 60
#: Steps that a reader can count with, in seconds.
_STEPS_S: Final = (1, 5, 10, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 43_200, 86_400)
#: Columns above the scale: ``_TALL``, or one of ``_ONE_OF`` columns. The highest is more than ``_TIMES`` as high as the
#: highest of the others.
_TALL: Final = 2
_ONE_OF: Final = 50
_TIMES: Final = 2.5
#: Tall columns whose volume is written beside them: the highest ones.
_LABELLED: Final = 4


def scale_top(volumes: npt.NDArray[np.float64]) -> float:
    """Top of the scale: the highest column, or less where a few columns stand far above all others. 0: no volume."""
    found = np.sort(volumes[volumes > 0])
    if not len(found):
        return 0.0
    tall = min(max(_TALL, len(found) // _ONE_OF), (len(found) - 1) // 2)
    others = float(found[len(found) - 1 - tall])
    return float(found[-1]) if found[-1] <= _TIMES * others else 1.25 * others


def draw_volume(axis: Any, x: npt.NDArray[Any], width: float, volumes: npt.NDArray[Any], palette: Palette) -> None:
    """Draws columns at ``x`` (days, shape (n,)), so many days wide. Columns above the scale reach its end, in another
    colour, with their volume beside them. A note above the scale names what it leaves out."""
    volumes = np.nan_to_num(volumes)
    top = scale_top(volumes)
    tall = volumes > top
    span = float(np.ptp(x)) + width if len(x) else width
    points = max(1.2, 0.7 * 66 * WIDTH * width / span)
    for chosen, colour in ((~tall, palette.quiet), (tall, palette.two)):
        axis.vlines(x[chosen], 0, np.minimum(volumes[chosen], top), color=colour, linewidth=points)
    axis.set_ylim(0, top or 1)
    axis.yaxis.set_major_locator(matplotlib("ticker").MaxNLocator(2))
    axis.yaxis.set_major_formatter(lambda n, _: count(n))
    if not (n := np.count_nonzero(tall)):
        return
    highest = sorted(np.argsort(-volumes, kind="stable")[: min(n, _LABELLED)].tolist())
    for at in highest:
        to, side = (points / 2 + 2, "left") if x[at] < (x[0] + x[-1]) / 2 else (-points / 2 - 2, "right")
        axis.annotate(
            f"{volumes[at]:,.15g}", (x[at], top), xytext=(to, 2), textcoords="offset points", va="top", ha=side,
            fontsize=7, color=palette.two,
        )  # fmt: skip
    said = "labelled" if n == len(highest) else f"the highest {len(highest)} labelled"
    said = f"{n} column{'s' if n > 1 else ''} above the scale, {said}"
    axis.set_title(said, loc="right", fontsize=7, fontweight="normal", color=palette.two, pad=4)


def step_ns(feed_ns: npt.NDArray[Any]) -> int:
    """A round step of time, in ns, for volume that is known at these moments, in order: the span has ``MAX_STEPS`` at
    most, and hardly any moment is further from the one before."""
    times = feed_ns.astype(np.int64)
    least = max(
        int(times[-1] - times[0]) / MAX_STEPS, float(np.quantile(np.diff(times), 0.95)) if len(times) > 1 else 0
    )
    seconds = next((s for s in _STEPS_S if least <= s * 10**9), None)
    day = _STEPS_S[-1] * 10**9
    return seconds * 10**9 if seconds is not None else day * -int(-least // day)


def volume_by_time(
    feed_ns: npt.NDArray[Any], so_far: npt.NDArray[np.float64], step: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Volume in steps of the feed's time: their starts in ns, shape (n,), and the volume of each.

    ``feed_ns``: moments, in order, ``so_far``: the volume traded by then; where it is less than before, it began anew.
    Volume traded since the moment before counts in the step of the later moment.
    """
    more = np.diff(so_far, prepend=0.0)
    more = np.where(more < 0, so_far, more)
    steps = feed_ns.astype(np.int64) // step
    volumes = np.zeros(int(steps[-1] - steps[0]) + 1)
    np.add.at(volumes, steps - steps[0], more)
    return np.arange(steps[0], steps[-1] + 1) * step, volumes
