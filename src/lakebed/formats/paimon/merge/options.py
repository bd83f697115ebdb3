"""The options `fields.NAME.…`: how a merge engine folds each column."""

from __future__ import annotations

from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.merge.aggregates import Aggregate
from lakebed.formats.paimon.options import split_names
from lakebed.kernel.options import Options, at_least, boolean


def field_option(options: Options, name: str, what: str) -> str:
    """The value of `fields.NAME.WHAT`, "" where it is not given. Keys match in any case."""
    wanted = f"fields.{name}.{what}".lower()
    return next((value for key, value in options.raw.items() if key.lower() == wanted), "")


def aggregate_of(schema: TableSchema, options: Options, name: str, fallback: str) -> Aggregate | None:
    """The aggregate function of a column: its own, else the table's default, else `fallback`. None where that is "".

    Raises OptionError for a function that does not exist or does not take the column's type, UnsupportedError for one
    that lakebed lacks.
    """
    function = (
        field_option(options, name, "aggregate-function")
        or ("" if name in schema.primary_keys else options[opt.DEFAULT_AGGREGATE])
        or fallback
    )
    if not function:
        return None
    limit = field_option(options, name, "count-limit")
    aggregate = Aggregate(
        name,
        function,
        boolean(field_option(options, name, "ignore-retract") or "false"),
        field_option(options, name, "list-agg-delimiter") or ",",
        boolean(field_option(options, name, "distinct") or "false"),
        split_names(field_option(options, name, "nested-key")),
        at_least(0)(limit) if limit else None,
    )
    aggregate.check(schema.field(name).type)
    return aggregate


def sequence_groups(options: Options) -> dict[tuple[str, ...], tuple[str, ...]]:
    """The options `fields.S1,S2.sequence-group`: sequence columns to the columns that follow their order."""
    groups: dict[tuple[str, ...], tuple[str, ...]] = {}
    for key, value in options.raw.items():
        parts = key.split(".")
        if parts[0].lower() == "fields" and parts[-1].lower() == "sequence-group":
            groups[split_names(".".join(parts[1:-1]))] = split_names(value)
    return groups
