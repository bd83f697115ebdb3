"""The credentials of a store, for every machine that opens it, without sending secrets.

The options all begin with `lakebed.storage.`. `provider` names where credentials come from. `setting.KEY` is a setting
of the storage client (`setting.aws_endpoint`, `setting.aws_region`, ...). `ship-secrets` = true allows explicit secrets
to travel to workers. Those of `bounds.py` say how much is asked for at once. The option `places` has nothing to do with
credentials: see `places.py`.
"""

from __future__ import annotations

import hashlib
import importlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from lakebed.errors import LakebedError, OptionError, StorageError, UsageError, first_line
from lakebed.kernel.files.bounds import BOUNDS, Bounds
from lakebed.kernel.files.places import PLACES
from lakebed.redaction import keep_secret

PREFIX = "lakebed.storage."
_SECRET_WORDS = ("secret", "token", "password", "key", "sas", "service_account", "credential", "private")
_NO_SECRETS = ("kms_key_id", "bucket_key", "imdsv1", "endpoint", "path", "file")
"""A setting whose name has one of these words is never secret."""
_KEYS = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
KEYS_END = "aws_session_token_expires_at_ms"
"""The setting that says when the keys end, in milliseconds since 1970. The client never sees it."""
ENVIRONMENT, INSTANCE = "environment", "instance"
"""Providers that the client has itself."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Where a store's client gets its credentials and settings.

    `provider` is "environment" (environment variables, profiles), "instance" (the role of the machine, from its
    metadata service), or `package.module:function`: a function without arguments that returns keyword arguments of the
    client (`config`, `credential_provider`, ...). `plain` and `secret` are settings that the options give. `renewal`
    is asked for new options when the keys among these end, for keys that a catalog hands out. Pickling leaves such keys
    out, for the other process asks by itself, and raises UsageError when other secrets may not travel.
    """

    provider: str = ENVIRONMENT
    plain: Mapping[str, str] = field(default_factory=dict)
    secret: Mapping[str, str] = field(default_factory=dict, repr=False)
    ship_secrets: bool = False
    bounds: Bounds = field(default_factory=Bounds)
    renewal: Callable[[], Mapping[str, str]] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        for value in self.secret.values():
            keep_secret(value)

    def __reduce__(self) -> tuple[Any, ...]:
        secret = dict(self.secret)
        if self.renewal is not None and not self.ship_secrets:
            secret = {key: value for key, value in secret.items() if key not in (*_KEYS, KEYS_END)}
        if secret and not self.ship_secrets:
            raise UsageError(
                "explicit secrets would travel to other processes in clear",
                why=f"the options give {', '.join(sorted(secret))}",
                todo=f"Let workers find them by themselves ({PREFIX}provider), or set {PREFIX}ship-secrets=true",
            )
        return Credentials, (self.provider, dict(self.plain), secret, self.ship_secrets, self.bounds, self.renewal)

    @property
    def identity(self) -> bytes:
        """Tells credentials apart without showing them: one process may open a place with several."""
        settings = sorted({**self.plain, **self.secret}.items())
        who = os.urandom(16) if self.renewal is not None else self.provider
        return hashlib.sha256(repr((who, settings)).encode()).digest()

    def settings(self) -> dict[str, Any]:
        """The keyword arguments of the storage client. Call it on the machine that uses them."""
        own = self.provider not in (ENVIRONMENT, INSTANCE)
        arguments = self._provided() if own else {}
        config = {**arguments.pop("config", {}), **self.plain, **self.secret}
        ends = config.pop(KEYS_END, None)
        if self.renewal is not None:
            keys = {key: config.pop(key) for key in _KEYS if key in config}
            arguments["credential_provider"] = _Renewing({**keys, KEYS_END: ends} if keys else None, self.renewal)
        return {**arguments, "config": config} if config else arguments

    def _provided(self) -> dict[str, Any]:
        """What the caller's function returns. OptionError when there is none, StorageError when it fails."""
        module, _, name = self.provider.partition(":")
        try:
            function = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError, ValueError) as error:
            raise OptionError.ill_typed(
                f"{PREFIX}provider",
                self.provider,
                f"'environment', 'instance' or an importable package.module:function ({error})",
            ) from error
        try:
            return dict(function())
        except LakebedError:
            raise
        except Exception as error:
            raise StorageError(
                f"the function of {PREFIX}provider failed", file=self.provider, why=first_line(error)
            ) from error


class _Renewing:
    """Keys that end, as the client asks for them: first those that there are, then new ones each time."""

    def __init__(self, keys: Mapping[str, str] | None, renewal: Callable[[], Mapping[str, str]]) -> None:
        self._keys, self._renewal = keys, renewal

    def __call__(self) -> dict[str, Any]:
        keys, self._keys = self._keys or credentials_from(self._renewal()).secret, None
        access, secret, token = (keys.get(key) for key in _KEYS)
        ends = keys.get(KEYS_END)
        for value in (access, secret, token):
            keep_secret(value or "")
        return {
            "access_key_id": access,
            "secret_access_key": secret,
            "token": token,
            "expires_at": datetime.fromtimestamp(int(ends) / 1000, UTC) if ends else None,
        }


def credentials_from(options: Mapping[str, str]) -> Credentials:
    """The credentials that the storage options name. Options of other families are ignored.

    OptionError for an unknown or ill-typed storage option.
    """
    provider, ship, bounds = ENVIRONMENT, False, Bounds()
    plain: dict[str, str] = {}
    secret: dict[str, str] = {}
    for key, value in options.items():
        name = key.lower()
        if not name.startswith(PREFIX) or name == PLACES:
            continue
        name = name.removeprefix(PREFIX)
        if name == "provider":
            provider = value
        elif name == "ship-secrets":
            if value.lower() not in ("true", "false"):
                raise OptionError.ill_typed(key, value, "true or false")
            ship = value.lower() == "true"
        elif name in BOUNDS:
            bounds = bounds.with_option(name, key, value)
        elif name.startswith("setting."):
            setting = name.removeprefix("setting.")
            (secret if is_secret(setting) else plain)[setting] = value
        else:
            keys = [f"{PREFIX}{name}" for name in ("provider", "ship-secrets", "setting.KEY", *BOUNDS)] + [PLACES]
            raise OptionError.unknown(key, keys)
    return Credentials(provider, plain, secret, ship, bounds)


def is_secret(setting: str) -> bool:
    """Whether a setting of the storage client is a secret. When in doubt, it is."""
    return any(word in setting for word in _SECRET_WORDS) and not any(word in setting for word in _NO_SECRETS)
