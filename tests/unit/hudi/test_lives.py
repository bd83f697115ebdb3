"""The lives that lakebed and Hudi's releases share in the checks name every shape of a table that matters."""

from tests.interop.hudi_lives import ALWAYS, LIVES, shapes
from tests.interop.hudi_shape import INDEXES, VERSIONS, Shape

SHAPES = [shape for _, shape in shapes()]


def kind(shape: Shape) -> str:
    return "mor" if shape.merge_on_read else "cow"


def test_some_life_has_each_value_of_each_field() -> None:
    lacking = {
        name: [value for value in values if value not in {getattr(shape, name) for shape in SHAPES}]
        for name, values in ALWAYS.items()
    }
    assert not {name: values for name, values in lacking.items() if values}
    assert any(not shape.keys for shape in SHAPES) and any(len(shape.keys) > 1 for shape in SHAPES)


def test_each_index_lives_in_each_type_of_table() -> None:
    wanted = {(index, kind) for index in INDEXES for kind in ("mor", "cow")} - {("CONSISTENT", "cow")}
    assert {(shape.index, kind(shape)) for shape in SHAPES} == wanted


def test_each_release_lives_in_each_version_that_it_writes_and_in_each_type() -> None:
    assert {(shape.release, shape.version) for shape in SHAPES} == {(r, v) for r in LIVES for v in VERSIONS[r]}
    assert {(shape.version, kind(shape)) for shape in SHAPES} == {(v, k) for v in (6, 8, 9) for k in ("mor", "cow")}


def test_each_way_to_make_partitions_lives_in_two_tables_of_different_versions_or_types() -> None:
    having: dict[str, set[tuple[int, str]]] = {}
    for shape in SHAPES:
        having.setdefault(shape.partitioning, set()).add((shape.version, kind(shape)))
    assert {name for name, tables in having.items() if len(tables) < 2} == set()


def test_ranges_of_partitions_are_kept_in_some_life() -> None:
    assert any(shape.options.get("hoodie.metadata.index.partition.stats.enable") == "true" for shape in SHAPES)
