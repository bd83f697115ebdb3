"""SQL over tables, without Spark: DataFusion runs it on the rows that lakebed reads.

A table is named in quotes where SQL names one: `FROM 'out/orders' o JOIN 'catalog:shop.items' i ON ...`. Its metadata
tables follow a `#`: `FROM 'out/orders#files'`. sqlglot reads the query, so that only the columns it names are read, and
of one table only the files that its WHERE may match. The rows are held in memory.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import datafusion
import pyarrow as pa
import sqlglot
from sqlglot import expressions as sql
from sqlglot.errors import SqlglotError

from lakebed.errors import LakebedError, TableNotFoundError, UsageError, first_line, known_columns
from lakebed.formats.opening import open_table
from lakebed.kernel.predicates.where import parse_where
from lakebed.kernel.sql_mistakes import mistake_in
from lakebed.verbs.table import Table

_DIALECT = "postgres"
"""The dialect that DataFusion's parser is closest to: double quotes name things, single quotes hold texts."""
_EXAMPLE = "Example: select dt, count(*) from 'out/orders' group by dt"
_NO_COLUMN = re.compile(r"No field named (?:\w+\.)?\"?(\w+)\"?")
_METADATA = re.compile(r"(.+)#([A-Za-z_]+)", re.DOTALL)
_SIGNS: Mapping[type[sql.Expr], str] = {sql.EQ: "=", sql.LT: "<", sql.LTE: "<=", sql.GT: ">", sql.GTE: ">="}
"""The comparisons that a read can use too."""


def query(text: str, options: Mapping[str, object] = {}) -> pa.Table:
    """The result of a SQL query over tables, in DataFusion's dialect.

        lakebed.sql("select dt, count(*) as orders from 'out/orders' where amount > 40 group by dt")

    `options` open the tables, as in `lakebed.open`. Raises UsageError for a text that is not one query, and for what
    DataFusion refuses; TableNotFoundError where a name is not a table's location; and what reading raises.
    """
    tree = _parsed(text)
    named = list(_tables(tree))
    plain = _is_of_one_table(tree, named)
    shortcut = _first_rows(tree, named[0], options) if plain else None
    if shortcut is not None:
        return shortcut
    session = datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(1))
    opened: dict[str, str] = {}
    spellings: dict[str, set[str]] = {}
    condition = tree.args.get("where") if plain else None
    names, star = {node.name.lower() for node in tree.find_all(sql.Identifier)}, _has_star(tree)
    for node in named:
        place = node.name
        if place not in opened:
            source = _Source.of(place, options)
            opened[place] = f"t{len(opened) + 1}"
            columns = source.needed(names, star)
            called = (node.alias or _alias(place)).lower()
            where = _pushed(condition, source.schema, called) if condition is not None else None
            rows = source.read(columns, where)
            session.from_arrow(rows, name=opened[place])
            for name in source.schema.names:
                spellings.setdefault(name.lower(), set()).add(name)
        alias = node.alias or None
        node.set("this", sql.to_identifier(opened[place], quoted=True))
        if alias is None:
            node.set("alias", sql.TableAlias(this=sql.to_identifier(_alias(place), quoted=True)))
    _spell(tree, spellings)
    try:
        result: pa.Table = session.sql(tree.sql(_DIALECT)).to_arrow_table()
    except Exception as error:  # DataFusion's errors have no class of their own
        why = _plain(error)
        if missing := _NO_COLUMN.match(why):
            todo = known_columns(missing[1], chain.from_iterable(spellings.values()))
            raise UsageError("the query failed", why=missing[0], todo=todo) from error
        raise UsageError("the query failed", why=why, todo=_EXAMPLE) from error
    return result


@dataclass(frozen=True, slots=True)
class _Source:
    """What a query reads: a table, or with `metadata` one of its metadata tables."""

    table: Table
    metadata: str
    schema: pa.Schema

    @classmethod
    def of(cls, place: str, options: Mapping[str, object]) -> _Source:
        """The table of that name. TableNotFoundError names it."""
        match = _METADATA.fullmatch(place)
        try:
            table = open_table(place, options)
        except TableNotFoundError:
            if match is None:
                raise
            table = open_table(match[1], options)
            return cls(table, match[2], table.system_table(match[2]).schema)
        return cls(table, "", table.schema)

    def needed(self, names: Collection[str], star: bool) -> list[str]:
        """The columns that a query needs, at least one: those it names (lower case), and with a star all but the
        format's own."""
        schema, own = self.schema.names, self.table.meta_columns
        return [name for name in schema if name.lower() in names or (star and name not in own)] or schema[-1:]

    def read(self, columns: Sequence[str], where: str | None) -> pa.Table:
        """The rows."""
        if self.metadata:
            rows: pa.Table = self.table.metadata(self.metadata).read_all().select(columns)
            return rows
        return self.table.to_arrow(columns, where)


def _parsed(text: str) -> sql.Expr:
    try:
        trees = [tree for tree in sqlglot.parse(text, dialect=_DIALECT) if tree is not None]
    except (SqlglotError, RecursionError) as error:
        raise UsageError("cannot read the query", why=mistake_in(error), todo=_EXAMPLE) from error
    if len(trees) != 1 or not isinstance(trees[0], sql.Query):
        raise UsageError("the text is not one query", why="lakebed sql only reads", todo=_EXAMPLE)
    return trees[0]


def _tables(tree: sql.Expr) -> Iterator[sql.Table]:
    """The tables that a query names, without its own (WITH). UsageError for a name that cannot be a table's."""
    own = {common.alias.lower() for common in tree.find_all(sql.CTE)}
    for node in tree.find_all(sql.Table):
        if isinstance(node.this, sql.Func):
            continue
        if not node.db and node.name.lower() in own and not node.this.args.get("quoted"):
            continue
        if not node.this.args.get("quoted") or node.db:
            name = node.sql(_DIALECT)
            raise UsageError(f"there is no table {name}", todo="Write its path in quotes: FROM 'out/orders'")
        if node.alias_column_names:
            raise UsageError(
                f"{node.sql(_DIALECT)} gives columns other names, which lakebed sql does not take there",
                todo="Rename them with AS where they are selected",
            )
        yield node


def _is_of_one_table(tree: sql.Expr, named: Sequence[sql.Table]) -> bool:
    """Whether a query selects from one table itself: its WHERE and its LIMIT are about that table's own rows."""
    if not isinstance(tree, sql.Select) or len(named) != 1:
        return False
    source = tree.args.get("from_") or tree.args.get("from")
    more = any(tree.args.get(part) for part in ("joins", "laterals", "with_", "with"))
    return source is not None and source.this is named[0] and not more


def _has_star(tree: sql.Expr) -> bool:
    """Whether a query asks for every column: COUNT(*) does not, and a natural join does without naming any."""
    natural = any((join.args.get("method") or "").upper() == "NATURAL" for join in tree.find_all(sql.Join))
    return natural or any(not isinstance(star.parent, sql.Count) for star in tree.find_all(sql.Star))


def _first_rows(tree: sql.Expr, table: sql.Table, options: Mapping[str, object]) -> pa.Table | None:
    """The rows of a query of one table that asks for any of them, so many at most; None for other queries."""
    used = {key for key, value in tree.args.items() if value}
    limit = tree.args.get("limit")
    if not used <= {"expressions", "from_", "from", "limit", "kind"} or limit is None:
        return None
    count = limit.expression
    if not isinstance(count, sql.Literal) or count.is_string or not count.name.isdigit():
        return None
    if not all(isinstance(chosen, sql.Star) for chosen in tree.expressions):
        return None
    source = _Source.of(table.name, options)
    columns = source.needed((), star=True)
    if source.metadata or len(tree.expressions) != 1 or tree.expressions[0].args.get("except_"):
        return None
    return source.table.head(int(count.name), columns)


def _pushed(condition: Any, schema: pa.Schema, called: str) -> str | None:
    """The parts of a WHERE that compare a column of the table `called` so with a literal of its kind, as `where` for
    the read.

    DataFusion filters by the whole of it once more.
    """
    parts = []
    whole = condition.this
    for part in whole.flatten() if isinstance(whole, sql.And) else [whole]:
        bare = part.this if isinstance(part, sql.Paren) else part
        sign = _SIGNS.get(type(bare))
        if sign is None or not isinstance(bare.this, sql.Column) or not isinstance(bare.expression, sql.Literal):
            continue
        if bare.this.db or bare.this.table.lower() not in ("", called):  # the field of a struct
            continue
        name = _spelled(bare.this.name, schema)
        if name and _is_of(bare.expression, schema.field(name).type):
            parts.append(f"{sql.to_identifier(name, quoted=True).sql('spark')} {sign} {bare.expression.sql('spark')}")
    kept = [part for part in parts if _understood(part, schema)]
    return " and ".join(kept) or None


def _is_of(literal: sql.Literal, kind: pa.DataType) -> bool:
    kinds = (pa.types.is_string, pa.types.is_date) if literal.is_string else (pa.types.is_integer, pa.types.is_decimal)
    return any(is_kind(kind) for is_kind in kinds)


def _understood(part: str, schema: pa.Schema) -> bool:
    try:
        return parse_where(part, schema) is not None
    except LakebedError:
        return False


def _spelled(name: str, schema: pa.Schema) -> str | None:
    """The one column that a name may mean."""
    alike = [column for column in schema.names if column.lower() == name.lower()]
    return name if name in schema.names else alike[0] if len(alike) == 1 else None


def _spell(tree: sql.Expr, spellings: Mapping[str, set[str]]) -> None:
    """Write unquoted columns as the tables do: DataFusion reads them in lower case."""
    for column in tree.find_all(sql.Column):
        identifier = column.this
        if isinstance(identifier, sql.Identifier) and not identifier.args.get("quoted"):
            known = spellings.get(identifier.name.lower(), set())
            if len(known) == 1 and known != {identifier.name.lower()}:
                column.set("this", sql.to_identifier(next(iter(known)), quoted=True))


def _alias(place: str) -> str:
    """What a table is called in a query that gives it no name: the last part of its location."""
    return re.split(r"[/\\:.]", place.rstrip("/\\"))[-1] or "t"


def _plain(error: Exception) -> str:
    """The first line of DataFusion's message, without the names of its own classes."""
    return re.sub(r"^(?:Exception: )?(?:DataFusion error: )?(?:[A-Za-z]+ ?error: )?", "", first_line(error)).rstrip(".")
