"""`lakebed inspect`: sections for people, one JSON document, and a page that needs no network."""

import json
from html.parser import HTMLParser
from pathlib import Path

import pyarrow as pa
import pytest

import lakebed
from lakebed.cli import main
from lakebed.cli.report_page import figure_text, report_page
from lakebed.model.fixes import Fix
from lakebed.model.report import Figure, Finding, Health, TableReport
from lakebed.model.upkeep import Blocker
from tests.golden import unpack

SICK = TableReport(
    "/lake/<b>orders</b>",
    "hudi",
    {"files": {"bytes": 3 << 30, "file groups": 12345, "oldest": ""}, "timeline": {"share": 0.256}},
    (
        Finding(Health.BROKEN, "a file & more are gone", "<script>alert(1)</script>", "Restore them"),
        Finding(Health.ATTENTION, "compaction is due", fix=Fix("rewrite", (("what", "x y"),))),
    ),
    (Blocker("1", "held", "free it"), Blocker("2", "held", "free it"), Blocker("3", "other", "")),
)
FIX = {
    "command": "lakebed rewrite '/lake/<b>orders</b>' --option 'what=x y'",
    "sql": "SELECT * FROM lakebed_rewrite('/lake/<b>orders</b>', options => map('what', 'x y'))",
    "python": "lakebed.open('/lake/<b>orders</b>').rewrite(options={'what': 'x y'})",
}


def command(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        main(["inspect", *arguments])
    out, err = capsys.readouterr()
    return int(stop.value.code or 0), out, err


@pytest.fixture
def sick(monkeypatch: pytest.MonkeyPatch) -> None:
    class Opened:
        def inspect(self, options: object) -> TableReport:
            return SICK

    monkeypatch.setattr(lakebed, "open", lambda *_: Opened())


def test_people_see_sections_findings_and_what_stays(capsys: pytest.CaptureFixture[str], sick: None) -> None:
    code, out, _ = command(capsys, "t")
    assert code == 0
    lines = [line.split() for line in out.splitlines()]
    assert ["bytes", "3.0", "GB"] in lines and ["file", "groups", "12,345"] in lines and ["oldest", "-"] in lines
    assert "broken     a file & more are gone  <script>alert(1)</script>  Restore them" in out
    assert ["2", "1", "2", "held", "free", "it"] in lines
    assert f"  {FIX['command']}" in out.splitlines()
    assert out.rstrip().endswith("/lake/<b>orders</b> (hudi): broken")


def test_the_exit_code_says_whether_a_table_is_as_bad_as_that(capsys: pytest.CaptureFixture[str], sick: None) -> None:
    for bound, code in (("broken", 1), ("attention", 1)):
        assert command(capsys, "t", "--fail-on", bound)[0] == code
    assert command(capsys, "t", "--fail-on", "worse")[0] == 2


def test_of_many_tables_the_worst_come_first(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        lakebed.create(tmp_path / name, "iceberg", {"id": "int64"}).write(pa.table({"id": [1]}))
    (tmp_path / "d" / ".hoodie").mkdir(parents=True)
    for _ in range(5):
        lakebed.open(tmp_path / "b").write(pa.table({"id": [1]}))
    next((tmp_path / "c" / "metadata").glob("*.avro")).unlink()
    code, out, _ = command(capsys, str(tmp_path), "--json")
    found = [(Path(table["name"]).name, table.get("health")) for table in json.loads(out)["tables"]]
    assert code == 1 and found == [("d", None), ("c", "broken"), ("b", "attention"), ("a", "good")]
    code, out, _ = command(capsys, f"{tmp_path}/[abc]", "--fail-on", "attention")
    assert code == 1 and [line.split(":")[1].split()[0] for line in out.splitlines()] == ["broken", "attention", "good"]
    code, _, err = command(capsys, f"{tmp_path}/[ab]", "--fail-on", "broken")
    assert code == 0 and "2 tables, 0 failed" in err


def test_json_is_one_document(capsys: pytest.CaptureFixture[str], sick: None) -> None:
    code, out, _ = command(capsys, "t", "--json")
    document = json.loads(out)
    assert (code, document["health"], document["advice"]) == (0, "broken", ["Restore them", "free it"])
    assert document["figures"]["files"]["file groups"] == 12345
    assert document["findings"][1] == {
        "health": "attention",
        "what": "compaction is due",
        "why": "",
        "remedy": "",
        "fix": FIX,
    }
    assert document["blockers"][2] == {"instant": "3", "reason": "other", "remedy": ""}


class _Page(HTMLParser):
    """The tags of a page, and what it would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.fetched: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in ("meta", "br"):
            self.open.append(tag)
        self.fetched += [str(value) for name, value in attrs if name in ("src", "href")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_is_whole_escaped_and_needs_no_network() -> None:
    page = _Page()
    page.feed(text := report_page(SICK))
    assert page.open == [] and page.fetched == [] and "script" not in page.tags and "http" not in text
    assert "/lake/<b>orders</b>" in page.text and "<script>alert(1)</script>" in page.text
    assert (
        page.tags.count("li") == 2
        and FIX["sql"] in page.text
        and page.tags.count("table") == 3
        and "what stays and why" in page.text
    )
    empty = report_page(TableReport("/t", "paimon"))
    assert "No problems found." in empty and "what stays" not in empty


def test_the_page_is_written_beside_either_output(
    capsys: pytest.CaptureFixture[str], sick: None, tmp_path: Path
) -> None:
    file = tmp_path / "report.html"
    code, out, err = command(capsys, "t", "--json", "--html", str(file))
    assert (code, json.loads(out)["format"]) == (0, "hudi") and str(file) in err
    assert file.read_text(encoding="utf-8") == report_page(SICK)
    code, _, err = command(capsys, "t", "--html", str(tmp_path / "no/such/report.html"))
    assert code == 2 and "cannot write --html" in err and len(err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("bytes", 0, "0 bytes"), ("log bytes", 1536, "1.5 KB"), ("bytes", 1 << 50, "1,024.0 TB"),
        ("files", 1536, "1,536"),
        ("share", 0.5, "0.50"), ("oldest", None, "-"), ("oldest", "x", "x"), ("bytes", "unknown", "unknown"),
    ],
)  # fmt: skip
def test_figures_for_people(name: str, value: Figure, text: str) -> None:
    assert figure_text(name, value) == text


def test_a_real_table(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = command(capsys, str(unpack("hudi", "archived_savepoint_v6")))
    assert code == 0
    assert (
        "copy-on-write" in out and "last archived" in out and "can be restored" in out and out.rstrip().endswith("good")
    )


def test_wrong_use_is_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for arguments, code in (([str(tmp_path)], 1), ([str(tmp_path / "missing")], 1), ([], 2), (["t", "--htm", "x"], 2)):
        found, _, err = command(capsys, *arguments)
        assert found == code and len(err.strip().splitlines()) == 1
