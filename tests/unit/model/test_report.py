"""A report's health is its worst finding, its advice each remedy once."""

from lakebed.model.report import Finding, Health, TableReport
from lakebed.model.upkeep import Blocker


def test_a_report_without_findings_is_good() -> None:
    assert TableReport("t", "hudi").health is Health.GOOD
    assert TableReport("t", "hudi").advice == ()


def test_health_is_the_worst_finding_and_advice_names_each_remedy_once() -> None:
    report = TableReport(
        "t",
        "hudi",
        findings=(
            Finding(Health.ATTENTION, "many small files", remedy="rewrite"),
            Finding(Health.BROKEN, "a file is missing"),
            Finding(Health.GOOD, "archived"),
        ),
        blockers=(Blocker("1", "inflight", "roll it back"), Blocker("2", "inflight", "rewrite")),
    )
    assert report.health is Health.BROKEN
    assert report.advice == ("rewrite", "roll it back")
