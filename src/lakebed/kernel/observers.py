"""Tell observers of each call that may change a table, once it has ended.

`lakebed.observe` is the public face. A call inside another one (a write that compacts) is part of that one and is not
told. Nobody's call fails by an observer: what one raises is logged.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar

from lakebed.errors import error_text
from lakebed.kernel import clock
from lakebed.redaction import redacted, redacting_logger

P = ParamSpec("P")
R = TypeVar("R")
_LOG = redacting_logger("lakebed.observe")
_inside: ContextVar[bool] = ContextVar("inside a call that is observed", default=False)


@dataclass(frozen=True, slots=True)
class Call:
    """A call that has ended.

    `verb` is the name of the method ("write", "rewrite"), `format` and `table` say of which table; secrets in its
    location are hidden. `began` is in seconds since 1970, `seconds` how long it took. `outcome` is "done", "committed"
    or "skipped" for a commit, "dry run", or "failed": then `error` is the class of the error and `message` its text.
    `counts` has the numbers of the result, and the lengths of its lists: "rows", "files", "deleted_files".
    """

    verb: str
    format: str
    table: str
    began: float
    seconds: float
    outcome: str
    error: str = ""
    message: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)


Observer = Callable[[Call], None]
observers: list[Observer] = []
"""The registered observers, in the order in which they were added."""


class Watched:
    """A call that is running. `result` is what it gave."""

    result: object = None


@contextmanager
def watching(verb: str, format: str, table: str) -> Iterator[Watched]:
    """A block that is one call. Its `Watched` takes the result."""
    watched = Watched()
    if not observers or _inside.get():
        yield watched
        return
    began, start = clock.now(), clock.steady()
    token = _inside.set(True)
    outcome, error, message = "", "", ""
    try:
        yield watched
    except BaseException as raised:
        outcome, error, message = "failed", type(raised).__name__, redacted(_text(raised))
        raise
    finally:
        _inside.reset(token)
        seconds = clock.steady() - start
        outcome = outcome or _outcome(watched.result)
        _tell(Call(verb, format, redacted(table), began, seconds, outcome, error, message, counts_of(watched.result)))


def observed(verb: str, method: Callable[P, R]) -> Callable[P, R]:
    """A method of a table, as a call that is observed."""

    @functools.wraps(method)
    def told(*given: P.args, **named: P.kwargs) -> R:
        if not observers:
            return method(*given, **named)
        table: Any = given[0]
        with watching(verb, table.format, table.location) as watched:
            watched.result = result = method(*given, **named)
            return result

    told.__observed__ = verb  # type: ignore[attr-defined]  # who makes a subclass sees that it is observed
    return told


def counts_of(result: object) -> dict[str, int]:
    """The numbers of a result, and the lengths of its lists."""
    if not dataclasses.is_dataclass(result):
        return {}
    values = {field.name: getattr(result, field.name) for field in dataclasses.fields(result)}
    lists = {name: len(value) for name, value in values.items() if isinstance(value, tuple)}
    return {name: value for name, value in values.items() if type(value) is int} | lists


def _outcome(result: object) -> str:
    if getattr(result, "dry_run", False):
        return "dry run"
    return str(getattr(result, "outcome", "done"))


def _text(error: BaseException) -> str:
    return error_text(error) if isinstance(error, Exception) else type(error).__name__


def _tell(call: Call) -> None:
    for observer in tuple(observers):
        try:
            observer(call)
        except Exception as error:  # noqa: BLE001 - the call has happened, whoever is told of it
            _LOG.warning("an observer failed: %s", error)
