"""Every block of the README and of docs/*.md runs as it is printed, each page in an empty folder with the examples."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import lakebed
from lakebed.cli.app import app
from lakebed.examples import example_path
from lakebed.kernel.observers import observers
from lakebed.spark import pipeline
from tests.objectstore.server import StoreServer

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)


def blocks(page: Path) -> list[tuple[str, str]]:
    """The language and the text of each block."""
    return _FENCE.findall(page.read_text(encoding="utf-8"))


def without_blocks(page: Path) -> str:
    """The text between the blocks."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working folder with the examples, as in the root of a clone. Observers that a page adds for the rest of
    a program end with it."""
    (tmp_path / "examples").symlink_to(example_path("orders_hudi").parent)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    observers.clear()


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_blocks_say_what_they_are(page: Path) -> None:
    """Blocks marked `text` are those that nobody can run: a picture, or a command with placeholders."""
    for language, text in blocks(page):
        assert language in ("python", "toml", "sh", "text"), text
        assert language != "text" or not text.startswith(("import ", "table = ", "./run"))


@pytest.mark.parametrize(
    "page", [page for page in PAGES if any(language == "python" for language, _ in blocks(page))], ids=lambda p: p.stem
)
def test_python_runs(
    spark: SparkSession, here: Path, page: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setattr(lakebed.spark, "ship", lambda spark: None)  # this session's workers have it
    if page.stem == "storage":
        store_server: StoreServer = request.getfixturevalue("store_server")
        store_server.client().create_bucket(Bucket="lake")
        for name, value in store_server.environment.items():
            monkeypatch.setenv(name, value)
    names: dict[str, object] = {}
    for language, text in blocks(page):
        if language == "python":
            exec(compile(text, str(page), "exec"), names)
    if page.stem == "README":
        sink = lakebed.open("out/shop.db/orders").read().read_all()
        source = lakebed.open(lakebed.example("orders")).read(columns=sink.column_names).read_all()
        order = [("order_id", "ascending")]
        assert sink.sort_by(order).equals(source.sort_by(order).cast(sink.schema))


TOML = [(page.stem, text) for page in PAGES for language, text in blocks(page) if language == "toml"]


@pytest.mark.parametrize(("page", "text"), [(page, text) for page, text in TOML if "[source]" not in text])
def test_policies_run(here: Path, page: str, text: str) -> None:
    (here / "policy.toml").write_text(text)
    (done,) = lakebed.upkeep(lakebed.example("orders"), "policy.toml", dry_run=True).tables
    assert {step.state.value for step in done.steps} <= {"due", "not due"} and len(done.steps) == 3
    assert (here / "upkeep.jsonl").read_text().count("\n") == 1


@pytest.mark.parametrize(
    ("page", "text"),
    [(page, text) for page, text in TOML if "[source]" in text]
    + [("examples", example_path("orders.toml").read_text())],
)
def test_pipelines_run(spark: SparkSession, here: Path, page: str, text: str) -> None:
    (here / "p.toml").write_text(text)
    checked = pipeline.load("p.toml")
    pipeline.check(checked)
    assert pipeline.run(checked, spark).commits >= 1
    columns = ["order_id", "amount", "dt"]
    found, source = (lakebed.open(place).read(columns).read_all() for place in (checked.sink, checked.source))
    order = [("order_id", "ascending")]
    assert found.sort_by(order).equals(source.sort_by(order).cast(found.schema))
    assert set(tomllib.loads(text)) <= {"source", "transform", "sink", "upkeep", "run"}


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_commands_are_there(page: Path) -> None:
    """The commands in shell blocks exist. Other tests run the demo."""
    ours = {command.name or command.callback.__name__ for command in app.registered_commands if command.callback}
    runs = set(re.findall(r"^do_(\w+)\(\)", (ROOT / "run").read_text(), re.MULTILINE))
    for language, text in blocks(page):
        for line in text.splitlines() if language == "sh" else ():
            words = [word for word in line.partition("#")[0].split() if not re.match(r"[A-Z_]+=", word)]
            if words and words[0] == "./run":
                assert words[1] in runs, line
            elif words and words[0].endswith("lakebed"):
                assert words[1] in ours, line
            elif words:
                assert words[:2] in (["git", "clone"], ["pip", "install"], ["cd", "lakebed"]), line
