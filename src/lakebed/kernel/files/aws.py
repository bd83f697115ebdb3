"""Who asks S3: keys of the options, of the environment, of a profile; an instance's role only when told so.

The client finds keys in the environment and asks the instance's metadata service by itself. Here everything is decided
before there is a client: explicit keys go without a session token that the environment has for others, profiles are
read, and where there are no keys nothing is asked for them.
"""

from __future__ import annotations

import configparser
import os
from collections.abc import Callable, Mapping
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from lakebed.errors import UsageError
from lakebed.redaction import keep_secret

ENDPOINTS = ("endpoint", "endpoint_url")
_ELSEWHERE = (
    ("web_identity_token_file", "role_arn"),
    ("container_credentials_relative_uri",),
    ("container_credentials_full_uri",),
)
"""Settings with which the client gets keys from a service, as a whole in the options or the environment."""
_CANNOT = (
    "sso_session",
    "sso_start_url",
    "credential_process",
    "role_arn",
    "source_profile",
    "web_identity_token_file",
)


def resolved(bucket: str, config: Mapping[str, Any], instance: bool) -> tuple[dict[str, Any], Callable[[], Any] | None]:
    """The settings of the client, all named `aws_...`, and the provider of its keys where it must not look by itself.

    `instance` says that the caller wants the role of the machine that this is. UsageError where there are no keys, or
    half of them, and for an endpoint that cannot be one.
    """
    settings = {key if key.startswith("aws_") else f"aws_{key}": value for key, value in config.items()}
    profile = _Profile()
    endpoint = _endpoint(settings, profile, bucket)
    if endpoint:
        settings = {key: value for key, value in settings.items() if key.removeprefix("aws_") not in ENDPOINTS}
        settings["aws_endpoint"] = endpoint
    if not _given(settings, "region") and not _given(settings, "default_region") and profile.get("region"):
        settings["aws_region"] = profile.get("region")
    return settings, _keys(bucket, settings, profile, instance)


def _keys(bucket: str, settings: Mapping[str, Any], profile: _Profile, instance: bool) -> Callable[[], Any] | None:
    """The provider of keys; None where the client looks for them by itself."""
    explicit = settings.get("aws_access_key_id"), settings.get("aws_secret_access_key")
    if any(explicit):
        _both(bucket, *explicit, "lakebed.storage.setting.aws_access_key_id", "...setting.aws_secret_access_key")
        return _static(*explicit, settings.get("aws_session_token") or settings.get("aws_token"))
    if str(_given(settings, "skip_signature")).lower() in ("true", "1", "yes", "on") or instance:
        return None
    keys = os.environ.get("AWS_ACCESS_KEY_ID"), os.environ.get("AWS_SECRET_ACCESS_KEY")
    if any(keys) and not (profile.chosen and not all(keys)):
        _both(bucket, *keys, "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
        return None
    if any(all(_given(settings, name) for name in names) for names in _ELSEWHERE):
        return None
    provider = profile.keys(bucket)
    if provider is None:
        raise UsageError(
            f"there are no credentials for s3://{bucket}",
            why=f"neither the options nor the environment have keys, and {profile.why_not}",
            todo="Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or the options lakebed.storage.setting."
            "aws_access_key_id and aws_secret_access_key; for the role of this machine lakebed.storage.provider="
            "instance, for a public bucket lakebed.storage.setting.aws_skip_signature=true",
        )
    return provider


class _Profile:
    """The chosen profile of AWS's shared files, read when it is asked for something."""

    def __init__(self) -> None:
        self.chosen = os.environ.get("AWS_PROFILE") or os.environ.get("AWS_DEFAULT_PROFILE") or ""
        self.name = self.chosen or "default"
        self._read: dict[str, str] | None = None

    def get(self, key: str) -> str:
        """A value of the profile, "" for none."""
        return self._values.get(key, "")

    def keys(self, bucket: str) -> Callable[[], Any] | None:
        """The provider of the profile's keys, None where it has none."""
        access, secret = self.get("aws_access_key_id"), self.get("aws_secret_access_key")
        if access or secret:
            _both(bucket, access, secret, f"aws_access_key_id of profile {self.name}", "aws_secret_access_key")
            return self._again
        served = [key for key in _CANNOT if self.get(key)]
        if served:
            raise UsageError(
                f"profile {self.name!r} has no keys of its own",
                why=f"lakebed reads static keys of profiles, and this one has {', '.join(served)}",
                todo="Run `aws configure export-credentials --format env` and set what it prints, or name a function "
                "that gives a boto3 session's credentials in lakebed.storage.provider (docs/storage.md)",
            )
        if self.chosen and not self._values:
            raise UsageError(f"AWS_PROFILE names {self.chosen!r}, and {self.why_not}", todo="Check its name")
        return None

    @property
    def why_not(self) -> str:
        """Why the profile is no help."""
        return f"there is no profile {self.name!r} with keys in {' or '.join(self._files)}"

    def _again(self) -> Any:
        """The keys as the files have them now: other programs renew them."""
        self._read = None
        return _static(
            self.get("aws_access_key_id"), self.get("aws_secret_access_key"), self.get("aws_session_token")
        )()

    @property
    def _files(self) -> tuple[str, str]:
        return (
            os.environ.get("AWS_SHARED_CREDENTIALS_FILE", os.path.join("~", ".aws", "credentials")),
            os.environ.get("AWS_CONFIG_FILE", os.path.join("~", ".aws", "config")),
        )

    @property
    def _values(self) -> dict[str, str]:
        if self._read is None:
            credentials, config = map(_sections, self._files)
            section = self.name if self.name == "default" else f"profile {self.name}"
            self._read = {**config.get(section, {}), **credentials.get(self.name, {})}
        return self._read


def _sections(path: str) -> Mapping[str, Mapping[str, str]]:
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read(os.path.expanduser(path), encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError, OSError) as error:
        raise UsageError(f"cannot read {path}", why=str(error).splitlines()[0]) from error
    return {name: dict(parser[name]) for name in parser.sections()}


def _static(access: Any, secret: Any, token: Any) -> Callable[[], Any]:
    for value in (access, secret, token):
        if value:
            keep_secret(str(value))
    keys = {"access_key_id": access, "secret_access_key": secret, "token": token or None, "expires_at": None}
    return lambda: keys


def _both(bucket: str, access: Any, secret: Any, access_name: str, secret_name: str) -> None:
    if not access or not secret:
        given, missing = (access_name, secret_name) if access else (secret_name, access_name)
        raise UsageError(f"half of the keys for s3://{bucket} is missing", why=f"{given} is set, {missing} is not")


def _given(settings: Mapping[str, Any], name: str) -> Any:
    """A setting of the options, else of the environment."""
    return settings.get(f"aws_{name}") or os.environ.get(f"AWS_{name.upper()}")


def _endpoint(settings: Mapping[str, Any], profile: _Profile, bucket: str) -> str:
    """The endpoint, "" for AWS's own. With names of buckets as hosts it gets the bucket's name."""
    given = next((str(settings[f"aws_{name}"]) for name in ENDPOINTS if settings.get(f"aws_{name}")), "")
    for variable in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"):
        given = given or os.environ.get(variable, "")
    given = given or profile.get("endpoint_url")
    if not given:
        return ""
    parts = urlsplit(given)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(
            f"endpoint {given!r} is no URL of a server",
            todo="Write http:// or https:// before it, such as https://s3.example.com",
        )
    if str(_given(settings, "virtual_hosted_style_request")).lower() not in ("true", "1", "yes", "on"):
        return given.rstrip("/")
    if parts.hostname.startswith(f"{bucket}."):
        return given.rstrip("/")
    if _is_address(parts.hostname):
        raise UsageError(
            f"endpoint {given!r} is an address, and cannot have the bucket's name before it",
            todo="Leave out aws_virtual_hosted_style_request, or give the server's name",
        )
    return parts._replace(netloc=f"{bucket}.{parts.netloc}").geturl().rstrip("/")


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
