"""`lakebed archive`: what it prints, does, and exits with."""

import json
from pathlib import Path

import pytest

from lakebed.cli import main
from tests.golden import names, unpack
from tests.tables.hudi.timelines import Lake, at, times

BOUNDS = ["-o", "hoodie.keep.min.commits=2", "-o", "hoodie.keep.max.commits=3", "-o", "hoodie.clean.commits.retained=1"]


def lakebed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        main(["archive", *arguments])
    out, err = capsys.readouterr()
    return int(stop.value.code or 0), out, err


def test_a_dry_run_shows_what_stays_and_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake = Lake(tmp_path)
    lake.commit(*range(1, 10))
    lake.savepoint(4)
    code, out, err = lakebed(capsys, str(tmp_path), "--dry-run", *BOUNDS)
    assert code == 0
    assert "hoodie.keep.max.commits" in out and "3: as given" in out
    assert f"the savepoint of {at(4)} holds every commit" in out
    assert "3 instants would leave the active timeline" in err
    assert lake.archived() == []


def test_json_is_one_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake = Lake(tmp_path)
    lake.commit(*range(1, 10))
    code, out, _ = lakebed(capsys, str(tmp_path), "--json", *BOUNDS)
    document = json.loads(out)
    assert (code, document["format"], document["archived"]) == (0, "hudi", times(range(1, 8)))
    assert (document["kept"], document["blockers"], document["dry_run"]) == (times([8, 9]), [], False)
    assert lake.archived() == times(range(1, 8))


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["-o", "hoodie.keep.max.comits=3"], 2, "Did you mean 'hoodie.keep.max.commits'?"),
        (["-o", "hoodie.keep.min.commits=5", "-o", "hoodie.keep.max.commits=4"], 2, "begins above the maximum"),
    ],
)
def test_wrong_use_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, says: str
) -> None:
    Lake(tmp_path).commit(1)
    found, _, err = lakebed(capsys, str(tmp_path), *arguments)
    assert found == code
    assert says in err and len(err.strip().splitlines()) == 1


def test_a_table_of_another_format_has_no_archive(capsys: pytest.CaptureFixture[str]) -> None:
    folder = unpack("paimon", names("paimon")[0])
    code, _, err = lakebed(capsys, str(folder))
    assert code == 1
    assert "paimon tables have no archive" in err
