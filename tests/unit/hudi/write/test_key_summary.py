"""What footers say of record keys, where a file takes over the keys of an older one."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakebed
from lakebed.formats.hudi.codec.bloom import FilterSettings, FilterType, parse_filter
from lakebed.formats.hudi.index.base_files import _groups_with
from lakebed.formats.hudi.layout import RECORD_KEY
from lakebed.formats.hudi.write.key_summary import BLOOM, BLOOM_KIND, GREATEST, LEAST, KeySummary


def texts(first: int, end: int) -> pa.Array:
    return pa.array([f"k{n:05}" for n in range(first, end)])


def footer_of(settings: FilterSettings | None, keys: pa.Array) -> dict[bytes, bytes]:
    summary = KeySummary(settings)
    summary.add(keys)
    return {name.encode(): value.encode() for name, value in summary.footer().items()}


@pytest.mark.parametrize("kind", [FilterType.SIMPLE, FilterType.DYNAMIC])
def test_a_continued_summary_has_the_old_keys_and_the_new_ones(kind: FilterType) -> None:
    settings = FilterSettings(kind, 100, 1e-6, 300)
    old, new = texts(50, 200), texts(0, 260)
    summary = KeySummary.continued(settings, footer_of(settings, old))
    assert summary is not None
    summary.add_new(new)
    summary.add(texts(900, 950))  # rows that are written add nothing more
    footer = summary.footer()
    assert (footer[LEAST], footer[GREATEST]) == ("k00000", "k00259")
    found = parse_filter(footer[BLOOM].encode(), footer[BLOOM_KIND])
    assert found.may_have(new).all()
    assert found.may_have(texts(900, 950)).mean() < 0.2
    assert len(found.parts) == (3 if kind is FilterType.DYNAMIC else 1)


def test_keys_that_are_there_take_no_room() -> None:
    settings = FilterSettings(FilterType.DYNAMIC, 100, 1e-6, 300)
    first = footer_of(settings, texts(0, 90))
    again = KeySummary.continued(settings, first)
    assert again is not None
    again.add_new(texts(0, 90))
    assert again.footer()[BLOOM].encode() == first[BLOOM.encode()]


def test_other_filters_are_built_anew() -> None:
    settings = FilterSettings(FilterType.DYNAMIC, 100, 1e-6, 300)
    footer = footer_of(settings, texts(0, 9))
    others = [FilterSettings(FilterType.SIMPLE, 100, 1e-6), FilterSettings(entries=90), FilterSettings(wrong=1e-3)]
    assert all(KeySummary.continued(other, footer) is None for other in others)
    assert KeySummary.continued(settings, {**footer, BLOOM.encode(): b"AAAA"}) is None
    assert KeySummary.continued(settings, footer_of(None, texts(0, 9))) is None
    assert KeySummary.continued(settings, {}) is None


def test_a_file_that_replaces_another_has_its_keys_and_the_new_ones(tmp_path: Path) -> None:
    table = lakebed.create(
        tmp_path / "t", "hudi", pa.schema([("k", pa.string()), ("v", pa.int64())]), primary_key=["k"]
    )
    table.write(rows_of(texts(10, 30)))
    table.write(rows_of(texts(5, 35)), mode="upsert")
    footer = newest_footer(tmp_path)
    assert (footer[LEAST], footer[GREATEST]) == ("k00005", "k00034")
    assert parse_filter(footer[BLOOM].encode(), footer[BLOOM_KIND]).may_have(texts(5, 35)).all()
    table.write(rows_of(texts(5, 20)).select(["k"]), mode="delete")
    footer = newest_footer(tmp_path)
    assert (footer[LEAST], footer[GREATEST]) == ("k00020", "k00034")
    assert not parse_filter(footer[BLOOM].encode(), footer[BLOOM_KIND]).may_have(texts(5, 20)).any()


def test_only_row_groups_that_can_have_a_key_are_searched(tmp_path: Path) -> None:
    pq.write_table(pa.table({RECORD_KEY: texts(0, 300)}), tmp_path / "f.parquet", row_group_size=100)
    file = pq.ParquetFile(tmp_path / "f.parquet")
    assert _groups_with(file, texts(120, 130)) == [1]
    assert _groups_with(file, pa.array(["k00050", "k00250"])) == [0, 2]
    assert _groups_with(file, texts(300, 310)) == []
    pq.write_table(
        pa.table({RECORD_KEY: texts(0, 300)}), tmp_path / "g.parquet", row_group_size=100, write_statistics=False
    )
    assert _groups_with(pq.ParquetFile(tmp_path / "g.parquet"), texts(0, 1)) == [0, 1, 2]


def rows_of(keys: pa.Array) -> pa.Table:
    return pa.table({"k": keys, "v": pa.array(range(len(keys)), pa.int64())})


def newest_footer(folder: Path) -> dict[str, str]:
    newest = max((folder / "t").glob("*.parquet"), key=lambda path: path.stem.rpartition("_")[2])
    footer = pq.read_metadata(newest).metadata
    return {name.decode(): value.decode() for name, value in footer.items()}
