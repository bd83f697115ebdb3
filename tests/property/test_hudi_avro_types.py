"""DataFusion's Avro reader against fastavro: random schemas of every type of the mapping, random rows."""

import datetime
import json
import struct
from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.formats.hudi.codec.avro import decode_records
from lakebed.formats.hudi.codec.schema import arrow_schema
from lakebed.kernel.scratch import Scratch
from lakebed.testing.hudi_log import avro_content

UTC = datetime.UTC
SCRATCH = Scratch()
DAYS = st.dates(datetime.date(1, 1, 1), datetime.date(9999, 12, 31))
MOMENTS = st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2200, 1, 1))
MILLIS = MOMENTS.map(lambda moment: moment.replace(microsecond=moment.microsecond // 1000 * 1000))


def in_utc(moments):
    return moments.map(lambda moment: moment.replace(tzinfo=UTC))


def decimals(precision, scale):
    top = 10**precision - 1
    return st.integers(-top, top).map(lambda digits: Decimal(digits).scaleb(-scale))


def logical(kind, logical_type, **more):
    return {"type": kind, "logicalType": logical_type, **more}


# Each is (Avro type made with a fresh name, values as fastavro writes and Arrow gives back).
PLAIN = [
    (lambda name: "boolean", st.booleans()),
    (lambda name: "int", st.integers(-(2**31), 2**31 - 1)),
    (lambda name: "long", st.integers(-(2**63), 2**63 - 1)),
    (lambda name: "float", st.floats(width=32, allow_nan=False)),
    (lambda name: "double", st.floats(allow_nan=False)),
    (lambda name: "string", st.text(max_size=8)),
    (lambda name: "bytes", st.binary(max_size=8)),
    (lambda name: logical("int", "date"), DAYS),
    (lambda name: logical("long", "timestamp-micros"), in_utc(MOMENTS)),
    (lambda name: logical("long", "timestamp-millis"), in_utc(MILLIS)),
    (lambda name: logical("long", "local-timestamp-micros"), MOMENTS),
    (lambda name: logical("long", "local-timestamp-millis"), MILLIS),
    (lambda name: logical("bytes", "decimal", precision=12, scale=3), decimals(12, 3)),
    (lambda name: logical("bytes", "decimal", precision=38, scale=38), decimals(28, 28)),
    (lambda name: logical("fixed", "decimal", name=name, size=7, precision=16, scale=5), decimals(16, 5)),
    (lambda name: logical("fixed", "decimal", name=name, size=16, precision=38, scale=0), decimals(28, 0)),
    (lambda name: {"type": "fixed", "name": name, "size": 3}, st.binary(min_size=3, max_size=3)),
    (lambda name: {"type": "enum", "name": name, "symbols": ["A", "Bb", "c"]}, st.sampled_from(["A", "Bb", "c"])),
    (lambda name: logical("string", "uuid"), st.uuids().map(str)),
]


def extended(kinds):
    """Types of types: nullable in both orders, arrays, maps, records."""
    number = st.integers(0, 10**9)

    def record(kinds_of_fields, number):
        fields = [{"name": f"f{place}", "type": kind} for place, (kind, _) in enumerate(kinds_of_fields)]
        values = st.fixed_dictionaries({f"f{place}": value for place, (_, value) in enumerate(kinds_of_fields)})
        return {"type": "record", "name": f"r{number}", "namespace": f"n{number}", "fields": fields}, values

    return st.one_of(
        kinds.filter(lambda kind: not isinstance(kind[0], list)).flatmap(
            lambda kind: st.sampled_from([["null", kind[0]], [kind[0], "null"]]).map(
                lambda union: (union, st.none() | kind[1])
            )
        ),
        kinds.map(lambda kind: ({"type": "array", "items": kind[0]}, st.lists(kind[1], max_size=3))),
        kinds.map(
            lambda kind: ({"type": "map", "values": kind[0]}, st.dictionaries(st.text(max_size=3), kind[1], max_size=3))
        ),
        st.builds(record, st.lists(kinds, min_size=1, max_size=3), number),
    )


LEAVES = st.tuples(st.sampled_from(PLAIN), st.integers(0, 10**9)).map(
    lambda drawn: (drawn[0][0](f"t{drawn[1]}"), drawn[0][1])
)
KINDS = st.recursive(LEAVES, extended, max_leaves=5)


def distinct_names(node, seen):
    """A copy in which each named type has a name of its own: Avro allows none twice."""
    if isinstance(node, list):
        return [distinct_names(branch, seen) for branch in node]
    if not isinstance(node, dict):
        return node
    node = {key: distinct_names(value, seen) if key != "symbols" else value for key, value in node.items()}
    if node.get("type") in ("record", "enum", "fixed"):
        seen.append(node["name"])
        node["name"] = f"{node['name']}_{len(seen)}"
    return node


@settings(max_examples=120)
@given(st.data())
def test_datafusion_decodes_what_fastavro_encodes(data):
    kinds = data.draw(st.lists(KINDS, min_size=1, max_size=4))
    fields = [{"name": f"c{place}", "type": kind} for place, (kind, _) in enumerate(kinds)]
    schema = json.dumps(distinct_names({"type": "record", "name": "row", "fields": fields}, []))
    row = st.fixed_dictionaries({f"c{place}": values for place, (_, values) in enumerate(kinds)})
    rows = data.draw(st.lists(row, max_size=5))
    content = memoryview(avro_content(schema, rows))
    (count,) = struct.unpack_from(">i", content, 4)
    table = decode_records(schema, [(count, content[8:])], None, SCRATCH)
    assert table.schema == arrow_schema(schema)
    table.validate(full=True)
    assert table.to_pylist(maps_as_pydicts="strict") == rows
    some = data.draw(st.lists(st.sampled_from(table.column_names), unique=True))
    assert decode_records(schema, [(count, content[8:])], some, SCRATCH).to_pylist(maps_as_pydicts="strict") == [
        {name: row[name] for name in some} for row in rows
    ]
