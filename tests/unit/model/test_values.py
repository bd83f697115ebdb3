"""The values that travel: small, frozen, picklable; and errors that keep their fields on the way."""

import dataclasses
import pickle

import pytest

from lakebed import errors
from lakebed.model.commit import CommitMessage, CommitResult, Outcome
from lakebed.model.instant import Instant
from lakebed.model.rowkind import SHORT_NAMES, RowKind
from lakebed.model.split import Split
from lakebed.model.upkeep import ArchiveResult, Blocker, ExpireResult, RewriteResult, Skipped

VALUES = [
    CommitMessage(),
    CommitResult("7", Outcome.COMMITTED, ("a note",)),
    Instant("1", "2024-01-01T00:00:00+00:00", "append", "completed", summary={"user": "x"}),
    Split("a/0", 10),
    Skipped("a", "b"),
    RewriteResult(2, 1, 20, 10, 1),
    ExpireResult(("1",), ("a",)),
    Blocker("1", "why", "what"),
    ArchiveResult(("1",), (), ()),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_values_are_frozen_and_travel(value: object) -> None:
    assert pickle.loads(pickle.dumps(value)) == value
    assert not hasattr(value, "__dict__")
    for field in dataclasses.fields(value):  # type: ignore[arg-type]
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, field.name, None)


def test_a_snapshot_id_is_the_number_of_an_instant() -> None:
    assert CommitResult("7", Outcome.COMMITTED).snapshot_id == 7
    assert CommitResult("", Outcome.SKIPPED).snapshot_id is None


def test_row_kinds() -> None:
    assert [kind.short for kind in RowKind] == list(SHORT_NAMES) == ["+I", "-U", "+U", "-D"]
    assert [int(kind) for kind in RowKind] == [0, 1, 2, 3]


ERRORS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.LakebedError)]


@pytest.mark.parametrize("kind", ERRORS)
def test_errors_travel_with_their_fields(kind: type[errors.LakebedError]) -> None:
    special = {errors.OptionError: {"key": "k"}, errors.PipelineFileError: {"key": "k"}}.get(kind, {})
    error = kind("it broke", table="/t", instant="7", file="f", why="because", todo="Do this", **special)
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind and vars(copy) == vars(error) and str(copy) == str(error)
    assert str(error) == "it broke [table /t, instant 7, file f]: because. Do this"
    assert error.exit_code == (2 if issubclass(kind, errors.UsageError) else 1)


def test_every_error_stands_in_the_drawing_of_the_tree() -> None:
    assert errors.__doc__
    assert all(kind.__name__ in errors.__doc__ for kind in ERRORS)
