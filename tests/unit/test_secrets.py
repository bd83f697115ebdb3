"""A canary: a secret that is handed in, in any place and spelling, turns up in nothing that lakebed says."""

import contextlib
import json
import logging
import pickle
import re
import traceback
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pytest

import lakebed
from lakebed import redaction
from lakebed.cli import main
from lakebed.errors import CorruptBlocksWarning, LakebedError, OptionError, ReadWarning, StorageError
from lakebed.kernel.files import open_store
from lakebed.kernel.files.credentials import Credentials
from lakebed.model.report import TableReport
from lakebed.redaction import Settings, names_secret, redacted, redacting_logger
from tests.objectstore.server import StoreServer

SECRET = "hUsHsEcReT0123456789zz"
URLS = [
    f"http://127.0.0.1:9/b/t?sig={SECRET}&X-Amz-Signature={SECRET}", f"http://user:{SECRET}@127.0.0.1:9/b/t",
    f"s3://AKIAK:{SECRET}@bkt/t", f"https://acct.blob.core.windows.net/c/t?sv=1&sig={SECRET}",
    f"https://h/t?X-Amz-Security-Token={SECRET}#x", f"https://h/t?AWSAccessKeyId={SECRET}", f"https://{SECRET}@h/t",
    f"https://h/t?a=1&access_token={SECRET}", f"abfss://c:{SECRET}@a.dfs.core.windows.net/t",
    f"postgresql+psycopg2://user:{SECRET}@db/lake", f"https://h/t?x-goog-signature={SECRET}&b=2",
]  # fmt: skip
SETTINGS = [
    f"aws_secret_access_key={SECRET}", f'{{"password": "{SECRET}"}}', f"AccountName=a;AccountKey={SECRET};x=1",
    f"client_secret='{SECRET}'", f"Authorization: Bearer {SECRET}", f"{{'sas_token': '{SECRET}', 'a': 1}}",
]  # fmt: skip
CANARIES = [*URLS, *(quote(url, safe="") for url in URLS), *(quote(quote(url, safe=""), safe="") for url in URLS)]


@pytest.mark.parametrize("canary", [*CANARIES, *SETTINGS])
def test_no_field_of_an_error_tells(canary: str) -> None:
    text = f"cannot do it: {canary} is gone"
    error = LakebedError(text, table=text, instant=text, file=text, why=text, todo=text)
    error.table = text  # places are filled in on the way out
    for told in (error, pickle.loads(pickle.dumps(error))):
        fields = [getattr(told, name) for name in ("what", "table", "instant", "file", "why", "todo")]
        assert SECRET not in " ".join([str(told), repr(told), *fields, *map(str, told.args)])
        assert "is gone" in told.what
    for warning in (ReadWarning(text, table=text), CorruptBlocksWarning(text, table=text, file="f", ranges=1, size=1)):
        assert SECRET not in f"{warning} {warning!r} {warning.table}"
    assert SECRET not in repr(TableReport(canary, "hudi"))


@pytest.mark.parametrize("url", URLS[:4])
def test_no_call_tells(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    monkeypatch.setenv("AZURE_SKIP_SIGNATURE", "true")
    settings = {"aws_endpoint": "http://127.0.0.1:9", "azure_endpoint": "http://127.0.0.1:9", "max_retries": "0"}
    options = {f"lakebed.storage.setting.{key}": value for key, value in settings.items()} if "s3:" in url else {}
    if "windows" in url:
        return  # its client would ask for a token over the network
    options |= {"lakebed.storage.setting.aws_secret_access_key": "x" * 9} if "s3:" in url else {}
    with pytest.raises(LakebedError) as caught:
        lakebed.open(url, options).read()
    assert SECRET not in f"{caught.value} {caught.value!r} {caught.value.__cause__}"


def test_what_was_handed_in_is_known_by_heart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_secrets", set())
    value = "a+b/c d=Odd?Value"
    found = Credentials(secret={"aws_secret_access_key": value})
    assert value not in repr(found)
    for text in (value, quote(value), quote(value, safe="")):
        assert redacted(f"the server said {text} is wrong") == "the server said ... is wrong"


def test_options_that_unlock_are_not_shown() -> None:
    assert SECRET not in str(OptionError.ill_typed("lakebed.catalog.token", SECRET, "x"))
    assert "'7'" in str(OptionError.ill_typed("bucket", "7", "x"))
    assert names_secret("lakebed.storage.setting.aws_secret_access_key")
    assert not names_secret("primary-key")


def test_log_records(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        redacting_logger("lakebed.test").warning("%s: %s", URLS[1], ValueError(URLS[0]))
    assert caplog.records
    assert SECRET not in caplog.text


@pytest.mark.parametrize(
    "text",
    [
        "abfss://container@account.dfs.core.windows.net/t", "/data/user@host/t: no such file",
        "primary_key=id, bucket=4",
        "unexpected token: 5", "partition key=1/day=2", "write to me@example.org", "s3://bucket/key=1/x.parquet?",
        "allow it with lakebed.storage.ship-secrets=true",
    ],
)  # fmt: skip
def test_plain_words_stay(text: str) -> None:
    assert redacted(text) == text


def test_options_of_a_table_are_printed_without_secrets() -> None:
    options = {"lakebed.storage.setting.aws_secret_access_key": "hushhush", "bucket": "4", "uri": "x?sig=hushhush"}
    settings = Settings(options)
    assert settings == options and "hush" not in f"{settings} {settings!r}" and "'bucket': '4'" in repr(settings)


@pytest.mark.parametrize(
    "catalog",
    [
        {"type": "rest", "uri": "http://127.0.0.1:9/", "token": SECRET},
        {"type": "rest", "uri": f"http://u:{SECRET}@127.0.0.1:9/", "credential": f"id:{SECRET}"},
        {"type": "sql", "uri": f"sqlite:////nowhere/x.db?password={SECRET}"},
        {"type": "other", "password": SECRET, "jdbc.password": SECRET},
    ],
    ids=["token", "credential", "database", "unknown"],
)
def test_no_catalog_tells(catalog: dict[str, str], caplog: pytest.LogCaptureFixture) -> None:
    options = {f"lakebed.catalog.{key}": value for key, value in catalog.items()}
    with caplog.at_level(logging.DEBUG, "lakebed"), pytest.raises(LakebedError) as caught:
        lakebed.open("catalog:ns.t", options)
    error = caught.value
    fields = [getattr(error, name) for name in ("what", "table", "instant", "file", "why", "todo")]
    assert SECRET not in " ".join([str(error), repr(error), *fields, *map(str, error.args), caplog.text])


def test_a_table_that_was_opened_with_secrets_keeps_none(tmp_path: Path) -> None:
    """Neither its files, nor what it answers and says of itself. A store does not travel with them unless told to."""
    options = {f"lakebed.storage.setting.{key}": SECRET for key in ("aws_secret_access_key", "aws_session_token")}
    rows = pa.table({"id": [1]})
    for form, more in (("hudi", {}), ("paimon", {"bucket": "1"}), ("iceberg", {})):
        lakebed.create(tmp_path / form, form, rows.schema, ["id"] if form != "iceberg" else [], options=more)
        table: lakebed.Table = lakebed.open(tmp_path / form, options)
        said = [table.write(rows, "append"), table, table.inspect(), table.expire(dry_run=True), table.history()]
        assert SECRET not in " ".join(map(repr, said))
        files = [path for path in (tmp_path / form).rglob("*") if path.is_file()]
        assert files and all(SECRET.encode() not in path.read_bytes() for path in files)
    with pytest.raises(LakebedError, match="in clear") as caught:
        pickle.dumps(open_store("s3://b/t", options | {"lakebed.storage.setting.aws_access_key_id": "AKIAK"}))
    assert SECRET not in f"{caught.value} {caught.value!r}"


KEPT = ("s3.secret-access-key", "jdbc.password", "fs.azure.account.key.x.dfs.core.windows.net", "adls.sas-token.acc")


@pytest.mark.parametrize("key", KEPT)
def test_metadata_take_no_secret(key: str, tmp_path: Path) -> None:
    schema = pa.schema([("access_key", pa.int64())])
    column = {"write.metadata.metrics.column.access_key": "counts"}
    lakebed.create(tmp_path / "t", "iceberg", schema, options=column)
    for act in (
        lambda: lakebed.create(tmp_path / "u", "iceberg", schema, options={key: SECRET}),
        lambda: lakebed.create(tmp_path / "u", "paimon", schema, options={key: SECRET}),
        lambda: lakebed.open(tmp_path / "t").alter(lakebed.set_option(key, SECRET)),
    ):
        with pytest.raises(OptionError, match=re.escape(key)) as caught:
            act()
        assert SECRET not in f"{caught.value} {caught.value!r}"
    assert not (tmp_path / "u").exists()
    assert all(SECRET.encode() not in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("form", "file", "place"),
    [("iceberg", "metadata/v2.metadata.json", "properties"), ("paimon", "schema/schema-0", "options")],
    ids=["iceberg", "paimon"],
)
def test_secrets_that_another_engine_kept_are_not_printed(
    form: str, file: str, place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = pa.table({"id": [1]})
    lakebed.create(tmp_path / "t", form, rows.schema, ["id"]).write(rows)
    document = json.loads((tmp_path / "t" / file).read_text())
    document[place].update(dict.fromkeys(KEPT, SECRET))
    (tmp_path / "t" / file).write_text(json.dumps(document))
    table: lakebed.Table = lakebed.open(tmp_path / "t")
    plan = table.plan_read()
    told = [
        table, plan, plan.splits, table.inspect(), table.history(), table.rewrite(dry_run=True), table.write(rows),
        table.alter([lakebed.remove_option(KEPT[0]), lakebed.add_column("more", "int")]), table.refs(),
    ]  # fmt: skip
    page = str(tmp_path / "page.html")
    for command in (["describe"], ["describe", "--json"], ["inspect", "--json"], ["inspect", "--html", page]):
        with contextlib.suppress(SystemExit):
            main([command[0], str(tmp_path / "t"), *command[1:]])
    said = " ".join(map(repr, told)) + "".join(capsys.readouterr()) + Path(page).read_text()
    assert SECRET not in said and len(said) > 3000


@pytest.mark.parametrize("form", ["hudi", "paimon", "iceberg"])
def test_no_failing_store_tells(form: str, store_server: StoreServer, caplog: pytest.LogCaptureFixture) -> None:
    keys = {name: f"{name[-3:]}/{SECRET}+=" for name in ("aws_secret_access_key", "aws_session_token")}
    options = store_server.options | {f"lakebed.storage.setting.{name}": value for name, value in keys.items()}
    rows, url, said = pa.table({"id": [1]}), store_server.url(), ""
    lakebed.create(url, form, rows.schema, ["id"], options=options).write(rows)
    acts: list[Callable[[lakebed.Table], object]] = [
        lambda table: table.read().read_all(), lambda table: table.write(rows), lambda table: table.inspect(),
        lambda table: table.expire(), lambda table: table.rewrite(), lambda table: table.tag("x"),
    ]  # fmt: skip
    with caplog.at_level(logging.DEBUG):
        table: lakebed.Table = lakebed.open(url, options)
        with store_server.fault("403"):
            for act in acts:
                try:
                    said += repr(act(table))
                except LakebedError as error:
                    said += "".join(traceback.format_exception(error)) + repr(error.args)
        for endpoint in (f"http://u:{SECRET}@127.0.0.1:9", f"http://u:{SECRET}@nowhere.invalid"):
            more = {"lakebed.storage.setting.aws_endpoint": endpoint, "lakebed.storage.timeout": "1"}
            with pytest.raises(StorageError) as caught:
                lakebed.open(url, options | more)
            said += f"{caught.value} {caught.value!r} {caught.value.__cause__!r}"
    assert "403" in said or "AccessDenied" in said
    assert not [value for value in (SECRET, quote(SECRET)) if value in said + caplog.text]
    store = open_store(url, store_server.direct)
    assert all(SECRET.encode() not in store.read(info.path) for info in store.walk())
