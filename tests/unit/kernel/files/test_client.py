"""How a client is made: whose keys it takes, what is refused before there is one, and that nobody is asked for keys."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from lakebed.errors import OptionError, UsageError
from lakebed.kernel.files import open_store
from lakebed.kernel.files.aws import resolved
from lakebed.kernel.files.client import open_client
from lakebed.kernel.files.credentials import credentials_from

SETTING = "lakebed.storage.setting."
KEYS = {"aws_access_key_id": "key", "aws_secret_access_key": "hush"}


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No credentials anywhere; the folder of AWS's shared files."""
    for name in [name for name in os.environ if name.startswith(("AWS_", "GOOGLE_", "AZURE_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".aws").mkdir()
    return tmp_path / ".aws"


def keys_of(config: dict[str, str]) -> object:
    _, provider = resolved("bucket", config, instance=False)
    return None if provider is None else provider()


def as_provided(access: str, secret: str, token: str | None = None) -> dict[str, object]:
    return {"access_key_id": access, "secret_access_key": secret, "token": token, "expires_at": None}


def test_explicit_keys_go_without_a_foreign_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "foreign")
    assert keys_of(KEYS) == as_provided("key", "hush")
    assert keys_of({**KEYS, "aws_session_token": "own"}) == as_provided("key", "hush", "own")
    assert keys_of({"access_key_id": "key", "secret_access_key": "hush"}) == as_provided("key", "hush")


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ({"aws_access_key_id": "key"}, "aws_secret_access_key is not"),
        ({"aws_secret_access_key": "hush"}, "aws_access_key_id is not"),
    ],
)
def test_half_of_the_keys(given: dict[str, str], missing: str) -> None:
    with pytest.raises(UsageError, match=f"half of the keys.*{missing}"):
        keys_of(given)


def test_without_credentials_nobody_is_asked() -> None:
    for location in ("s3://bucket/t", "gs://bucket/t", "az://container/t"):
        options = {f"{SETTING}azure_storage_account_name": "a"} if location.startswith("az") else {}
        with pytest.raises(UsageError, match=r"there are no credentials for.*provider=instance"):
            open_store(location, options).list()


def test_the_role_of_the_machine_is_asked_for_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    open_client("s3://bucket/t", credentials_from({"lakebed.storage.provider": "instance"}))
    open_client("s3://bucket/t", credentials_from({f"{SETTING}aws_skip_signature": "true"}))
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", "/token")
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/r")
    assert keys_of({}) is None


def test_profiles_are_read(monkeypatch: pytest.MonkeyPatch, nobody: Path) -> None:
    (nobody / "credentials").write_text(
        "[default]\naws_access_key_id = d\naws_secret_access_key = ds\n"
        "[work]\naws_access_key_id = w\naws_secret_access_key = ws\naws_session_token = wt\n"
    )
    (nobody / "config").write_text("[profile work]\nregion = eu-central-1\nendpoint_url = https://s3.work\n")
    assert keys_of({}) == as_provided("d", "ds")
    monkeypatch.setenv("AWS_PROFILE", "work")
    settings, provider = resolved("bucket", {}, instance=False)
    assert provider is not None and provider() == as_provided("w", "ws", "wt")
    assert settings == {"aws_region": "eu-central-1", "aws_endpoint": "https://s3.work"}
    (nobody / "credentials").write_text("[work]\naws_access_key_id = new\naws_secret_access_key = ns\n")
    assert provider() == as_provided("new", "ns"), "keys that another program renewed"
    assert keys_of(KEYS) == as_provided("key", "hush"), "options come first"


def test_profiles_that_are_not_served(monkeypatch: pytest.MonkeyPatch, nobody: Path) -> None:
    monkeypatch.setenv("AWS_PROFILE", "sso")
    with pytest.raises(UsageError, match="AWS_PROFILE names 'sso'"):
        keys_of({})
    (nobody / "config").write_text("[profile sso]\nsso_session = s\n")
    with pytest.raises(UsageError, match=r"'sso' has no keys.*sso_session.*export-credentials"):
        keys_of({})


@pytest.mark.parametrize("variable", ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"])
def test_endpoints_of_the_environment(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "http://localhost:9000/")
    assert resolved("bucket", KEYS, instance=False)[0]["aws_endpoint"] == "http://localhost:9000"
    settings, _ = resolved("bucket", {**KEYS, "aws_endpoint_url": "https://other"}, instance=False)
    assert settings["aws_endpoint"] == "https://other" and "aws_endpoint_url" not in settings


def test_names_of_buckets_as_hosts() -> None:
    given = {**KEYS, "aws_virtual_hosted_style_request": "true"}
    settings, _ = resolved("bucket", {**given, "aws_endpoint": "http://s3.local:9000"}, instance=False)
    assert settings["aws_endpoint"] == "http://bucket.s3.local:9000"
    settings, _ = resolved("bucket", {**given, "aws_endpoint": "http://bucket.s3.local"}, instance=False)
    assert settings["aws_endpoint"] == "http://bucket.s3.local"
    with pytest.raises(UsageError, match="is an address"):
        resolved("bucket", {**given, "aws_endpoint": "http://127.0.0.1:9000"}, instance=False)


@pytest.mark.parametrize(
    ("setting", "value", "says"),
    [
        ("aws_endpoint", "localhost:9000", "endpoint 'localhost:9000' is no URL.*http://"),
        ("aws_regoin", "x", r"unknown option 'lakebed.storage.setting.aws_regoin'.*aws_region'"),
        ("timeuot", "x", r"unknown option.*lakebed.storage.setting.timeout'"),
        ("connect_timeout", "soon", "cannot reach s3://bucket.*soon"),
        ("allow_http", "perhaps", "cannot reach s3://bucket"),
    ],
)
def test_a_setting_that_cannot_be(setting: str, value: str, says: str) -> None:
    options = {f"{SETTING}{key}": text for key, text in KEYS.items()}
    with pytest.raises((UsageError, OptionError), match=says):
        open_store("s3://bucket/t", {**options, f"{SETTING}{setting}": value}).list()


def test_settings_of_http_are_taken() -> None:
    options = {f"{SETTING}{key}": text for key, text in KEYS.items()}
    for name, value in (("timeout", "5"), ("timeout", "5s"), ("allow_http", "true"), ("http1_only", "true")):
        open_client("s3://bucket/t", credentials_from({**options, f"{SETTING}{name}": value}))


def test_clients_are_shared_until_something_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    credentials = credentials_from({f"{SETTING}{key}": text for key, text in KEYS.items()})
    client = open_client("s3://bucket/t", credentials)
    assert open_client("s3://bucket/t", credentials) is client
    assert open_client("s3://bucket/u", credentials) is not client
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    assert open_client("s3://bucket/t", credentials) is not client
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    first = open_client("s3://bucket/t", credentials_from({}))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "other")
    assert open_client("s3://bucket/t", credentials_from({})) is not first


@pytest.mark.parametrize("location", ["s3://key:hushhush@bucket/t", "gs://a:hushhush@b"])
def test_a_secret_in_a_url_is_refused(location: str) -> None:
    with pytest.raises(UsageError, match="user and password") as raised:
        open_store(location)
    assert not re.search("hush", str(raised.value))
