"""What the options `fields.NAME.…` say of the columns that merge engines fold."""

from __future__ import annotations

from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.merge.aggregates import Aggregate
from lakebed.formats.paimon.options import split_names
from lakebed.kernel.options import Options, at_least, boolean


def field_option(options: Options, name: str, what: str) -> str:
    """`fields.NAME.WHAT`, "" when not given; keys match without case."""
    wanted = f"fields.{name}.{what}".lower()
    return next((value for key, value in options.raw.items() if key.lower() == wanted), "")


def aggregate_of(schema: TableSchema, options: Options, name: str, fallback: str) -> Aggregate | None:
    """The aggregate of a column: its own, the default one, else `fallback`; None when that is ""."""
    function = (
        field_option(options, name, "aggregate-function")
        or ("" if name in schema.primary_keys else options[opt.DEFAULT_AGGREGATE])
        or fallback
    )
    if not function:
        return None
    limit = field_option(options, name, "count-limit")
    made = Aggregate(
        name,
        function,
        boolean(field_option(options, name, "ignore-retract") or "false"),
        field_option(options, name, "list-agg-delimiter") or ",",
        boolean(field_option(options, name, "distinct") or "false"),
        split_names(field_option(options, name, "nested-key")),
        at_least(0)(limit) if limit else None,
    )
    made.check(schema.field(name).type)
    return made


def sequence_groups(options: Options) -> dict[tuple[str, ...], tuple[str, ...]]:
    """`fields.S1,S2.sequence-group`: sequence columns -> the columns that follow them."""
    groups: dict[tuple[str, ...], tuple[str, ...]] = {}
    for key, value in options.raw.items():
        parts = key.split(".")
        if parts[0].lower() == "fields" and parts[-1].lower() == "sequence-group":
            groups[split_names(".".join(parts[1:-1]))] = split_names(value)
    return groups
