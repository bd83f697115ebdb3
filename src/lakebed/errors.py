"""The errors that lakebed raises, as one tree.

Every error says what happened, where, why, and what to do next. It carries each of these as a field, so a program can
act on them and the command line can print one clear line.

    LakebedError
    ├── UsageError                 the call itself is wrong; nothing was read or written  (exit code 2, all others 1)
    │   ├── OptionError            an option is unknown, of the wrong type, or out of range
    │   ├── PredicateError         a `where` cannot be parsed, or names a column that the table does not have
    │   └── PipelineFileError      a pipeline file has a mistake; the error has the file and the key
    ├── TableNotFoundError         the path does not exist, or is not a table
    ├── TableExistsError           there is already a table
    ├── NotInHistoryError          the table has no such instant, snapshot or tag
    │   └── DataCleanedError       the table had it, but files that it needs were cleaned up
    ├── UnsupportedError           the format allows it, and lakebed refuses it rather than guess
    ├── SchemaError                data does not fit the table
    ├── CorruptError               bytes break the format's rules
    ├── StorageError               the store failed
    │   ├── RetryableError         ... but a second try may succeed
    │   └── NotWrittenError        ... and nothing of the write became visible
    ├── CommitConflictError        another writer's commit conflicts with ours; nothing of ours is visible
    ├── CommitUnknownError         the store did not say whether the commit succeeded; its files are kept
    ├── CallbackError              for callbacks to raise; the commit stands, and its result has a note
    └── RuntimeMissingError        Java, lakebed or one of its wheels is missing where the work runs

Catch the type that you can handle, and read its fields:

    try:
        table.write(rows)
    except lakebed.errors.CommitConflictError as error:
        log.info("%s: %s. %s", error.table, error.why, error.todo)

A read warns about what is not an error with a ReadWarning: a stream has fallen behind, rows are missing from a range,
or (CorruptBlocksWarning) a file has torn bytes that were skipped.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import Any

from lakebed.redaction import HIDDEN, names_secret, redacted


class LakebedError(Exception):
    """The base of all errors that lakebed raises on purpose.

    Each field is a text, empty when unknown. `what` says what happened and `why` the reason, `table` is the table's
    location, `instant` an instant time, snapshot id or tag, `file` a path inside the table or that of the pipeline
    file, and `todo` says what to do next. Setting a field hides the secrets in it (`lakebed.redaction`).
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
    """The call itself is wrong. Nothing was read or written."""

    exit_code = 2


class OptionError(UsageError):
    """An option is unknown, of the wrong type, or out of range.

    `key` is the option. `nearest` is the known key that is spelled most like it, "" when none is close.
    """

    def __init__(self, what: str, *, key: str, nearest: str = "", **fields: str) -> None:
        super().__init__(what, **fields)
        self.key, self.nearest = key, nearest

    @classmethod
    def unknown(cls, key: str, known: Iterable[str], *, where: str = "", **fields: str) -> OptionError:
        """The error for a key that is not among the `known` ones of `where`; it suggests the nearest of them."""
        known = sorted(set(known))
        nearest = nearest_of(key, known)
        place = f" of {where}" if where else ""
        todo = f"Did you mean {nearest!r}?" if nearest else _some_of(key, known)
        return cls(f"unknown option {key!r}{place}", key=key, nearest=nearest, todo=todo, **fields)

    @classmethod
    def ill_typed(cls, key: str, value: object, expected: str, **fields: str) -> OptionError:
        """The error for a value that is not what the option expects. The value of a secret is not shown."""
        shown = HIDDEN if names_secret(key) else repr(value)
        return cls(f"option {key!r} is {shown}", key=key, why=f"expected {expected}", **fields)


class PredicateError(UsageError):
    """A `where` cannot be parsed, names a column that the table does not have, or compares values of types that cannot
    be compared."""


class PipelineFileError(UsageError):
    """A pipeline file has a mistake. `file` is its path, `key` the place in it, such as `sink.format`."""

    def __init__(self, what: str, *, key: str = "", **fields: str) -> None:
        super().__init__(what, **fields)
        self.key = key


class TableNotFoundError(LakebedError):
    """There is nothing at the location, or no Hudi, Paimon or Iceberg table."""


class TableExistsError(LakebedError):
    """There is already a table at the location."""


class NotInHistoryError(LakebedError):
    """The table's history has no such instant, snapshot, tag or time."""


class DataCleanedError(NotInHistoryError):
    """The table had the instant or snapshot, but files that it needs were cleaned up."""


class UnsupportedError(LakebedError):
    """The format allows it, but lakebed refuses it, because its answer could be wrong."""


class SchemaError(LakebedError):
    """Data does not fit the table's schema, or a column was asked for that the schema does not have."""


class CorruptError(LakebedError):
    """Bytes break the format's rules: a file is damaged, cut short or not what its name says."""


class StorageError(LakebedError):
    """The store refused or failed."""


class RetryableError(StorageError):
    """The store failed, but a second try may succeed."""


class NotWrittenError(StorageError):
    """The store refused a write, and nothing of it became visible: a commit that needed it did not happen."""


class CommitConflictError(LakebedError):
    """Another writer's commit conflicts with ours. Nothing of ours is visible: read the table again and start over."""


class CommitUnknownError(LakebedError):
    """The store did not say whether the commit succeeded. Its files are kept; `todo` says how to find out."""


class CallbackError(LakebedError):
    """For callbacks to raise. No commit raises it.

    The commit stands when its callback fails, and an error would make the caller write the same rows twice. So the
    failure is a note of the commit's result, and the next commit calls the callback again.
    """


class RuntimeMissingError(LakebedError):
    """Java, lakebed itself or a wheel that it needs is missing on the machine where the work runs."""


class ReadWarning(UserWarning):
    """Something that a reader should know beside the rows. The process that reads gives it through Python's `warnings`.

    `table` is the table's location, "" when unknown.
    """

    def __init__(self, what: str, *, table: str = "") -> None:
        self.table = redacted(table)
        super().__init__(redacted(what))


class CorruptBlocksWarning(ReadWarning):
    """A read skipped torn bytes in a log file: `size` bytes of `file`, in `ranges` places.

    Writers that die leave such bytes. No row is lost with them, and the blocks around them are read. A log file that
    holds no block at all has 0 ranges.
    """

    def __init__(self, what: str, *, table: str, file: str, ranges: int, size: int) -> None:
        self.file, self.ranges, self.size = file, ranges, size
        super().__init__(what, table=table)


_MANY_OPTIONS = 30
"""More options than one reads in an error."""


def _some_of(key: str, known: Sequence[str]) -> str:
    """The known options; of many those with a word of the key, and where to find the others."""
    if len(known) <= _MANY_OPTIONS:
        return f"Known options: {', '.join(known) or 'none'}"
    words = {word for word in re.split(r"[^a-z0-9]+", key.lower()) if len(word) > 2}
    near = [option for option in known if words & {*re.split(r"[^a-z0-9]+", option.lower())}][:_MANY_OPTIONS]
    named = f"Those with a word of it: {', '.join(near)}. " if near else ""
    return f"{named}The {len(known)} known options are in the documentation's page Options"


def nearest_of(name: str, known: Iterable[str]) -> str:
    """The known name that is spelled most like one, "" when none is close."""
    by_lower = {one.lower(): one for one in known}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.5)
    return by_lower[near[0]] if near else ""


def known_columns(name: str, columns: Iterable[str]) -> str:
    """What to do about an unknown column: take the nearest, or one of those that there are."""
    columns = list(columns)
    nearest = nearest_of(name, columns)
    return f"{f'Did you mean {nearest!r}? ' if nearest else ''}Columns: {', '.join(columns) or 'none'}"


def first_line(error: BaseException) -> str:
    """The first line of an error's text; the name of its type when it has no text."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def error_text(error: Exception) -> str:
    """An error as people are told it: the whole text of lakebed's own, of others their type and first line."""
    if isinstance(error, LakebedError):
        return str(error)
    text, kind = first_line(error), type(error).__name__
    return kind if text == kind else f"{kind}: {text}"


def named_error(kind: str, text: str) -> LakebedError:
    """An error again that another process told as the name of its type and its text. Its other fields are lost."""
    error_class = globals().get(kind)
    if not isinstance(error_class, type) or not issubclass(error_class, LakebedError):
        return LakebedError(text)
    try:
        return error_class(text, key="") if error_class is OptionError else error_class(text)
    except TypeError:  # a type with fields of its own
        return LakebedError(text)


def counted(number: float, one: str, many: str = "", grouped: bool = False) -> str:
    """A number with its words: "1 row", "2 rows"; "1 file is", "2 files are". `grouped`: "2,000 rows"."""
    text = f"{number:,}" if grouped else f"{number:g}" if isinstance(number, float) else str(number)
    return f"{text} {one if number == 1 else many or f'{one}s'}"
