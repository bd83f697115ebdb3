"""Damaged tables end in rows or in an error by name; `tests/property/mutations.py` looks for longer."""

from pathlib import Path

from tests.property.mutations import tables, trials


def test_damaged_tables_end_in_rows_or_in_an_error_by_name(tmp_path: Path) -> None:
    assert list(trials(tables(tmp_path), seed=20_000, count=60)) == []
