"""A plan of a table service that names what is no log file."""

from pathlib import Path

import pytest

import lakebed
from lakebed.errors import LakebedError
from tests.confinement import documents, tables


@pytest.mark.parametrize(
    ("name", "place", "what"),
    [
        ("consistent_hash_h015", "clusteringPlan.inputGroups.*.slices.*.deltaFilePaths.*", "clustering"),
        ("mor_v6", "operations.*.deltaFilePaths.*", "compaction"),
    ],
    ids=["clustering", "compaction"],
)
def test_it_is_refused_by_name(name: str, place: str, what: str, tmp_path: Path) -> None:
    content = tables.MADE[f"hudi {name}"]("", {})
    for path in [path for path in content if path.endswith(("replacecommit.requested", "compaction.requested"))]:
        content[path] = documents.edited(content[path], place, lambda _: "no log")
    tables.lay(content, tmp_path / "t")
    with pytest.raises(LakebedError, match="no log"):
        lakebed.open(tmp_path / "t").rewrite(options={"lakebed.rewrite.what": what})
