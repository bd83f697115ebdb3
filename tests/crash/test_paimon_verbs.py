"""What commits or deletes in a Paimon table dies at changes of its store from the first to the last, and dies again
while it is done anew; and another writer or an expiry comes between its plan and its commit, and it between theirs. At
each moment the table has its old rows or the new ones, and the last run ends as the first would have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import lakebed
from lakebed.kernel.files import open_store
from tests.crash.harness import Make, Meeting, copies, two_deaths
from tests.crash.paimon_verbs import SCHEMA, VERBS, commit, create, expire_all, tidied


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Make]:
    """Fresh copies of the table of a verb."""
    made: dict[str, Make] = {}

    def of(name: str) -> Make:
        if name not in made:
            verb, folder = VERBS[name], tmp_path_factory.mktemp("tables")
            original = folder / "original"
            original.mkdir()
            if verb.act is not create:
                lakebed.create(original, "paimon", SCHEMA, verb.key, ["p"], verb.options)
                commit(open_store(original), 1)
                verb.prepare(open_store(original))
            made[name] = copies(original, folder)
        return made[name]

    return of


@pytest.mark.parametrize("name", VERBS)
def test_two_deaths_and_a_third_run(make: Callable[[str], Make], name: str) -> None:
    verb, whole = VERBS[name], make(name)()
    states = [verb.look(whole), *verb.between(whole)]
    verb.act(whole)
    new, end = verb.look(whole), same(verb.end(whole))
    states.append(new)
    left = tidied(whole)
    for moment in two_deaths(verb.again, make(name), 3):
        seen = verb.look(moment.store)
        assert seen in states, moment.where
        if moment.ended:
            assert (seen, same(verb.end(moment.store))) == (new, end), moment.where
            assert tidied(moment.store) <= left, f"{moment.where}: it left files behind"
            assert verb.look(moment.store) == new, f"{moment.where}: the removal of orphans took what is needed"


def same(state: Any) -> Any:
    """Names of files without what is new in each run."""
    return len(state) if isinstance(state, set) else state


PAIRS = [(name, other) for name, verb in VERBS.items() for other in ("rival", "expiry") if getattr(verb, other)]


@pytest.mark.parametrize(("name", "other"), PAIRS)
def test_who_comes_between_plan_and_commit(make: Callable[[str], Make], name: str, other: str) -> None:
    verb, copy = VERBS[name], make(name)
    act = getattr(verb, other)
    between = Meeting(copy, verb.act, act, verb.seen, partly=verb.partly)
    around = Meeting(copy, act if other == "rival" else expire_all, verb.act, verb.seen, like=between)
    assert between.moments and (around.moments or around.refused_alone)
    for meeting, moments in ((between, between.moments), (around, around.moments[-1:])):
        for moment in moments:
            store, refused = meeting.at(moment)
            assert other in verb.refused or refused == [None, None]
        seen = verb.seen(store)
        tidied(store)
        assert verb.seen(store) == seen, "the removal of orphans took what is needed"
