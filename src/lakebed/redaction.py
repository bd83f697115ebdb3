"""Keep secrets out of errors, warnings, logs and reprs.

`redacted` decides what is a secret. It recognises one by its place (the user and password of a URL, and the values of
parameters and settings whose names say that they grant access, in clear and percent-encoded), by its form (access key
ids, bearer tokens), or because a caller handed it in (`keep_secret`).
"""

from __future__ import annotations

import logging
import re
from urllib.parse import quote, quote_plus

HIDDEN = "..."
"""What replaces a secret in a text."""
_LEAST_CHARACTERS = 6
"""Shorter values are not taken for secrets: hiding them everywhere would hide ordinary words."""
_HARMLESS = ("ship-secrets",)
"""Endings of settings whose names sound like secrets but are not."""
_secrets: set[str] = set()

_WORDS = r"sig(?:nature)?|[\w.\-]{0,60}(?:signature|secret|token|passw(?:or)?d|pwd|key|credential|authorization|sas)"
_END = r"(?:=|%3D|%253D)"
_VALUE = r"(?:(?!%26|%2526|%23)[^&\s'\"<>,;)\]}])+"
_PARAMETER = re.compile(rf"(?i)((?:[?&]|%3F|%26|%253F|%2526)(?:{_WORDS})[\w.\-]{{0,30}}{_END}){_VALUE}")
_USER = re.compile(
    r"(?i)\b([a-z][a-z0-9+.\-%]{0,30}?)(:(?://)|%3A%2F%2F|%253A%252F%252F)"
    r"((?:(?!%2F|%40|%252F|%2540)[^\s/@'\"<>?#])+)(@|%40|%2540)"
)
_SETTING = re.compile(
    r"(?i)(?<![\w.\-])((?:[\w.\-]{0,60}(?:secret[\w.\-]{0,30}|password|passwd|token|account[_.\-]?key(?:\.[\w.\-]{1,80})?|sas[_.\-]token\.[\w.\-]{1,80}|"
    r"access[_.\-]?key(?:[_.\-]?id)?|api[_.\-]?key|private[_.\-]?key|credential|sas))"
    r"(?:(?:=|%3D)['\"]?|['\"]\s*[:=]\s*['\"]))(?!true\b|false\b|\.\.\.)" + _VALUE
)
_LOOKS = re.compile(
    r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|\beyJ[\w\-]{8,}\.[\w\-]{8,}\.[\w\-]*|(?i:(?<=bearer )[\w.\-~+/]{8,}=*)"
)
_CONTAINER_SCHEMES = ("abfs", "abfss", "wasb", "wasbs")
"""URL schemes in which the part before the @ is a container, not a user."""


def redacted(text: str) -> str:
    """The text with each secret in it replaced by `HIDDEN`."""
    for secret in sorted(_secrets, key=len, reverse=True):
        if secret in text:
            text = text.replace(secret, HIDDEN)
    if "@" in text or "%40" in text or "%2540" in text:
        text = _USER.sub(_hide_user, text)
    text = _PARAMETER.sub(rf"\g<1>{HIDDEN}", text)
    text = _SETTING.sub(rf"\g<1>{HIDDEN}", text)
    return _LOOKS.sub(HIDDEN, text)


def keep_secret(value: str) -> None:
    """Hide a value from now on, in clear and percent-encoded, in every text that is redacted."""
    if len(value) >= _LEAST_CHARACTERS:
        _secrets.update((value, quote(value, safe=""), quote(value), quote_plus(value), quote(quote(value, safe=""))))


def names_secret(key: str) -> bool:
    """Whether a setting of that name holds a secret."""
    return _SETTING.search(f"{key}=value") is not None and not key.lower().endswith(_HARMLESS)


def shown(key: str, value: str) -> str:
    """The value of a setting, as it may be printed."""
    return HIDDEN if names_secret(key) else redacted(value)


class Settings(dict[str, str]):
    """Settings by key. Their values are there for programs; what is printed has no secrets."""

    def __repr__(self) -> str:
        return repr({key: shown(key, value) for key, value in self.items()})

    __str__ = __repr__


def redacting_logger(name: str) -> logging.Logger:
    """The logger of that name. Its records are redacted before any handler sees them."""
    logger = logging.getLogger(name)
    if not any(isinstance(present, _Redacting) for present in logger.filters):
        logger.addFilter(_Redacting())
    return logger


class _Redacting(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = redacted(record.getMessage()), ()
        return True


def _hide_user(match: re.Match[str]) -> str:
    scheme, colon, user, at = match.groups()
    has_password = ":" in user or "%3a" in user.lower() or "%253a" in user.lower()
    if scheme.lower() in _CONTAINER_SCHEMES and not has_password:
        return match[0]
    return f"{scheme}{colon}{HIDDEN}{at}"
