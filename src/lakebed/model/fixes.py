"""What ends a finding of a health report, as a call that can be pasted: for the terminal, for SQL and for Python."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from lakebed.redaction import redacted

Options = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Fix:
    """A verb with its options. `opening` are options that open the table, such as its branch."""

    verb: str
    options: Options = ()
    opening: Options = ()

    def command(self, table: str) -> str:
        """The `lakebed` command, quoted for a POSIX shell."""
        words = [word for key, value in self._all for word in ("--option", f"{key}={value}")]
        return shlex.join(["lakebed", self.verb.replace("_", "-"), redacted(table), *words])

    def sql(self, table: str) -> str:
        """The query for a Spark session where `lakebed.spark.register` was called."""
        texts = ", ".join(_literal(text) for pair in self._all for text in pair)
        options = f", options => map({texts})" if texts else ""
        return f"SELECT * FROM lakebed_{self.verb}({_literal(redacted(table))}{options})"

    def python(self, table: str) -> str:
        """The call in Python, after `import lakebed`."""
        opened = f"lakebed.open({', '.join([repr(redacted(table)), *_dictionary(self.opening)])})"
        options = "".join(f"options={text}" for text in _dictionary(self.options))
        return f"{opened}.{self.verb}({options})"

    @property
    def _all(self) -> Options:
        return (*self.options, *self.opening)


def with_table(text: str, table: str) -> str:
    """A remedy whose commands name this table in place of the word TABLE."""
    return re.sub(r"\b(lakebed [a-z-]+) TABLE\b", lambda match: f"{match[1]} {shlex.quote(redacted(table))}", text)


def _literal(text: str) -> str:
    """A text as a literal of Spark SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _dictionary(options: Options) -> list[str]:
    return [repr(dict(options))] if options else []
