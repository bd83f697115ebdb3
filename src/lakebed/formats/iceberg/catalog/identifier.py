"""Names of tables in catalogs: `catalog:namespace.table`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lakebed.errors import UsageError

_NAME = re.compile(r"^([A-Za-z0-9_][A-Za-z0-9_-]+):([^/\\:]+)\.([^./\\:]+)$")


@dataclass(frozen=True, slots=True)
class Identifier:
    """The parts of `catalog:namespace.table`. `table` is the namespace and the name."""

    catalog: str
    table: tuple[str, ...]

    @property
    def text(self) -> str:
        """The spelling that `lakebed.open` takes: `catalog:namespace.table`."""
        return f"{self.catalog}:{'.'.join(self.table)}"


def parse_identifier(text: str) -> Identifier:
    """The identifier that a text spells; UsageError when it does not have the form `catalog:namespace.table`."""
    match = _NAME.match(text)
    if match is None:
        raise UsageError(f"{text!r} is not the name of a table in a catalog", todo="Write catalog:namespace.table")
    return Identifier(match[1], (*match[2].split("."), match[3]))
