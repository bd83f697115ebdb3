"""How values show in notebooks, and short in consoles."""

from __future__ import annotations

import copy
import pickle
from xml.etree import ElementTree

import pytest

import lakebed
from lakebed.model.commit import CommitResult, Outcome
from lakebed.model.instant import Instant
from lakebed.model.notebooks import ShownList
from lakebed.model.report import Finding, Health, TableReport
from lakebed.model.upkeep import ExpireResult, Skipped
from lakebed.redaction import keep_secret


def texts(html: str) -> list[str]:
    """The texts of a piece of HTML, which must be well formed."""
    return [text.strip() for text in ElementTree.fromstring(f"<div>{html}</div>").itertext() if text.strip()]


def test_a_result_is_a_table_of_its_fields() -> None:
    shown = texts(CommitResult("7", Outcome.COMMITTED, ("a <note>",), 3, 1)._repr_html_())
    assert shown == [
        "CommitResult",
        "instant",
        "7",
        "outcome",
        "committed",
        "notes",
        "a <note>",
        "rows",
        "3",
        "files",
        "1",
    ]


def test_long_lists_are_cut() -> None:
    result = ExpireResult(("1",), tuple(f"file-{number}" for number in range(1000)), (Skipped("2", "newest"),))
    assert "... 995 more)" in repr(result) and "file-5" not in repr(result)
    shown = texts(result._repr_html_())
    assert "file-19" in shown and "file-20" not in shown and "... 980 more" in shown
    assert shown[-5:-2] == ["what", "reason", "2"] or "newest" in shown


def test_a_report_begins_with_the_health() -> None:
    report = TableReport("t", "hudi", {"files": {"bytes": 1}}, (Finding(Health.BROKEN, "a file is gone"),))
    assert texts(report._repr_html_())[:2] == ["health:", "broken"]


def test_a_history_is_one_table_and_a_list() -> None:
    history = lakebed.open(lakebed.example("orders")).history()
    assert isinstance(history, list) and isinstance(history, ShownList)
    assert texts(history._repr_html_())[:4] == ["time", "completed", "action", "state"]
    assert pickle.loads(pickle.dumps(history)) == history == copy.copy(history)
    assert ShownList[Instant]()._repr_html_() == "<i>none</i>"


def test_a_table_shows_its_columns() -> None:
    shown = texts(lakebed.open(lakebed.example("orders"))._repr_html_())
    assert shown[0].startswith("lakebed hudi table ") and shown[-2:] == ["dt", "string"]


@pytest.mark.parametrize("text", ["top-secret-value", "s3://user:hidden1@bucket/x"])
def test_secrets_are_not_shown(text: str) -> None:
    keep_secret("top-secret-value")
    assert text not in CommitResult("1", Outcome.COMMITTED, (text,))._repr_html_()
