"""The one tree of errors.

Every error says what happened, where, why, and what to do next, and carries those as fields, so that a program
can act on them and the command line can print one clear line.

    LakebedError
    ├── UsageError                 the call is wrong; nothing was read or written        exit code 2
    │   ├── OptionError            an option that is unknown, ill-typed or out of range
    │   ├── PredicateError         a `where` that cannot be parsed or names no column
    │   └── PipelineFileError      a pipeline file with a mistake: file, key, what was expected
    ├── TableNotFoundError         no such path, or no table there
    ├── TableExistsError           a table is there already
    ├── NotInHistoryError          an instant, snapshot or tag that the table does not have
    │   └── DataCleanedError       the history is known, but its files were cleaned away
    ├── UnsupportedError           a thing of the format that lakebed refuses rather than guesses
    ├── SchemaError                data that does not fit the table
    ├── CorruptError               bytes that break the format's rules
    ├── StorageError               the store failed
    │   ├── RetryableError         ... in a way that a second try may heal
    │   └── NotWrittenError        ... before anything of a write became visible
    ├── CommitConflictError        another writer's commit stands in the way; nothing of ours is visible
    ├── CommitUnknownError         the store did not say whether the commit landed; files are kept
    ├── CallbackError              what a callback may raise; the commit stands, and its result has a note of it
    └── RuntimeMissingError        Java, lakebed or a wheel is missing where the work runs

What a read tells that is no error is a ReadWarning: how far a stream has fallen behind, rows that are missing from a
range, and (CorruptBlocksWarning) torn bytes that were passed over.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

from lakebed.redaction import HIDDEN, names_secret, redacted


class LakebedError(Exception):
    """Base of all errors that lakebed raises on purpose.

    Fields, each empty when unknown: `what` happened, `table` (location), `instant` (instant time, snapshot id or tag),
    `file` (path inside the table, or of the pipeline file), `why`, and `todo`: what to do next. Secrets in them are
    hidden as they are set (`lakebed.redaction`).
    """

    exit_code = 1

    def __init__(
        self, what: str, *, table: str = "", instant: str = "", file: str = "", why: str = "", todo: str = ""
    ) -> None:
        self.what, self.table, self.instant, self.file, self.why, self.todo = what, table, instant, file, why, todo
        super().__init__(self.what)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, redacted(value) if isinstance(value, str) else value)

    def __str__(self) -> str:
        where = ", ".join(
            f"{name} {value}"
            for name, value in (("table", self.table), ("instant", self.instant), ("file", self.file))
            if value and value not in self.what
        )
        text = f"{self.what} [{where}]" if where else self.what
        if self.why:
            text += f": {self.why}"
        return f"{text}. {self.todo}" if self.todo else text

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), dict(self.__dict__), self.args)


def _rebuild(kind: type[LakebedError], fields: dict[str, Any], args: tuple[Any, ...]) -> LakebedError:
    error = kind.__new__(kind)
    Exception.__init__(error, *args)
    error.__dict__.update(fields)
    return error


class UsageError(LakebedError):
    """The call itself is wrong; nothing was read or written."""

    exit_code = 2


class OptionError(UsageError):
    """An option that is unknown, ill-typed or out of range; `key` names it, `nearest` the known key most like it."""

    def __init__(self, what: str, *, key: str, nearest: str = "", **fields: str) -> None:
        super().__init__(what, **fields)
        self.key, self.nearest = key, nearest

    @classmethod
    def unknown(cls, key: str, known: Iterable[str], *, where: str = "", **fields: str) -> OptionError:
        """The error for a key that nobody knows, naming the nearest known one."""
        known = sorted(set(known))
        by_lower = {name.lower(): name for name in known}
        near = difflib.get_close_matches(key.lower(), by_lower, n=1, cutoff=0.5)
        nearest = by_lower[near[0]] if near else ""
        place = f" of {where}" if where else ""
        todo = f"Did you mean {nearest!r}?" if nearest else f"Known options: {', '.join(known) or 'none'}"
        return cls(f"unknown option {key!r}{place}", key=key, nearest=nearest, todo=todo, **fields)

    @classmethod
    def ill_typed(cls, key: str, value: object, expected: str, **fields: str) -> OptionError:
        """The error for a value that is not of the option's type or range."""
        shown = HIDDEN if names_secret(key) else repr(value)
        return cls(f"option {key!r} is {shown}", key=key, why=f"expected {expected}", **fields)


class PredicateError(UsageError):
    """A `where` that cannot be parsed, names no column, or compares what cannot be compared."""


class PipelineFileError(UsageError):
    """A pipeline file with a mistake; `file` names it, `key` the place in it."""

    def __init__(self, what: str, *, key: str = "", **fields: str) -> None:
        super().__init__(what, **fields)
        self.key = key


class TableNotFoundError(LakebedError):
    """Nothing lies at the location, or what lies there is no table of a known format."""


class TableExistsError(LakebedError):
    """A table lies at the location already."""


class NotInHistoryError(LakebedError):
    """The instant, snapshot, tag or time asked for is not in the table's history."""


class DataCleanedError(NotInHistoryError):
    """The history knows the instant, but the files that it needs were cleaned away."""


class UnsupportedError(LakebedError):
    """A thing of the format that lakebed refuses rather than answer wrongly."""


class SchemaError(LakebedError):
    """Data, or a column asked for, that does not fit the table's schema."""


class CorruptError(LakebedError):
    """Bytes that break the format's rules."""


class StorageError(LakebedError):
    """The store refused or failed."""


class RetryableError(StorageError):
    """The store failed in a way that a second try may heal."""


class NotWrittenError(StorageError):
    """The store refused a write; nothing of it is visible, so that what it was to publish is known not to stand."""


class CommitConflictError(LakebedError):
    """Another writer's commit stands in the way of ours. Nothing of ours is visible; plan again."""


class CommitUnknownError(LakebedError):
    """The store did not say whether the commit landed. Its files are kept; `todo` says how to find out."""


class CallbackError(LakebedError):
    """For callbacks to raise. No commit raises it: the commit stands, so a failing callback is a note of its result,
    and the next commit calls it again. An error would make the caller write the same rows twice."""


class RuntimeMissingError(LakebedError):
    """Java, lakebed itself, or a wheel that it needs is missing where the work runs."""


class ReadWarning(UserWarning):
    """What a reader should know besides the rows, given through Python's `warnings` by the process that reads.

    `table` is the location, "" when unknown.
    """

    def __init__(self, what: str, *, table: str = "") -> None:
        self.table = redacted(table)
        super().__init__(redacted(what))


class CorruptBlocksWarning(ReadWarning):
    """Torn bytes in a file that a read passed over: `ranges` places, `size` bytes of `file` in all. A log file that
    holds no block at all has 0 ranges.

    What dying writers leave; no row is lost with them, and none of the blocks around them.
    """

    def __init__(self, what: str, *, table: str, file: str, ranges: int, size: int) -> None:
        self.file, self.ranges, self.size = file, ranges, size
        super().__init__(what, table=table)
