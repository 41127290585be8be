"""What a thread that runs tasks alone does with its place, and when it leaves it."""

from __future__ import annotations

from typing import Any

from strand.binding.tasks import RESUME, TASK
from strand.tasks.places import Place, TasksAlone

STOP = -1


class Batches:
    """Gives what is to come behind the tasks that ``take`` gives."""

    def __init__(self, *comes: tuple[int, int]) -> None:
        self.comes = list(comes)
        self.what = self.task = 0

    def more(self) -> None:
        self.what, self.task = self.comes.pop(0)

    @property
    def tag(self) -> int:
        return self.task


class Seat:
    place: Place | None = None
    is_cut = False

    def live(self) -> None:
        raise AssertionError("this is a thread's")


def place_of(tags: list[int], *comes: tuple[int, int]) -> Any:
    place: Any = Place.__new__(Place)
    place.batches = Batches(*comes)
    place.take = lambda: tags.pop(0) if tags else 0
    return place


def test_it_runs_tasks_until_something_else_is_in_hand() -> None:
    ran: list[int] = []
    seat = Seat()
    work = TasksAlone(ran.append)
    for last in (RESUME, STOP):
        seat.place = place_of([1, 2], (TASK, 3), (last, 0))
        assert work.serve(seat, seat.place) == last
        assert ran == [1, 2, 3]
        ran.clear()


def test_it_leaves_a_place_that_is_another_threads_behind_a_task() -> None:
    """The task that ended is in the hand of the new place."""
    ran: list[int] = []
    seat, other = Seat(), place_of([])

    def run(tag: int) -> None:
        ran.append(tag)
        seat.place = other if tag < 5 else None

    work = TasksAlone(run)
    for first, place in ((1, place_of([1, 2])), (3, place_of([], (TASK, 3))), (5, place_of([5, 6]))):
        seat.place = place
        assert work.serve(seat, place) == TASK
        assert ran.pop() == first
        assert seat.place is (other if first < 5 else None)
