"""The options of what makes one feed of several."""

# Not with annotations as text: the declarations of options stand in types.

from typing import Annotated, TypedDict

from strand.feeds.merge.streams import MERGED_TICKS
from strand.options import Choice, Whole

ON_DISORDER = Choice(("raise", "keep", "skip"))


class Merging(TypedDict, total=False):
    """Options of files that are merged as they are opened, too."""

    reorder_ns: Annotated[
        int,
        0,
        Whole(metavar="NS"),
        "How far a tick may be behind the latest of its file to be put in order, in ns.\nSuch ticks are counted.",
    ]
    venue_in_name: Annotated[
        bool,
        False,
        "Name the symbols ``NAME.VENUE``.\nThe same name at two venues is then two symbols. Without it a name is one "
        "symbol wherever it comes from. Indices without a name are one symbol if they are equal.",
    ]
    carry_over: Annotated[
        bool,
        False,
        "Begin no new day: the next file continues with the state of the one before (docs/feeds/days.md).\nSo there "
        "are no clear records, and no name rolls from file to file.",
    ]


class MergeOptions(Merging, total=False):
    """Options of ``merge_feeds``."""

    on_disorder: Annotated[
        str,
        "raise",
        ON_DISORDER,
        "At a tick further behind, ``\"raise\"`` DisorderError with the feed's path and the tick's position, "
        '``"keep"`` it right behind the tick before it, with its own time, or ``"skip"`` it.\nBoth are counted.',
    ]
    new_day: Annotated[
        str | None,
        None,
        '``"file"``: a file that begins when others have ended is a new day, whatever its format. None: only files of '
        "venues that close (ITCH, PITCH, LOBSTER, DBN) begin a new day, if their dates differ.\nA new day starts with "
        "a clear record for each symbol of the day before (docs/feeds/days.md).",
    ]
    batch_ticks: Annotated[int, MERGED_TICKS, Whole(1), "Ticks in a full batch."]
    max_symbols: Annotated[
        int | None,
        None,
        Whole(1),
        "The greatest number of symbols of all feeds together. None: as many as the complete symbol tables have, and "
        "the ``max_symbols`` of feeds whose tables grow while read.\nThe latter count up to 131,072 in all, or up to "
        "the largest of them.",
    ]
