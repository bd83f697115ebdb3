"""The pictures of reports: what is counted, that a picture stays small and inside its frame, and hostile names."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import UsageError
from lakebed.model.drawing import WIDTH, drawn, stacked
from lakebed.model.pictures import (
    Bars,
    Columns,
    Look,
    Mark,
    Picture,
    State,
    Steps,
    Timeline,
    Unit,
    by_age,
    file_sizes,
    growth,
    largest,
    numbers,
    timeline,
)
from lakebed.model.report import TableReport
from lakebed.model.units import moment_text, short_count, short_size, size_text
from tests.golden import unpack

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "a</text><script>alert(1)</script>\x00\ud800&\"'" + "n" * 300
HOUR, DAY = 3_600_000, 86_400_000


def known(picture: Picture | None) -> Picture:
    """A picture that is there."""
    assert picture is not None
    return picture


def test_sizes_are_counted_by_power_of_two_against_the_target() -> None:
    picture = known(file_sizes({10: 3, 12: 2, 20: 1}, target=1 << 20, least=3 << 18))
    assert isinstance(picture, Columns) and picture.line == (10.0, "target 1 MB")
    assert [(bar.label, bar.value) for bar in picture.bars if bar.value] == [("1 KB", 3), ("4 KB", 2), ("1 MB", 1)]
    looks = [bar.look for bar in picture.bars]
    assert looks[:9] == [Look.FLAGGED] * 9 and looks[9:] == [Look.PLAIN] * 2  # 512 KB to 1 MB may be large enough
    assert picture.note == "6 files, 5 of them much smaller than the target (dashed)"
    assert file_sizes({}, 1 << 20, 1) is None and file_sizes({3: 0}, 1 << 20, 1) is None
    many = known(file_sizes(dict.fromkeys(range(50), 1), 1 << 20, 1))
    assert isinstance(many, Columns) and len(many.bars) == 18 and sum(bar.value for bar in many.bars) == 50


def test_the_largest_places_come_first() -> None:
    sizes = {f"p={n}": n for n in range(1, 101)}
    picture = known(largest("Partitions", sizes, dict.fromkeys(sizes, 2), "partitions"))
    assert isinstance(picture, Bars) and [bar.value for bar in picture.bars] == list(range(100, 88, -1))
    assert picture.note == "100 partitions, the middle one has 51 bytes; the 12 largest are shown"
    assert largest("Partitions", {"one": 1}, {"one": 1}, "partitions") is None


def test_ages_fall_into_five_classes() -> None:
    ages = [(0, 1), (HOUR - 1, 1), (HOUR, 4), (DAY, 8), (7 * DAY, 16), (30 * DAY, 32), (9_999 * DAY, 32), (-5, 1)]
    picture = known(by_age("Deletes", "", Unit.ROWS, ages))
    assert isinstance(picture, Columns) and [bar.value for bar in picture.bars] == [3, 4, 8, 16, 64]
    assert [bar.told for bar in picture.bars][1:] == [
        "4 rows, under 1 day old", "8 rows, under 1 week old", "16 rows, under 30 days old",
        "64 rows, 30 days old or older",
    ]  # fmt: skip
    assert by_age("Deletes", "", Unit.ROWS, [(1, 0)]) is None


def test_a_picture_of_a_large_table_stays_small() -> None:
    steps = known(growth("Rows", "", Unit.ROWS, ((n, n * 10) for n in range(100_000))))
    assert isinstance(steps, Steps) and len(steps.points) <= 401 and steps.points[-1] == (99_999, 999_990)
    marks = (Mark(n, "commit", State.DONE, str(n)) for n in range(100_000))
    lane = known(timeline("Timeline", [*marks, Mark(7, "clean", State.PENDING, "clean 7")], ["a savepoint", "x"]))
    assert isinstance(lane, Timeline) and len(lane.marks) <= 403
    assert [mark.told for mark in lane.marks if mark.state is State.PENDING] == ["clean 7"]
    assert lane.note == "100,001 in all, 1 pending (rings). Held: a savepoint, and 1 more reasons"
    assert numbers(lane)[1][0] == ("1970-01-01 00:00:00", "clean 7") and len(numbers(lane)[1]) == 60
    assert growth("Rows", "", Unit.ROWS, [(1, 1)]) is None and timeline("Timeline", []) is None


def pictures() -> list[Picture]:
    """One of each kind, with hostile names and extreme values."""
    many = {f"{n}{HOSTILE}": 1 << n for n in range(60)}
    found = (
        file_sizes({0: 1, 62: 10**12}, 1 << 62, 1),
        file_sizes({5: 1}, 1, 1),
        largest(HOSTILE, many, dict.fromkeys(many, 1), HOSTILE),
        by_age(HOSTILE, HOSTILE, Unit.FILES, [(0, 10**15), (40 * DAY, 1)]),
        growth(HOSTILE, HOSTILE, Unit.BYTES, [(-(10**18), 0), (10**18, 1 << 62)]),
        growth("one moment", "", Unit.ROWS, [(5, 0), (5, 0)]),
        timeline(
            HOSTILE, [Mark(n * DAY, f"{state}{HOSTILE}", state, HOSTILE) for n, state in enumerate(State)], [HOSTILE]
        ),
        timeline("one moment", [Mark(0, "commit", State.HELD, "x")]),
    )
    return [known(picture) for picture in found]


@pytest.mark.parametrize("picture", pictures(), ids=lambda picture: type(picture).__name__)
def test_a_drawing_is_well_formed_escaped_and_inside_its_frame(picture: Picture) -> None:
    root = ElementTree.fromstring(drawn(picture).encode())
    height = float(root.get("viewBox", "").split()[3])
    assert root.tag == f"{SVG}svg" and root.get("role") == "img" and root.find(f"{SVG}title") is not None
    assert not root.findall(f".//{SVG}script") and "url(" not in drawn(picture)
    for element in root.iter():
        for name, most in (("x", WIDTH), ("x1", WIDTH), ("x2", WIDTH), ("cx", WIDTH), ("y", height), ("cy", height)):
            if name in element.attrib:
                assert 0 <= float(element.attrib[name]) <= most, ElementTree.tostring(element)
    for rect in root.iter(f"{SVG}rect"):
        assert float(rect.attrib["x"]) + float(rect.attrib["width"]) <= WIDTH
        assert float(rect.attrib["y"]) + float(rect.attrib["height"]) <= height
    for text in root.iter(f"{SVG}text"):  # about 7 units for a character of 12
        assert len(text.text or "") * 5 <= WIDTH or text.get("class") == "title"


def test_units() -> None:
    assert [size_text(n) for n in (0, 1023, 1536, 3 << 30, 1 << 50)] == [
        "0 bytes", "1,023 bytes", "1.5 KB", "3.0 GB", "1,024.0 TB",
    ]  # fmt: skip
    assert [short_size(n) for n in (0, 1536, 64 << 20)] == ["0 B", "1.5 KB", "64 MB"]
    assert [short_count(n) for n in (0, 950, 1200, 3_000_000, 25 * 10**8)] == ["0", "950", "1.2k", "3M", "2.5G"]
    assert moment_text(0) == "1970-01-01 00:00" and moment_text(10**18) == str(10**18)


def test_pictures_are_saved_as_svg_or_html(tmp_path: Path) -> None:
    drawing = TableReport("/lake/<b>", "hudi", drawn=tuple(pictures())).plot()
    drawing.save(tmp_path / "p.svg")
    ElementTree.parse(tmp_path / "p.svg")
    drawing.save(tmp_path / "p.HTML")
    page = (tmp_path / "p.HTML").read_text(encoding="utf-8")
    assert page.count("<svg") == len(pictures()) and "/lake/&lt;b&gt;" in page and "<script" not in page
    with pytest.raises(UsageError, match=r"p\.png.*\.svg or \.html"):
        drawing.save(tmp_path / "p.png")
    with pytest.raises(UsageError, match="cannot write"):
        drawing.save(tmp_path / "no" / "p.svg")
    assert "<svg" in stacked([], "nothing")


def counted(report: TableReport, title: str) -> int:
    """What the bars of a picture come to."""
    picture = next(picture for picture in report.pictures if picture.title == title)
    assert isinstance(picture, Columns | Bars)
    return sum(bar.value for bar in picture.bars)


def test_the_pictures_of_tables_that_the_engines_wrote() -> None:
    """The sums are those of the report's figures, which other tests compare with the engines' own."""
    hudi = lakebed.open(unpack("hudi", "mor_v8")).inspect()
    files = hudi.figures["files"]
    assert counted(hudi, "File sizes against the target") == 5 and counted(hudi, "Partitions by size") == files["bytes"]
    assert counted(hudi, "Log files by age") == files["log files"]
    marks = next(picture for picture in hudi.pictures if isinstance(picture, Timeline)).marks
    assert {mark.state for mark in marks} == {State.DONE, State.PENDING, State.KEPT}
    assert len(marks) == hudi.figures["timeline"]["instants"]
    assert hudi.inspected is not None and "<svg" in hudi._repr_html_()


def test_the_pictures_of_an_iceberg_and_a_paimon_table(tmp_path: Path) -> None:
    rows = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "dt": ["a", "a", "b"]})
    ice = lakebed.create(tmp_path / "i", "iceberg", rows.schema, partition_by=["dt"])
    pai = lakebed.create(
        tmp_path / "p", "paimon", rows.schema, ["id", "dt"], ["dt"], {"bucket": 2, "write-only": "true"}
    )
    for table in (ice, pai):
        for _ in range(2):
            table.write(rows)
    report, other = ice.inspect(), pai.inspect()
    assert counted(report, "File sizes against the target") == report.figures["files"]["data files"]
    assert counted(report, "Partitions by size") == report.figures["files"]["bytes"]
    assert [picture.title for picture in report.pictures][-2:] == ["Snapshots", "Bytes of the table"]
    steps = report.pictures[-1]
    assert isinstance(steps, Steps) and steps.points[-1][1] == report.figures["files"]["bytes"]
    assert counted(other, "File sizes against the target") == other.figures["files"]["files"]
    assert counted(other, "Buckets by size") == other.figures["files"]["bytes"]
    assert counted(other, "Files of level 0 by age") == other.figures["files"]["level 0 files"]
    growth_of = other.pictures[-1]
    assert isinstance(growth_of, Steps) and [rows for _, rows in growth_of.points] == [3, 6]
    assert re.search(r"dt=a", report._repr_html_())
