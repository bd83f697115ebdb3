"""The strategies give what they say, so that properties of formats rest on them."""

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.model.rowkind import SHORT_NAMES
from lakebed.testing import strategies


@given(strategies.schemas(keys=2).flatmap(lambda schema: st.tuples(st.just(schema), strategies.tables(schema))))
@settings(max_examples=25, deadline=None)
def test_tables_have_their_schema_and_are_valid(drawn: tuple[pa.Schema, pa.Table]) -> None:
    schema, table = drawn
    table.validate(full=True)
    assert table.schema.equals(schema) and table.num_rows <= 20
    assert schema.names[:2] == ["k0", "k1"] and table["k0"].null_count == 0


@given(st.data())
@settings(max_examples=50, deadline=None)
def test_chunkings_keep_all_rows_in_order(data: st.DataObject) -> None:
    schema = pa.schema([("id", pa.int64()), ("text", pa.string())])
    table = data.draw(strategies.row_kind_tables(schema))
    batches = data.draw(strategies.chunkings(table))
    assert pa.Table.from_batches(batches, table.schema).equals(table)
    assert set(table["_row_kind"].to_pylist()) <= set(SHORT_NAMES)
    assert 1 <= len(batches) <= 5
