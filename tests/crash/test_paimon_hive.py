"""Making and dropping a table of a Hive metastore may die at any call of the metastore or of the table's store. The
table is there and whole, or it is not there; no rows come back, and what is left in the way is named."""

import itertools
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import TableExistsError, TableNotFoundError
from lakebed.formats.paimon.catalog import hive
from lakebed.formats.paimon.catalog.metastore import Metastore as Client
from lakebed.kernel.files import open_store
from lakebed.testing.faults import Crash, FaultyStore
from tests.tables.paimon.hive_metastore import Metastore, serving

SCHEMA = pa.schema([pa.field("id", pa.int64(), False), ("v", pa.string())])
ROWS = pa.table({"id": [1], "v": ["x"]}, SCHEMA)
Act = Callable[[Any], object]


class Killer:
    """Lets a process live for so many calls, of the metastore and of changes of stores, and kills it at the next."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.left, self.after = 1 << 30, False
        ask = Client.ask

        def asked(client: Client, *arguments: Any, **named: Any) -> Any:
            return self.call(lambda: ask(client, *arguments, **named))

        killer = self

        class Counted(FaultyStore):
            def _changing(self, verb: str, path: str, act: Callable[[], Any], torn: Callable[[], object]) -> Any:
                return killer.call(act)

        patch.setattr(Client, "ask", asked)
        patch.setattr(hive, "open_store", lambda *arguments: Counted(open_store(*arguments)))

    def call(self, act: Callable[[], Any]) -> Any:
        self.left -= 1
        if self.left == 0 and not self.after:
            raise Crash("killed")
        try:
            return act()
        finally:
            if self.left == 0:
                raise Crash("killed")

    def deaths(self, act: Act, prepare: Callable[[], Any], most: int = 60) -> Iterator[Any]:
        """What `prepare` gives, after the act died at each of its calls in turn, before and after its effect."""
        for self.after in (False, True):
            for at in itertools.count(1):
                assert at < most
                self.left = 1 << 30
                given = prepare()
                self.left = at
                try:
                    act(given)
                    break
                except Crash:
                    self.left = 1 << 30
                    yield given
        self.left = 1 << 30


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Any]:
    with serving(Metastore(tmp_path / "hive")) as uri:
        settings = {"metastore": "hive", "uri": uri, "warehouse": str(tmp_path / "w")}
        yield lakebed.catalog("shop", {f"lakebed.catalog.{key}": text for key, text in settings.items()})


def rows(shop: Any, name: str) -> int | None:
    """How many rows a table has; None: it is not there."""
    try:
        return int(shop.open(name).read().read_all().num_rows)
    except TableNotFoundError:
        return None


def made(shop: Any, name: str, folder: Path) -> None:
    """It is made now, and takes rows; a folder that is in the way is said to be removed first."""
    try:
        shop.create(name, SCHEMA, ["id"], options={"bucket": 1})
    except TableExistsError as error:
        if rows(shop, name) is None:
            assert "remove the folder" in error.todo
            shutil.rmtree(folder)
            shop.create(name, SCHEMA, ["id"], options={"bucket": 1})
    assert rows(shop, name) == 0
    shop.open(name).write(ROWS)
    assert rows(shop, name) == 1


def test_a_table_that_is_made(shop: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = (f"a.t{number}" for number in itertools.count())
    killer, tried = Killer(monkeypatch), 0
    for name in killer.deaths(
        lambda name: shop.create(name, SCHEMA, ["id"], options={"bucket": 1}), lambda: next(names)
    ):
        tried += 1
        assert rows(shop, name) in (None, 0)
        made(shop, name, tmp_path / "w" / "a.db" / name.partition(".")[2])
    assert tried >= 10


def test_a_table_that_is_dropped(shop: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = (f"a.t{number}" for number in itertools.count())
    killer, tried = Killer(monkeypatch), 0

    def prepared() -> str:
        name = next(names)
        shop.create(name, SCHEMA, ["id"], options={"bucket": 1}).write(ROWS)
        return name

    for name in killer.deaths(shop.drop, prepared):
        tried += 1
        left = rows(shop, name)
        assert left in (None, 1)
        if left:
            shop.drop(name)
        assert rows(shop, name) is None and name[2:] not in shop.tables("a")
        made(shop, name, tmp_path / "w" / "a.db" / name[2:])
    assert tried > 8
