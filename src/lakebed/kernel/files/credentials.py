"""How a store is unlocked on any machine, without a secret on the wire.

Options (all begin with `lakebed.storage.`): `provider` names where credentials come from, `setting.KEY` gives the
storage client one setting (`setting.aws_endpoint`, `setting.aws_region`, ...), and `ship-secrets` = true lets explicit
secrets travel to workers. `places` is no matter of credentials: see `places.py`.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lakebed.errors import OptionError, UsageError
from lakebed.kernel.files.places import PLACES
from lakebed.redaction import keep_secret

PREFIX = "lakebed.storage."
_SECRET_WORDS = ("secret", "token", "password", "key", "sas", "service_account", "credential", "private")
_NO_SECRETS = ("kms_key_id", "bucket_key", "imdsv1", "endpoint", "path", "file")
"""Names with one of these words are never secret, whatever else is in them."""
_ENDPOINTS = (
    "aws_endpoint",
    "aws_endpoint_url",
    "endpoint",
    "endpoint_url",
    "azure_storage_endpoint",
    "azure_endpoint",
)


@dataclass(frozen=True, slots=True)
class Credentials:
    """`provider` is "environment" (the client's own chain: environment variables, instance roles) or
    `package.module:function`, a function of no arguments that returns the client's keyword arguments (`config`,
    `credential_provider`, ...)."""

    provider: str = "environment"
    plain: Mapping[str, str] = field(default_factory=dict)
    secret: Mapping[str, str] = field(default_factory=dict, repr=False)
    ship_secrets: bool = False

    def __post_init__(self) -> None:
        for value in self.secret.values():
            keep_secret(value)

    def __reduce__(self) -> tuple[Any, ...]:
        if self.secret and not self.ship_secrets:
            raise UsageError(
                "explicit secrets would travel to other processes in clear",
                why=f"the options give {', '.join(sorted(self.secret))}",
                todo=f"Let workers find them themselves ({PREFIX}provider), or allow it with {PREFIX}ship-secrets=true",
            )
        return Credentials, (self.provider, dict(self.plain), dict(self.secret), self.ship_secrets)

    def settings(self) -> dict[str, Any]:
        """Keyword arguments of the storage client, made on the machine that uses them."""
        made: dict[str, Any] = {}
        if self.provider != "environment":
            module, _, name = self.provider.partition(":")
            try:
                made = dict(getattr(importlib.import_module(module), name)())
            except (ImportError, AttributeError) as error:
                raise OptionError.ill_typed(
                    f"{PREFIX}provider",
                    self.provider,
                    f"'environment' or an importable package.module:function ({error})",
                ) from error
        config = {**made.pop("config", {}), **self.plain, **self.secret}
        if any(_endpoint(config, name).startswith("http:") for name in _ENDPOINTS):
            made["client_options"] = {"allow_http": True, **made.get("client_options", {})}
        return {**made, "config": config} if config else made


def _endpoint(config: Mapping[str, Any], name: str) -> str:
    """An endpoint that the settings or the environment name: one without TLS must be allowed in so many words."""
    return str(config.get(name) or os.environ.get(name.upper(), "")).lower()


def credentials_from(options: Mapping[str, str]) -> Credentials:
    """Credentials that the storage options name; options of other families are left alone."""
    provider, ship = "environment", False
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
        elif name.startswith("setting."):
            setting = name.removeprefix("setting.")
            (secret if is_secret(setting) else plain)[setting] = value
        else:
            known = [f"{PREFIX}provider", f"{PREFIX}ship-secrets", PLACES, f"{PREFIX}setting.KEY"]
            raise OptionError.unknown(key, known)
    return Credentials(provider, plain, secret, ship)


def is_secret(setting: str) -> bool:
    """Whether a setting of the storage client unlocks something; in doubt it does."""
    return any(word in setting for word in _SECRET_WORDS) and not any(word in setting for word in _NO_SECRETS)
