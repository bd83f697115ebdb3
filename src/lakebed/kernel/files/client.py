"""The client of an object store: made from the options and the environment, shared by the process, never by surprise.

Everything that a client could refuse later, or ask somebody for, is checked before there is one.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any
from urllib.parse import quote, urlsplit

from obstore.exceptions import BaseError
from obstore.store import ObjectStore as Client
from obstore.store import from_url

from lakebed.errors import OptionError, UsageError, first_line
from lakebed.kernel.files import aws
from lakebed.kernel.files.bounds import Bounds
from lakebed.kernel.files.credentials import INSTANCE, PREFIX, Credentials

_SHARED = 64
"""Clients that the process keeps."""
_SMALL_BODY = 1 << 20
_HTTP = {
    "allow_http", "allow_invalid_certificates", "connect_timeout", "default_content_type", "http1_only",
    "http2_keep_alive_interval", "http2_keep_alive_timeout", "http2_keep_alive_while_idle", "http2_only",
    "pool_idle_timeout", "pool_max_idle_per_host", "proxy_url", "proxy_ca_certificate", "proxy_excludes",
    "root_certificate", "randomize_addresses", "read_timeout", "timeout", "user_agent",
}  # fmt: skip
"""Settings of HTTP, which the client takes apart from those of the store."""
_SETTINGS: Mapping[str, tuple[str, frozenset[str]]] = {
    "s3": ("aws_", frozenset({
        "access_key_id", "secret_access_key", "session_token", "token", "region", "default_region", "endpoint",
        "endpoint_url", "virtual_hosted_style_request", "unsigned_payload", "skip_signature", "request_payer",
        "disable_tagging", "disable_bulk_delete", "checksum_algorithm",
        "imdsv1_fallback", "metadata_endpoint", "container_credentials_relative_uri",
        "container_credentials_full_uri", "container_authorization_token_file", "web_identity_token_file", "role_arn",
        "role_session_name", "sts_endpoint", "s3_express", "server_side_encryption", "sse_kms_key_id",
        "sse_bucket_key_enabled", "sse_customer_key_base64",
    })),
    "gs": ("google_", frozenset({
        "service_account", "service_account_path", "service_account_key", "application_credentials", "base_url",
        "skip_signature", "bearer_token",
    })),
    "az": ("azure_storage_", frozenset({
        "account_name", "account_key", "access_key", "client_id", "client_secret", "tenant_id", "authority_id",
        "authority_host", "sas_key", "sas_token", "token", "use_emulator", "endpoint", "use_fabric_endpoint",
        "msi_endpoint", "object_id", "msi_resource_id", "federated_token_file", "use_azure_cli", "skip_signature",
        "disable_tagging", "credential_type", "encryption_key",
    })),
}  # fmt: skip
"""What each kind of store can be told: the prefix of its names, and the names."""
_FIXED = {
    "bucket": "the table's URL names the bucket", "bucket_name": "the table's URL names the bucket",
    "container_name": "the table's URL names the container",
    "conditional_put": "commits need conditional puts", "copy_if_not_exists": "lakebed copies nothing",
}  # fmt: skip
_KINDS = {"s3": "s3", "gs": "gs", "az": "az", "abfss": "az"}
_GOOGLE_FILE = os.path.join("~", ".config", "gcloud", "application_default_credentials.json")
_ELSEWHERE: Mapping[str, tuple[tuple[str, ...], str]] = {
    "gs": (
        ("service_account", "service_account_path", "service_account_key", "application_credentials", "bearer_token",
         "skip_signature"),
        "Set GOOGLE_APPLICATION_CREDENTIALS, or the option lakebed.storage.setting.google_service_account_path",
    ),
    "az": (
        ("account_key", "access_key", "client_secret", "sas_key", "sas_token", "token", "federated_token_file",
         "use_azure_cli", "use_emulator", "skip_signature", "fabric_token_service_url"),
        "Set AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_KEY or AZURE_CLIENT_SECRET, or the option "
        "lakebed.storage.setting.azure_storage_account_key",
    ),
}  # fmt: skip
"""For stores other than S3: the settings of which one has to be there, and what to do where none is."""

_clients: OrderedDict[bytes, Client] = OrderedDict()
_lock = threading.Lock()


class Clients:
    """The clients of a location, each made when it is first asked for. They differ only in how long they wait.

    A store answers a put when it has all of the body, so silence while a large one is on its way is no sign of a
    failure. Safe for threads.
    """

    def __init__(self, location: str, credentials: Credentials) -> None:
        self._location, self._credentials = location, credentials
        self._made: dict[float, Client] = {}
        self._making = threading.Lock()

    def usual(self) -> Client:
        """A client for requests that the store answers at once: its time-out is the option's."""
        return self._within(1.0)

    def for_body(self, size: int) -> Client:
        """A client for a put of so many bytes: for a large one its time-out is six times as long."""
        return self._within(1.0 if size <= _SMALL_BODY else 6.0)

    def brief(self) -> Client:
        """A client for a last look when little time is left: its time-out is a sixth."""
        return self._within(1 / 6)

    def _within(self, share: float) -> Client:
        with self._making:
            if share not in self._made:
                bounds = replace(self._credentials.bounds, timeout=self._credentials.bounds.timeout * share)
                self._made[share] = open_client(self._location, replace(self._credentials, bounds=bounds))
            return self._made[share]


def open_client(location: str, credentials: Credentials) -> Client:
    """The client of a location. One that was made for the same place and settings is taken again, with its connections.

    UsageError where there are no credentials, and for a setting that cannot be; OptionError for an unknown one.
    """
    scheme, _, rest = location.partition("://")
    arguments = credentials.settings()
    config, http = _split(arguments.pop("config", {}), _KINDS.get(scheme, ""))
    own_provider = "credential_provider" in arguments
    instance = credentials.provider == INSTANCE
    if scheme == "s3":
        config, keys = aws.resolved(rest.partition("/")[0], config, instance or own_provider)
        config["aws_conditional_put"] = "etag"
        if keys is not None:
            arguments["credential_provider"] = keys
            config = {key: value for key, value in config.items() if key not in _KEYS}
    elif scheme in _KINDS and not own_provider and not instance:
        _need_credentials(_KINDS[scheme], location, config)
    http = {**_patience(credentials.bounds), **_allowing_http(config), **http, **arguments.pop("client_options", {})}
    arguments = {"retry_config": _retries(credentials.bounds), **arguments}
    provider = arguments.get("credential_provider")
    state = [provider() if provider is not None and not own_provider else None, location, config, http, _environment()]
    mark = hashlib.sha256(repr(state).encode()).digest()

    def make() -> Client:
        return _made(location, {**arguments, "config": config, "client_options": http})

    return make() if own_provider else _shared(mark, make)


_KEYS = {"aws_access_key_id", "aws_secret_access_key", "aws_session_token", "aws_token"}


def _made(location: str, arguments: Mapping[str, Any]) -> Client:
    try:
        return from_url(escaped(location), **arguments)
    except (BaseError, ValueError, TypeError) as error:
        why = first_line(error)
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        why = first_line(error)
    raise UsageError(f"cannot reach {location}", why=why, todo="Check the options lakebed.storage.setting.*")


def _shared(mark: bytes, make: Callable[[], Client]) -> Client:
    with _lock:
        client = _clients.get(mark)
        if client is None:
            client = _clients[mark] = make()
        _clients.move_to_end(mark)
        if len(_clients) > _SHARED:
            _clients.popitem(last=False)
        return client


def _split(given: Mapping[str, Any], kind: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The settings of the store, and those of HTTP. OptionError for a setting that the store does not know."""
    http: dict[str, Any] = {}
    config: dict[str, Any] = {}
    prefix, known = _SETTINGS.get(kind, ("", frozenset()))
    for key, value in given.items():
        name = key.lower()
        bare = name.removeprefix(prefix) if prefix else name
        if kind == "az":
            bare = bare.removeprefix("azure_")
        if known and bare in _FIXED:
            raise OptionError(
                f"option '{PREFIX}setting.{key}' cannot be set", key=f"{PREFIX}setting.{key}", why=_FIXED[bare]
            )
        if bare not in known and name in _HTTP:
            http[name] = _http_value(name, value)
        elif known and bare not in known:
            raise OptionError.unknown(
                f"{PREFIX}setting.{key}", [f"{PREFIX}setting.{prefix}{one}" for one in known] + [
                    f"{PREFIX}setting.{one}" for one in _HTTP
                ]
            )  # fmt: skip
        else:
            config[name] = value
    return config, http


def _http_value(name: str, value: Any) -> Any:
    """The value of a setting of HTTP as the client takes it: a bare number is seconds."""
    text = str(value).strip()
    return f"{text}s" if name.endswith("timeout") and text.isdigit() else value


def _allowing_http(config: Mapping[str, Any]) -> dict[str, Any]:
    """The client wants to be told when an endpoint is one without TLS."""
    endpoints = [str(value) for key, value in config.items() if "endpoint" in key or key.endswith("base_url")]
    endpoints += [os.environ.get(name, "") for name in ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT")]
    for endpoint in endpoints:
        if endpoint and urlsplit(endpoint).scheme not in ("http", "https"):
            raise UsageError(f"endpoint {endpoint!r} is no URL of a server", todo="Write http:// or https:// before it")
    return {"allow_http": True} if any(endpoint.lower().startswith("http:") for endpoint in endpoints) else {}


def _patience(bounds: Bounds) -> dict[str, Any]:
    """How long one try may stay without an answer or without a further byte. A body that keeps coming is never cut."""
    one_try = timedelta(seconds=bounds.timeout / 3)
    return {
        "read_timeout": one_try,
        "connect_timeout": min(one_try, timedelta(seconds=5)),
        "timeout": timedelta(days=1),
    }


def _retries(bounds: Bounds) -> dict[str, Any]:
    """Tries begin within half of the time, so the last one has ended within all of it."""
    longest = min(bounds.timeout / 12, 5.0)
    shortest = min(longest / 2, 0.1)  # the client panics unless it is the smaller one
    backoff = {"init_backoff": timedelta(seconds=shortest), "max_backoff": timedelta(seconds=longest), "base": 2}
    return {"max_retries": 10, "retry_timeout": timedelta(seconds=bounds.timeout / 2), "backoff": backoff}


def _need_credentials(kind: str, location: str, config: Mapping[str, Any]) -> None:
    """UsageError where nothing says who asks: the client would ask the machine that it runs on."""
    names, todo = _ELSEWHERE[kind]
    if any(key.endswith(names) and value for key, value in config.items()):
        return
    variables = [name.lower() for name, value in os.environ.items() if value and name.startswith(("GOOGLE_", "AZURE_"))]
    own = "google_" if kind == "gs" else "azure_"
    if any(name.startswith(own) and name.endswith(names) for name in variables):
        return
    if kind == "gs" and os.path.exists(os.path.expanduser(_GOOGLE_FILE)):
        return
    raise UsageError(
        f"there are no credentials for {location}",
        why="neither the options nor the environment have any",
        todo=f"{todo}; for the role of this machine lakebed.storage.provider=instance",
    )


def _environment() -> list[tuple[str, str]]:
    """The environment variables that a client reads when it is made."""
    return sorted((k, v) for k, v in os.environ.items() if k.startswith(("AWS_", "GOOGLE_", "AZURE_", "SSL_CERT_")))


def escaped(url: str) -> str:
    """The URL as the client reads it: it percent-encodes a space, `%` or `#` in a table's path."""
    scheme, _, rest = url.partition("://")
    bucket, slash, path = rest.partition("/")
    return f"{scheme}://{bucket}{slash}{quote(path, safe='/=:@+,')}"


def _after_fork() -> None:
    """Connections and threads of the parent do not live here."""
    global _lock
    _lock = threading.Lock()
    _clients.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
