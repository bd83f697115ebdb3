"""The checker of histories: it accepts a right one, and finds each way in which one can be wrong."""

from collections.abc import Mapping

import pytest

from lakebed.testing.history import Append, Outcome, Read, line_problems, problems

DONE = Append("done", 1.0, 2.0, Outcome.ACKNOWLEDGED)
LATER = Append("later", 3.0, 6.0, Outcome.ACKNOWLEDGED)
REFUSED = Append("refused", 1.0, 2.0, Outcome.REFUSED)
DIED = Append("died", 1.0)
APPENDS = (DONE, LATER, REFUSED, DIED)
END = {"done": 2, "later": 2}


@pytest.mark.parametrize("died", [{}, {"died": 2}])
def test_a_right_history(died: Mapping[str, int]) -> None:
    reads = [Read(0.0, 0.5, {}), Read(1.2, 1.9, {}), Read(2.5, 4.0, {"done": 2, **died}), Read(3.5, 5.0, {"done": 2}),
             Read(6.5, 7.0, {**END, **died})]  # fmt: skip
    assert [*problems(APPENDS, reads, {**END, **died}, 2)] == []


@pytest.mark.parametrize(
    ("reads", "end", "says"),
    [
        ([], {"later": 2}, "done was acknowledged, and the table has 0 of its 2 rows"),
        ([], {**END, "done": 4}, "done was acknowledged, and the table has 4"),
        ([], {**END, "refused": 2}, "refused was refused"),
        ([], {**END, "died": 1}, "of died, whose outcome is unknown, the table has 1 of 2"),
        ([], {**END, "died": 4}, "of died, whose outcome is unknown, the table has 4 of 2"),
        ([], {**END, "ghost": 2}, "nobody wrote ghost"),
        ([Read(2.5, 4.0, {"done": 1})], END, "sees 1 of the 2 rows of done"),
        ([Read(2.5, 4.0, {})], END, "does not see done, which was acknowledged"),
        ([Read(2.2, 2.5, {"done": 2, "later": 2})], END, "sees later, which nobody had begun"),
        ([Read(1.2, 1.5, {"died": 2})], END, "sees died, which is not there at the end"),
        (
            [Read(1.1, 1.2, {"died": 2}), Read(1.5, 1.8, {})],
            {**END, "died": 2},
            "not see what an earlier one saw: died",
        ),
        (
            [Read(1.1, 1.2, {"died": 2}), Read(1.15, 1.4, {}), Read(1.5, 1.8, {})],
            {**END, "died": 2},
            "from 1.500 to 1.800 does not see what an earlier one saw: died",
        ),
    ],
)
def test_a_wrong_one(reads: list[Read], end: Mapping[str, int], says: str) -> None:
    found = [*problems(APPENDS, reads, end, 2)]
    assert len(found) == 1 and says in found[0], found


def test_names_are_of_one_append() -> None:
    assert [*problems((DONE, DONE), [], {"done": 2}, 2)] == ["two appends have the name done"]


def test_one_line() -> None:
    assert [*line_problems([("1", None), ("2", "1"), ("3", "2")], ["a 1", "a 2"])] == []
    assert [*line_problems([("4", "9"), ("5", "4")])] == []  # the older ones expired
    (fork,) = line_problems([("1", None), ("2", "1"), ("3", "1")])
    assert fork == "snapshot 3 follows 1, and not 2, which is before it"
    assert [*line_problems([("1", None), ("1", None)])] == ["the history has snapshot 1 2 times"]
    assert [*line_problems([("1", None)], ["a 1", "a 1"])] == ["a 1 was committed 2 times"]
