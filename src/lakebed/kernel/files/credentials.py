"""How a store is unlocked on any machine, without a secret on the wire.

Options (all begin with `lakebed.storage.`): `provider` names where credentials come from, `setting.KEY` gives the storage client
one setting (`setting.aws_endpoint`, `setting.aws_region`, ...), and `ship-secrets` = true lets explicit secrets travel to workers.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lakebed.errors import OptionError, UsageError

PREFIX = "lakebed.storage."
_SECRET_WORDS = ("secret", "token", "password", "account_key", "access_key", "sas", "service_account", "private")


@dataclass(frozen=True, slots=True)
class Credentials:
    """`provider` is "environment" (the client's own chain: environment variables, instance roles) or `package.module:function`,
    a function of no arguments that returns the client's keyword arguments (`config`, `credential_provider`, ...)."""

    provider: str = "environment"
    plain: Mapping[str, str] = field(default_factory=dict)
    secret: Mapping[str, str] = field(default_factory=dict, repr=False)
    ship_secrets: bool = False

    def __reduce__(self) -> tuple[Any, ...]:
        if self.secret and not self.ship_secrets:
            raise UsageError(
                "explicit secrets would travel to other processes in clear",
                why=f"the options give {', '.join(sorted(self.secret))}",
                todo=f"Let workers find credentials themselves ({PREFIX}provider), or allow it with {PREFIX}ship-secrets=true",
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
        http = (
            {}
            if config.get("aws_endpoint", "").startswith("https:") or "aws_endpoint" not in config
            else {"allow_http": True}
        )
        return {**made, "config": config, **({"client_options": http} if http else {})}


def credentials_from(options: Mapping[str, str]) -> Credentials:
    """Credentials that the storage options name; options of other families are left alone."""
    provider, ship = "environment", False
    plain: dict[str, str] = {}
    secret: dict[str, str] = {}
    for key, value in options.items():
        if not key.startswith(PREFIX):
            continue
        name = key.removeprefix(PREFIX)
        if name == "provider":
            provider = value
        elif name == "ship-secrets":
            if value not in ("true", "false"):
                raise OptionError.ill_typed(key, value, "true or false")
            ship = value == "true"
        elif name.startswith("setting."):
            setting = name.removeprefix("setting.")
            (secret if any(word in setting.lower() for word in _SECRET_WORDS) else plain)[setting] = value
        else:
            raise OptionError.unknown(key, [f"{PREFIX}provider", f"{PREFIX}ship-secrets", f"{PREFIX}setting.KEY"])
    return Credentials(provider, plain, secret, ship)
