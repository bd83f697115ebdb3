"""A catalog's settings by its name, and the names of tables.

Settings have the keys of Paimon's CatalogOptions. They come from options `lakebed.catalog.KEY`, which take precedence,
and from environment variables `PAIMON_CATALOG__NAME__KEY`, where two underscores stand for a dot and one for a hyphen,
as in pyiceberg's variables.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lakebed.errors import OptionError, UnsupportedError, UsageError
from lakebed.formats.paimon.layout import TableName
from lakebed.kernel.options import Option, OptionSet, boolean, duration_ms, one_of
from lakebed.redaction import keep_secret, names_secret
from lakebed.verbs.catalog import CATALOG_OPTIONS

PREFIX = CATALOG_OPTIONS
_VARIABLE = "PAIMON_CATALOG__"
METASTORE = Option(
    "metastore",
    one_of("filesystem", "jdbc", "hive", "rest"),
    "filesystem",
    "What keeps the names: a folder, a database, a Hive metastore, a server.",
)
WAREHOUSE = Option("warehouse", str, "", "The folder of the tables; for REST the server's name of it.")
URI = Option("uri", str, "", "JDBC: `jdbc:sqlite:FILE`; Hive: `thrift://HOST:PORT,...`; REST: the server's address.")
CATALOG_KEY = Option("catalog-key", str, "jdbc", "JDBC: the name of this catalog among those of the database.")
LOCK = Option("lock.enabled", boolean, False, "JDBC, Hive: hold a lock around each commit. Default: on object stores.")
LOCK_TYPE = Option("lock.type", one_of("jdbc", "hive"), "", "What keeps the lock: the catalog itself.")
LOCK_SLEEP = Option("lock-check-max-sleep", duration_ms, 8_000, "The longest wait between two questions for the lock.")
LOCK_TIMEOUT = Option("lock-acquire-timeout", duration_ms, 480_000, "How long to wait for the lock.")
TABLE_TYPE = Option("table.type", one_of("managed", "external"), "managed", "Hive: what new tables are.")
SYNC_ALL = Option("sync-all-properties", boolean, True, "Hive: show all options of a table in the metastore.")
LOCATION_IN_PROPERTIES = Option("location-in-properties", boolean, False, "Hive: keep places in the properties.")
CASCADE = Option("alter-table-cascade", boolean, True, "Hive: change the columns of partitions too.")
TOKEN = Option("token", str, "", "REST: the token to show.")
TOKEN_PROVIDER = Option("token.provider", one_of("bear", "dlf"), "bear", "REST: how to show who asks. DLF: refused.")
DATA_TOKEN = Option("data-token.enabled", boolean, False, "REST: ask the server for the keys of each table's files.")
LOCKS = ("jdbc", "hive")
"""The kinds of catalogs that keep locks of tables."""
_UNSERVED = {
    "hive-conf-dir": f"Give the metastore's address as {PREFIX}uri",
    "hadoop-conf-dir": "Give lakebed.storage options for the files",
    "metastore.client.class": "Reach the metastore by Thrift, without a class of your own",
    "hive.metastore.sasl.enabled": "Open the tables by their paths: lakebed does not sign in by Kerberos",
}
"""Settings that lakebed does not serve, and what to do instead."""
PATTERN = re.compile(r"[^/\\:.\s$%]+")
"""The names that databases and tables may have."""
_KNOWN = OptionSet(
    (
        METASTORE, WAREHOUSE, URI, CATALOG_KEY, LOCK, LOCK_TYPE, LOCK_SLEEP, LOCK_TIMEOUT, TABLE_TYPE, SYNC_ALL,
        LOCATION_IN_PROPERTIES, CASCADE, TOKEN, TOKEN_PROVIDER, DATA_TOKEN,
        Option("prefix", str, "", "REST: what the server puts before its paths."),
        *(Option(key, str, "", "Without effect.") for key in (
            "cache-enabled", "client-pool-size", "case-sensitive", "file-io.allow-cache", "io-cache-enabled",
            "format-table.enabled", "client-pool-cache.eviction-interval-ms", "client-pool-cache.keys",
            "lock-key-max-length", "hive.skip-update-stats",
        )),
        *(Option(key, str, "", "Refused.") for key in _UNSERVED),
    ),
    "Paimon catalogs",
    ("header.", "cache.", "jdbc.", "table-default.", "dlf."),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Settings:
    """A catalog's settings. `storage` are the options `lakebed.storage.*` of its files."""

    name: str
    texts: Mapping[str, str] = field(repr=False)
    storage: Mapping[str, str] = field(repr=False)

    def __getitem__(self, option: Option[str]) -> str:
        return str(_KNOWN.parse(self.texts)[option])

    def asks(self, option: Option[bool]) -> bool:
        """Whether a setting is true."""
        return bool(_KNOWN.parse(self.texts)[option])

    def seconds(self, option: Option[int]) -> float:
        """A duration."""
        return _KNOWN.parse(self.texts)[option] / 1000

    def locks(self, remote: bool) -> bool:
        """Whether commits to a table hold the catalog's lock, by default on a remote store."""
        parsed = _KNOWN.parse(self.texts)
        return self[METASTORE] in LOCKS and (parsed[LOCK] if parsed.given(LOCK) else remote)

    def __reduce__(self) -> tuple[Any, ...]:
        texts = {key: text for key, text in self.texts.items() if not names_secret(key)}
        storage = {key: text for key, text in self.storage.items() if not names_secret(key)}
        return _without_secrets, (self.name, texts, storage)

    def needs(self, option: Option[str]) -> str:
        """A setting that must be there. UsageError without it."""
        if not self[option]:
            raise UsageError(
                f"the catalog {self.name!r} has no {option.key}",
                todo=f"Give the option {PREFIX}{option.key}, or set {variable(self.name, option.key)}",
            )
        return self[option]

    def headers(self) -> dict[str, str]:
        """The settings `header.*` of a REST catalog."""
        return {key.removeprefix("header."): text for key, text in self.texts.items() if key.startswith("header.")}

    def table_defaults(self) -> dict[str, str]:
        """Options that new tables get, from the settings `table-default.*`."""
        start = "table-default."
        return {key.removeprefix(start): text for key, text in self.texts.items() if key.startswith(start)}


def is_configured(name: str, options: Mapping[str, str]) -> bool:
    """Whether a name is that of a Paimon catalog: an option or a variable says so."""
    keys = {key.lower() for key in options}
    if f"{PREFIX}type" in keys:
        return False
    return f"{PREFIX}metastore" in keys or bool(_of_environment(name))


def settings_of(name: str, options: Mapping[str, str]) -> Settings:
    """The settings of a catalog. OptionError for an unknown one, UnsupportedError for one that lakebed does not
    serve."""
    given = {key.lower().removeprefix(PREFIX): text for key, text in options.items() if key.lower().startswith(PREFIX)}
    texts = {**_of_environment(name), **given}
    for key, text in texts.items():
        if names_secret(key):
            keep_secret(text)
    try:
        _KNOWN.parse(texts)
    except OptionError as error:
        error.todo = error.todo or f"Options of a Paimon catalog begin with {PREFIX}"
        raise
    settings = Settings(name, texts, {key: text for key, text in options.items() if key.startswith("lakebed.storage.")})
    for key, todo in _UNSERVED.items():
        if texts.get(key, "false").lower() != "false":
            raise UnsupportedError(f"the catalog {name!r} has {key}, which lakebed does not serve", todo=todo)
    _refuse_signing(settings)
    kind = settings[METASTORE]
    if settings.asks(LOCK) and (kind not in LOCKS or settings[LOCK_TYPE] not in ("", kind)):
        raise UnsupportedError(
            f"the catalog {name!r} asks for a lock, and lakebed takes none",
            why=f"{kind} catalogs have no lock that lakebed knows; it claims names by conditional puts",
            todo=f"Leave {PREFIX}{LOCK.key} out where all writers do the same, else write by Paimon's own engines",
        )
    return settings


def is_known(key: str) -> bool:
    """Whether a key is a setting of a catalog."""
    return _KNOWN.knows(key)


def with_server(given: Settings, answer: Mapping[str, Any]) -> Settings:
    """The settings of a REST catalog: the server's defaults, those that are given, the server's overrides. What is not
    known of the server's is left out."""
    texts: dict[str, str] = {}
    for layer in (answer.get("defaults") or {}, given.texts, answer.get("overrides") or {}):
        texts.update(
            {str(key): str(text) for key, text in layer.items() if text is not None and _KNOWN.knows(str(key))}
        )
    settings = Settings(given.name, texts, given.storage)
    _refuse_signing(settings)
    return settings


def _refuse_signing(settings: Settings) -> None:
    """Raise UnsupportedError where each request must be signed."""
    if settings[TOKEN_PROVIDER] == "dlf" or any(key.startswith("dlf.") for key in settings.texts):
        raise UnsupportedError(
            f"the catalog {settings.name!r} asks for signatures of Alibaba's DLF (token.provider=dlf)",
            why="lakebed shows a token, and signs nothing",
            todo=f"Use a server that takes {PREFIX}{TOKEN.key}, or open the tables by their paths",
        )


def _without_secrets(name: str, texts: Mapping[str, str], storage: Mapping[str, str]) -> Settings:
    """Settings in another process, which takes secrets from its environment."""
    return Settings(name, {**_of_environment(name), **texts}, storage)


def table_name(text: str) -> TableName:
    """The name of a table. UsageError for what cannot be one."""
    parts = text.split(".") if isinstance(text, str) else []
    if len(parts) != 2 or not all(PATTERN.fullmatch(part) for part in parts):
        raise UsageError(
            f"{text!r} is not the name of a table in a catalog",
            todo="Write database.table; the option branch picks a branch",
        )
    return TableName(parts[0], parts[1])


def database_name(text: object) -> str:
    """The name of a database. UsageError for what cannot be one."""
    if not isinstance(text, str) or not PATTERN.fullmatch(text):
        raise UsageError(f"{text!r} cannot name a database", todo="Use letters, digits, hyphens and underscores")
    return text


def variable(name: str, key: str) -> str:
    """The environment variable of a setting."""
    return f"{_VARIABLE}{name}__{key}".replace(".", "__").replace("-", "_").upper()


def _of_environment(name: str) -> dict[str, str]:
    start = f"{_VARIABLE}{name}__".replace("-", "_").upper()
    return {
        variable.upper().removeprefix(start).lower().replace("__", ".").replace("_", "-"): text
        for variable, text in os.environ.items()
        if variable.upper().startswith(start)
    }
