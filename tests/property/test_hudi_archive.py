"""Random timelines against a small model of the rules, and random runs against the one promise: nothing is lost."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakebed.formats.hudi.archive.bounds import Bounds, check_given
from lakebed.formats.hudi.archive.evidence import Evidence
from lakebed.formats.hudi.archive.plan import plan_archival
from lakebed.formats.hudi.archive.state_files import ActiveInstant, StateInfo
from tests.tables.hudi.timelines import Lake, at, done_at

KINDS = ("commit", "commit", "commit", "replacecommit", "clean", "rollback", "savepointed", "pending", "stuck clean")


def instant(number: int, action: str, state: str = "completed") -> ActiveInstant:
    states = ("requested", "inflight", "completed")
    files = [
        StateInfo(name, action, f"{number}.{action}.{name}", 1, done_at(number) if name == "completed" else "")
        for name in states[: states.index(state) + 1]
    ]
    return ActiveInstant(at(number), action, tuple(files))


def timeline(kinds: list[str]) -> tuple[ActiveInstant, ...]:
    instants = []
    for number, kind in enumerate(kinds, 1):
        if kind == "savepointed":
            instants += [instant(number, "commit"), instant(number, "savepoint")]
        elif kind == "pending":
            instants.append(instant(number, "commit", "inflight"))
        elif kind == "stuck clean":
            instants.append(instant(number, "clean", "requested"))
        else:
            instants.append(instant(number, kind))
    return tuple(instants)


def model(kinds: list[str], layout: int, least: int, most: int, beyond: bool) -> set[tuple[int, str]]:
    """The rules in a simple form: which (number, action) are archived."""
    commits = [n for n, k in enumerate(kinds, 1) if k in ("commit", "replacecommit", "savepointed")]
    pending = [n for n, k in enumerate(kinds, 1) if k == "pending"]
    saved = [n for n, k in enumerate(kinds, 1) if k == "savepointed"]
    replacing = [n for n, k in enumerate(kinds, 1) if k == "replacecommit"]
    gone: set[tuple[int, str]] = set()
    if len(commits) > most:
        bound = len(kinds) + 1
        if pending:
            bound = min(bound, max((n for n in commits if n < pending[0]), default=pending[0]))
        if replacing:  # no clean says that its files are gone
            bound = min(bound, replacing[0])
        if saved and not beyond:
            bound = min(bound, saved[0])
        free = [n for n in commits if n < bound and not (beyond and n in saved)]
        gone = {(n, "replacecommit" if n in replacing else "commit") for n in free[: len(commits) - least]}
    newest = max((n for n, _ in gone), default=0)
    for action in ("clean", "rollback"):
        numbers = [n for n, k in enumerate(kinds, 1) if k == action]
        if layout >= 2:
            gone |= {(n, action) for n in numbers if n < newest}
        elif len(numbers) > most:
            gone |= {(n, action) for n in numbers[: len(numbers) - least]}
    return gone


@given(
    st.lists(st.sampled_from(KINDS), max_size=40),
    st.sampled_from([1, 2]),
    st.integers(1, 6),
    st.integers(1, 4),
    st.booleans(),
)
def test_a_plan_is_what_the_rules_say_and_names_each_that_stays(
    kinds: list[str], layout: int, least: int, more: int, beyond: bool
) -> None:
    options = check_given({"hoodie.archive.beyond.savepoint": beyond})
    evidence = Evidence(timeline(kinds), layout, merge_on_read=False)
    plan = plan_archival(evidence, options, Bounds(least, least + more))
    archived = {(i.time, i.action) for i in plan.archived}
    assert archived == {(at(n), action) for n, action in model(kinds, layout, least, least + more, beyond)}
    assert {(i.time, i.action) for i in plan.kept} == {(i.time, i.action) for i in evidence.instants} - archived
    commits = [i for i in evidence.instants if i.done and i.writes]
    named = {blocker.instant for blocker in plan.blockers}
    for commit in commits[: max(len(commits) - least, 0)]:
        assert (commit.time, commit.action) in archived or commit.time in named
    assert all(blocker.reason and blocker.remedy for blocker in plan.blockers)


@pytest.mark.parametrize("version", [6, 8])
@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.sampled_from(["commit", "clean", "rollback", "archive"]), st.integers(1, 4)), max_size=12))
def test_whatever_is_archived_when_each_instant_is_there_once(version: int, steps: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        lake = Lake(Path(folder), version)
        done: list[tuple[str, str]] = []
        number = 1
        for what, count in steps:
            if what == "archive":
                lake.archive(count, count + 1, hoodie__archive__merge__enable=count == 1)
                continue
            for _ in range(count):
                {"commit": lake.commit, "clean": lake.clean, "rollback": lake.rollback}[what](number)
                done.append((at(number), what))
                number += 1
        assert lake.history() == done
        lake.archive(1, 2)
        assert lake.history() == done
        assert len(lake.active("commit")) <= 2
