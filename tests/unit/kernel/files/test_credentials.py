"""Storage options: what is a secret, what is a mistake."""

import pickle
from dataclasses import replace

import pytest

from lakebed.errors import OptionError, UsageError
from lakebed.kernel.files import open_store
from lakebed.kernel.files.bounds import Bounds
from lakebed.kernel.files.credentials import Credentials, credentials_from

SETTING = "lakebed.storage.setting."


@pytest.mark.parametrize(
    ("setting", "secret"),
    [
        ("aws_secret_access_key", True),
        ("aws_access_key_id", True),
        ("aws_session_token", True),
        ("secret_access_key", True),
        ("azure_storage_account_key", True),
        ("azure_storage_sas_key", True),
        ("azure_storage_client_secret", True),
        ("azure_storage_token", True),
        ("google_service_account_key", True),
        ("google_service_account", True),
        ("aws_sse_customer_key_base64", True),
        ("aws_endpoint", False),
        ("aws_region", False),
        ("azure_storage_account_name", False),
        ("aws_sse_kms_key_id", False),
        ("aws_bucket_key_enabled", False),
        ("google_service_account_path", False),
        ("aws_web_identity_token_file", False),
        ("aws_virtual_hosted_style_request", False),
    ],
)
def test_what_unlocks_is_secret(setting: str, secret: bool) -> None:
    credentials = credentials_from({SETTING + setting: "value"})
    assert (credentials.secret, credentials.plain) == (({setting: "value"}, {}) if secret else ({}, {setting: "value"}))


def test_a_secret_is_neither_printed_nor_pickled() -> None:
    credentials = credentials_from({f"{SETTING}aws_secret_access_key": "hush"})
    assert "hush" not in repr(credentials) and "hush" not in str(credentials)
    with pytest.raises(UsageError, match="aws_secret_access_key") as raised:
        pickle.dumps(credentials)
    assert "hush" not in str(raised.value)
    allowed = credentials_from({f"{SETTING}aws_secret_access_key": "hush", "lakebed.storage.ship-secrets": "TRUE"})
    assert pickle.loads(pickle.dumps(allowed)) == allowed


def test_keys_match_without_case_and_other_families_are_left_alone() -> None:
    given = {"Lakebed.Storage.Provider": "a.b:c", f"{SETTING.upper()}AWS_REGION": "eu", "bucket": "4"}
    assert credentials_from(given) == Credentials("a.b:c", {"aws_region": "eu"})


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("lakebed.storage.provder", "x", "unknown option.*'lakebed.storage.provider'"),
        ("lakebed.storage.ship-secrets", "yes", "ship-secrets.*'yes'.*true or false"),
    ],
)
def test_mistakes_are_named_for_local_tables_too(key: str, value: str, says: str) -> None:
    with pytest.raises(OptionError, match=says):
        open_store("/tmp/x", {key: value})


@pytest.mark.parametrize("provider", ["no.such.module:f", "json:no_such_function", "json"])
def test_a_provider_that_is_not_there(provider: str) -> None:
    with pytest.raises(OptionError, match=r"provider.*importable package.module:function"):
        Credentials(provider).settings()


@pytest.mark.parametrize(
    ("name", "value", "field", "read"),
    [
        ("requests", "8", "requests", 8),
        ("bytes-in-flight", "1000", "bytes_in_flight", 1000),
        ("cache", "off", "cache", 0),
        ("cache", "5", "cache", 5),
        ("timeout", "2.5", "timeout", 2.5),
        ("hedge", "250", "hedge", 0.25),
        ("hedge", "OFF", "hedge", None),
    ],
)
def test_bounds(name: str, value: str, field: str, read: object) -> None:
    credentials = credentials_from({f"lakebed.storage.{name}": value})
    assert credentials.bounds == replace(Bounds(), **{field: read})
    assert pickle.loads(pickle.dumps(credentials)) == credentials
    with pytest.raises(OptionError, match=rf"lakebed.storage.{name}.*'-1'"):
        credentials_from({f"lakebed.storage.{name}": "-1"})
