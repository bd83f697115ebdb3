"""One command over many tables: one line per table, or one JSON document. A failure does not stop the others.

A command tells what it does with one table and what it says of that. Exit code 1 when a table failed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any

import typer

import lakebed
from lakebed.cli import output, results
from lakebed.errors import LakebedError, TableNotFoundError, counted, error_text
from lakebed.formats import find_tables, names_many, opening_options
from lakebed.kernel.engine import Engine
from lakebed.kernel.shared_engine import together
from lakebed.redaction import redacted


@dataclass(frozen=True, slots=True)
class Done:
    """What a command did with one table: its line, its part of the JSON document, and whether it failed."""

    line: str
    document: Mapping[str, Any]
    failed: bool = False
    rank: int = 0
    """How bad the table's health is. With `worst_first` the greatest comes first."""


_FAILED_RANK = 100
"""A table that cannot be worked on is worse off than any other."""
Act = Callable[[lakebed.Table, dict[str, object], Engine | None], Done]
"""The work on one table, with the options of the verb and the engine that runs its tasks."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The options of the command line that choose among many tables. None is not given."""

    databases: str | None = None
    tables: str | None = None
    excluded: str | None = None


def with_notes(line: str, notes: Sequence[str]) -> str:
    """A line with notes appended."""
    return "; ".join((line, *notes))


def over(
    location: str,
    given: Sequence[str] | None,
    chosen: Chosen,
    one: Callable[[lakebed.Table, dict[str, object]], None],
    act: Act,
    as_json: bool,
    also: Sequence[str] = (),
    combined: bool = False,
    worst_first: bool = False,
) -> None:
    """Run `one` on the table at a location, or `act` on each of many tables: those that a pattern matches, or those
    below a folder that is not a table itself. With `combined` the tasks of many tables run side by side. With
    `worst_first` results are printed when all are done, the worst first.

    Raises TableNotFoundError if there is no table, and typer.Exit(1) if one of many failed.
    """
    opening = opening_options(output.parse_options(given or []))
    if names_many(location) or chosen != Chosen():
        locations = find_tables(location, opening, *astuple(chosen))
    else:
        try:
            opened, options = results.opened(location, given, also)
        except TableNotFoundError as error:
            locations = _below(location, opening)
            if not locations:
                raise error from None
        else:
            return one(opened, options)

    def done(location: str, engine: Engine | None = None) -> Done:
        return act(*results.opened(location, given, also), engine)

    results_by_table = zip(
        locations, _together(locations, done) if combined else _one_by_one(locations, done), strict=True
    )
    _report(sorted(results_by_table, key=_worst) if worst_first else results_by_table, as_json)


def _below(location: str, opening: Mapping[str, str]) -> list[str]:
    """The tables below a folder, none where there is no such folder."""
    try:
        return find_tables(location, opening)
    except LakebedError:
        return []


def _one_by_one(locations: Sequence[str], done: Callable[[str], Done]) -> Iterator[Done]:
    for location in locations:
        try:
            yield done(location)
        except Exception as error:  # noqa: BLE001 - the other tables are none the worse for it
            yield _failure(error)


def _together(locations: Sequence[str], done: Callable[[str, Engine], Done]) -> Iterator[Done]:
    for result in together(locations, done):
        yield _failure(result) if isinstance(result, Exception) else result


def _worst(told: tuple[str, Done]) -> tuple[int, bool, str]:
    location, done = told
    return -done.rank, not done.failed, location


def _report(told: Iterable[tuple[str, Done]], as_json: bool) -> None:
    """Print what was done with each table, as it comes."""
    documents: list[Mapping[str, Any]] = []
    failed = 0
    for location, done in told:
        failed += done.failed
        documents.append({"name": location, **done.document})
        if not as_json:
            output.stdout().print(f"{location}: {redacted(done.line)}", highlight=False, markup=False)
    if as_json:
        output.emit_json({"tables": documents, "failed": failed})
    output.log(f"{counted(len(documents), 'table')}, {failed} failed")
    if failed:
        raise typer.Exit(1)


def _failure(error: Exception) -> Done:
    kind, shown = type(error).__name__, error_text(error)
    return Done(f"failed: {shown}", {"error": output.error_document(redacted(shown), kind, error)}, True, _FAILED_RANK)
