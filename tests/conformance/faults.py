"""Writes the table of verbs and faults into docs/guarantees.md, as honest as the tests that pytest collects.

    python -m tests.conformance.faults            writes it
    python -m tests.conformance.faults --check    fails when the document holds another one

A cell is "yes" when every test that it names is collected and none of them is marked to be skipped or to fail.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.conformance.grid import collected_of, proved

DOCUMENT = Path(__file__).parents[2] / "docs" / "guarantees.md"
BEGIN, END = "<!-- faults:begin -->", "<!-- faults:end -->"
FAULTS = ("killed or failing at each change", "killed twice", "beside another writer", "beside an expiry")
CRASH = "tests/crash/test_"
TWICE = f"{CRASH}paimon_verbs.py::test_two_deaths_and_a_third_run["
APPENDED, PAIMON = f"{CRASH}paimon_append_compaction.py::", f"{CRASH}paimon_compaction.py::"
COMMIT, BRANCHES, TAGS = f"{CRASH}paimon_commit.py::", f"{CRASH}paimon_branches.py::", f"{CRASH}paimon_tags.py::"
REFS, ICEBERG = f"{CRASH}iceberg_refs.py::", f"{CRASH}iceberg_commit.py::"
REFS2 = f"{REFS}test_two_deaths_and_a_third_run["
EACH = "test_every_failure_leaves_the_old_or_the_new"
RIVAL, GONE = f"{REFS}test_a_commit_of_another_writer_comes_first", f"{REFS}test_what_it_needs_is_deleted_and_expires"
REWRITTEN = f"{CRASH}iceberg_rewrite.py::"
VERBS = f"{CRASH}iceberg_verbs.py::"
DEATHS, BETWEEN = f"{VERBS}test_two_deaths_and_a_third_run[", f"{VERBS}test_who_comes_between_plan_and_commit["
HUDI = f"{CRASH}hudi_second_writer.py::test_both_are_there_or_one_is_refused"
HUDI_TWICE = f"{CRASH}hudi_verbs.py::test_two_deaths_and_a_third_run["
SERVED = f"{CRASH}hudi_services.py::"
ABORTS = f"{CRASH}aborts.py::"
SERVICES = f"{CRASH}iceberg_services.py::"
CREATED = f"{SERVICES}test_a_creation_dies_twice_and_meets_another_one"


def between(verb: str) -> Sequence[str]:
    """The tests of an Iceberg verb where a writer steps in, and one that expires what the verb has planned on."""
    return f"{BETWEEN}{verb}-another writer]", f"{BETWEEN}{verb}-an expiry]"


def met(verb: str) -> tuple[Sequence[str], ...]:
    """The tests of a Paimon verb that is killed twice, or meets another writer or an expiry, in either order."""
    met = f"{CRASH}paimon_verbs.py::test_who_comes_between_plan_and_commit[{verb}"
    return (f"{TWICE}{verb}]",), (f"{met}-rival]",), (f"{met}-expiry]",)


def served(verb: str) -> tuple[Sequence[str], ...]:
    """The tests of a Hudi verb that is killed twice, or meets another writer or a clean with an archival, in either
    order."""
    met = f"{CRASH}hudi_verbs.py::test_who_comes_between_plan_and_commit[{verb}"
    return (f"{HUDI_TWICE}{verb}]",), (f"{met}-rival]", HUDI), (f"{met}-expiry]",)


def stepped_in(verb: str) -> tuple[Sequence[str], ...]:
    """The tests of an Iceberg service that is killed twice, or meets another writer or an expiry, in either order."""
    met = f"{SERVICES}test_who_steps_in_at_any_call[{verb}"
    met_writer = (f"{met}-another writer]", f"{met}-a twin]")
    return (f"{SERVICES}test_two_deaths_and_a_third_run[{verb}]",), met_writer, (f"{met}-an expiry]",)


def aborted(format: str) -> Cells:
    """The tests of an abort of prepared messages."""
    twice, met = f"{ABORTS}test_two_deaths_and_a_third_run[{format}]", f"{ABORTS}test_who_steps_in_at_any_call[{format}"
    died = f"{ABORTS}test_the_commit_died_at_any_change[{format}]"
    return (twice, died), (twice,), (f"{met}-another writer]",), (f"{met}-an expiry]",)


Cells = tuple[Sequence[str], ...]
"""The tests of each fault, or a text that says why the fault has no meaning for the verb."""
NOTHING_EXPIRES = "there is nothing yet that could expire"
TABLE: Mapping[str, Mapping[str, Cells]] = {
    "Paimon": {
        "append": ((f"{CRASH}paimon_append.py::test_an_append",), *met("an append")),
        "upsert": ((f"{COMMIT}test_an_upsert", f"{COMMIT}test_the_first_commit"), *met("an upsert")),
        "upsert, dynamic buckets": ((f"{TWICE}dynamic buckets]",), *met("dynamic buckets")),
        "upsert, keys that change their partition": (
            (f"{TWICE}keys that change their partition]",), *met("keys that change their partition")),
        "overwrite": (
            (f"{COMMIT}test_an_overwrite", f"{TWICE}an overwrite of all]"), *met("an overwrite of all")),
        "write with compaction": (
            (f"{PAIMON}test_a_write_that_compacts", f"{APPENDED}test_a_write_that_compacts"),
            *met("a write that compacts")),
        "rewrite, primary key": ((f"{PAIMON}test_a_rewrite",), *met("a compaction")),
        "rewrite, no primary key": ((f"{APPENDED}test_any_death",), *met("a compaction without keys")),
        "rewrite, postponed buckets": (
            (f"{TWICE}postponed rows]", f"{APPENDED}test_any_death"), *met("postponed rows")),
        "rewrite, another number of buckets": ((f"{TWICE}other buckets]",), *met("other buckets")),
        "rewrite of manifests": ((f"{CRASH}paimon_manifests.py::test_any_death",), *met("manifests")),
        "expire": (
            (f"{CRASH}paimon_expire.py::", f"{TWICE}snapshots that expire]"), *met("snapshots that expire")),
        "orphan files": ((f"{TWICE}orphan files]",), *met("orphan files")),
        "tag": ((f"{TAGS}test_a_move", f"{TAGS}test_a_rename", f"{TWICE}a tag]"), *met("a tag")),
        "delete a tag": ((f"{TAGS}test_a_removal", f"{TWICE}a tag that goes]"), *met("a tag that goes")),
        "branch": ((f"{BRANCHES}test_a_branch_that_is_made",), *met("a branch")),
        "delete a branch": ((f"{BRANCHES}test_a_branch_that_is_removed",), *met("a branch that goes")),
        "fast-forward": ((f"{BRANCHES}test_a_branch_that_is_followed",), *met("a branch that is followed")),
        "rollback": ((f"{CRASH}paimon_rollback.py::",), *met("a rollback")),
        "alter": ((f"{CRASH}paimon_alter.py::",), *met("other columns")),
        "create": ((f"{COMMIT}test_a_table_is_created",), *met("a table")[:2], NOTHING_EXPIRES),
        "abort of a prepared write": aborted("paimon"),
    },
    "Iceberg": {
        "append": (
            (f"{ICEBERG}{EACH}[append]",), (f"{DEATHS}append]",),
            (f"{ICEBERG}test_a_rival_at_the_same_version", *between("append")), between("append")),
        "changes by key": (
            (f"{CRASH}iceberg_sink.py::test_changes_by_key",), (f"{DEATHS}changes by key]",),
            (f"{CRASH}iceberg_sink.py::test_a_rival", *between("changes by key")), between("changes by key")),
        "overwrite": (
            (f"{ICEBERG}{EACH}[overwrite]",), (f"{DEATHS}overwrite]",), between("overwrite"), between("overwrite")),
        "rewrite": (
            (f"{REWRITTEN}{EACH}", f"{ICEBERG}{EACH}[rewrite]"), (f"{DEATHS}rewrite]",),
            (f"{ICEBERG}test_a_rival_that_rewrites", *between("rewrite")), between("rewrite")),
        "rewrite of deletes": (
            (f"{REWRITTEN}test_position_deletes", f"{REWRITTEN}test_equality_deletes"),
            (f"{DEATHS}rewrite of deletes]",), between("rewrite of deletes"), between("rewrite of deletes")),
        "rewrite of manifests": (
            (f"{VERBS}test_manifests_are",), (f"{DEATHS}rewrite of manifests]",), between("rewrite of manifests"),
            between("rewrite of manifests")),
        "expire": ((f"{ICEBERG}{EACH}[expire]",), (f"{DEATHS}expire]",), between("expire"), between("expire")),
        "orphan files": ((f"{ICEBERG}test_a_killed_removal_of_orphans",), *stepped_in("orphan files")),
        "tag": ((f"{REFS}{EACH}[tag]",), (f"{REFS2}tag]",), (f"{RIVAL}[tag-",), (f"{GONE}_first[tag]",)),
        "branch": (
            (f"{REFS}{EACH}[branch]", f"{REFS}{EACH}[replaced]", f"{REFS}{EACH}[wap branch]"),
            (f"{REFS2}replaced]", f"{REFS2}wap branch]"), (f"{RIVAL}[wap branch-",), (f"{GONE}_first[replaced]",)),
        "delete a branch": (
            (f"{REFS}{EACH}[deleted]",), (f"{REFS2}deleted]",), (f"{RIVAL}[deleted-",), (f"{GONE}_first[deleted]",)),
        "fast-forward": (
            (f"{REFS}{EACH}[fast-forward]",), (f"{REFS2}fast-forward]",), (f"{RIVAL}[fast-forward-",),
            (f"{GONE}_first[fast-forward]",)),
        "rollback": (
            (f"{REFS}{EACH}[any snapshot]",), (f"{REFS2}any snapshot]",), (f"{RIVAL}[any snapshot-",),
            (f"{GONE}_first[any snapshot]",)),
        "publish": (
            (f"{REFS}{EACH}[pick]", f"{REFS}{EACH}[staged]"), (f"{REFS2}pick]",),
            (f"{RIVAL}[pick-", f"{RIVAL}[staged-"), (f"{GONE}_first[pick]",)),
        "alter": ((f"{CRASH}iceberg_alter.py::",), (f"{DEATHS}alter]",), between("alter"), between("alter")),
        "repair": ((f"{CRASH}iceberg_repair.py::",), *stepped_in("repair")),
        "create": ((f"{ICEBERG}test_creation",), (CREATED,), (CREATED,), NOTHING_EXPIRES),
        "abort of a prepared write": aborted("iceberg"),
    },
    "Hudi": {
        "insert, upsert, delete": ((f"{CRASH}hudi_write.py::", f"{CRASH}hudi_metadata.py::"), *served("an upsert")),
        "overwrite": ((f"{HUDI_TWICE}an overwrite]",), *served("an overwrite")),
        "compaction": ((f"{SERVED}test_a_rewrite",), *served("a compaction")),
        "log compaction": ((f"{CRASH}hudi_log_compaction.py::",), *served("a log compaction")),
        "clustering": ((f"{SERVED}test_a_rewrite",), *served("a clustering")),
        "resizing of buckets": ((f"{CRASH}hudi_rings.py::",), *served("other buckets")),
        "clean": ((f"{CRASH}hudi_clean.py::",), *served("a clean")),
        "failed writes": ((f"{SERVED}test_a_failed_write",), *served("a failed write")),
        "old partitions": ((f"{SERVED}test_old_partitions",), *served("old partitions")),
        "archive": ((f"{CRASH}hudi_archive.py::test_killed",), *served("an archival")),
        "savepoint": ((f"{CRASH}hudi_savepoint.py::",), *served("a savepoint")),
        "restore": ((f"{CRASH}hudi_restore.py::",), *served("a restore")),
        "abort of a prepared write": aborted("hudi"),
    },
}  # fmt: skip


def main(arguments: list[str]) -> int:
    """0 when the document holds, or now holds, the table."""
    names = {name for rows in TABLE.values() for cells in rows.values() for cell in tests_of(cells) for name in cell}
    table, missing = rendered(collected_of(names))
    for name in missing:
        print(f"faults: no test {name}: its cell is 'not yet'", file=sys.stderr)
    text = DOCUMENT.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    wanted = f"{before}{BEGIN}\n{table}{END}{rest.partition(END)[2]}"
    if "--check" in arguments:
        if wanted != text or missing:
            print("faults: the table in docs/guarantees.md is stale; write it with ./run docs", file=sys.stderr)
        return int(wanted != text or bool(missing))
    DOCUMENT.write_text(wanted, encoding="utf-8")
    return int(bool(missing))


def tests_of(cells: Cells) -> list[Sequence[str]]:
    """The cells that name tests."""
    return [cell for cell in cells if not isinstance(cell, str)]


def rendered(tests: dict[str, bool]) -> tuple[str, list[str]]:
    """The table as Markdown, and the names in it that no test begins with."""
    lines, missing, reasons = [], [], list[str]()
    for format, rows in TABLE.items():
        lines += ["", f"| {format} | {' | '.join(FAULTS)} |", "|---|" + "---|" * len(FAULTS)]
        for verb, cells in rows.items():
            missing += [name for cell in tests_of(cells) for name in cell if not proved(name, tests)]
            reasons += [cell for cell in cells if isinstance(cell, str) and cell not in reasons]
            lines.append(f"| {verb} | {' | '.join(_state(cell, tests, reasons) for cell in cells)} |")
    notes = [f"<sup>{number}</sup> No meaning: {reason}.<br>" for number, reason in enumerate(reasons, 1)]
    return "\n".join([*lines, "", *notes, *([""] if notes else [])]) + "\n", missing


def _state(cell: Sequence[str], tests: dict[str, bool], reasons: list[str]) -> str:
    if isinstance(cell, str):
        return f"— <sup>{reasons.index(cell) + 1}</sup>"
    return "yes" if cell and all(proved(name, tests) for name in cell) else "not yet"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
