"""Numbers of buckets by partition: which rule counts, the file that keeps them, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import lakebed
from lakebed import Table
from lakebed.errors import CorruptError, LakebedError, OptionError, UnsupportedError
from lakebed.formats.hudi.codec.bucket_rules import BucketRules, encode_rules
from lakebed.formats.hudi.index.bucket_rule_files import load_rules
from lakebed.formats.hudi.table import HudiTable

RULES = "hoodie.bucket.index.partition.expressions"
MADE = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2", RULES: r"2024-\d\d,3;2023,5"}
KEPT = Path(".hoodie") / ".bucket_index" / "partition_bucket_index_meta" / "configs"


def rows(first: int, dt: str, count: int = 60) -> pa.Table:
    return pa.table({"id": [f"k{n}" for n in range(first, first + count)], "dt": [dt] * count})


def created(folder: Path, kind: str = "COPY_ON_WRITE", **more: str) -> Table:
    made = {**MADE, **more, "hoodie.datasource.write.table.type": kind}
    return lakebed.create(folder / "t", "hudi", rows(0, "x").schema, ["id"], ["dt"], made)


def buckets(table: Table) -> dict[str, int]:
    """The number of buckets with a base file, by partition."""
    files = Path(table.location).glob("*/*.parquet")
    numbers: dict[str, set[str]] = {}
    for file in files:
        numbers.setdefault(file.parent.name, set()).add(file.name[:8])
    return {partition: len(some) for partition, some in numbers.items()}


def test_the_first_rule_that_is_found_in_the_path_counts() -> None:
    rules = BucketRules.of("^a,3; b+ , 5;,7;", "regex", 2, "t")
    assert [rules.count(path) for path in ("ab", "xab", "b", "x")] == [3, 5, 5, 7]
    assert BucketRules.of("a,3", "REGEX", 2, "t").count("x") == 2
    assert BucketRules.of("", "anything", 2, "t").count("a") == 2


@pytest.mark.parametrize("text", ["a", "a,b,3", "a,0", "a,-1", "a,1_0", "a,3;;b,4", "(,3", "a,"])
def test_texts_that_are_no_rules(text: str) -> None:
    with pytest.raises((OptionError, UnsupportedError)):
        BucketRules.of(text, "regex", 2, "t")


@pytest.mark.parametrize("text", [r"\p{L}", "[a&&b]", "(?<n>a)", r"\Qa\E", "[[a]b]", r"a\Z", "(?i)a", r"\bx"])
def test_expressions_that_java_may_read_in_another_way(text: str) -> None:
    with pytest.raises(UnsupportedError, match="Java"):
        BucketRules.of(f"{text},3", "regex", 2, "t")


def test_a_table_keeps_its_rules_from_its_first_write_on(tmp_path: Path) -> None:
    table = created(tmp_path)
    file = Path(table.location) / KEPT / "00000000000000.hashing_config"
    assert not file.exists()
    for dt in ("2024-01", "2023-01", "2022-01"):
        table.write(rows(0, dt), "upsert")
    assert buckets(table) == {"2024-01": 3, "2023-01": 5, "2022-01": 2}
    assert json.loads(file.read_text()) == {
        "expressions": MADE[RULES], "defaultBucketNumber": 2, "rule": "regex", "version": 1, "instant": "00000000000000"
    }  # fmt: skip
    before = file.read_bytes()
    result = lakebed.open(table.location).write(rows(30, "2024-01"), "upsert", {RULES: "x,9"})
    assert any("2024" in note and "else 2" in note for note in result.notes)
    assert file.read_bytes() == before and buckets(table)["2024-01"] == 3
    assert table.read().read_all().num_rows == 60 + 60 + 90
    table.write(rows(0, "2023-01", 5), "delete")
    table.write(rows(0, "2023-02", 9), "overwrite")
    assert table.read().read_all().num_rows == 60 + 55 + 90 + 9


def test_rules_of_a_rescaling_count_once_it_is_completed_and_go_with_it(tmp_path: Path) -> None:
    table = created(tmp_path)
    table.write(rows(0, "2024-01"), "upsert")
    folder = Path(table.location) / KEPT
    pending, instant = Path(table.location) / ".hoodie" / "timeline", "20990101000000000"
    rescaled = BucketRules.of("2024,8", "regex", 4, "t")
    (folder / f"{instant}.hashing_config").write_bytes(encode_rules(rescaled, instant))

    def newest() -> BucketRules | None:
        opened = lakebed.open(table.location)
        assert isinstance(opened, HudiTable)
        return load_rules(opened.state())

    assert newest() == rescaled
    (pending / f"{instant}.replacecommit.requested").write_bytes(b"")
    assert newest() != rescaled
    (pending / f"{instant}.replacecommit.requested").unlink()
    (folder / f"{instant}.hashing_config").write_text("{}")
    with pytest.raises(CorruptError, match="hashing_config"):
        table.write(rows(0, "2024-01"), "upsert")


def test_rules_that_no_engine_follows_make_no_table(tmp_path: Path) -> None:
    for more in (
        {"hoodie.index.bucket.engine": "CONSISTENT_HASHING"},
        {"hoodie.bucket.index.partition.rule.type": "x"},
    ):
        with pytest.raises(LakebedError, match=r"by partition|type"):
            created(tmp_path, "MERGE_ON_READ", **more)
    assert not (tmp_path / "t" / ".hoodie").exists()
