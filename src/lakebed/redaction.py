"""Secrets kept out of what lakebed says: errors, warnings, logs, reprs.

One function decides. It knows secrets by where they stand (user and password of a URL, parameters and settings whose
names say that they unlock something, in clear and percent-encoded), by their looks (access key ids, bearer tokens), and
by heart: those that a caller handed in.
"""

from __future__ import annotations

import logging
import re
from urllib.parse import quote, quote_plus

HIDDEN = "..."
"""What stands where a secret stood."""
_LEAST_CHARACTERS = 6
"""Shorter values are no secrets: hiding them everywhere would hide words."""
_HARMLESS = ("ship-secrets",)
"""Settings that sound like secrets and are none."""
_known: set[str] = set()

_WORDS = r"sig(?:nature)?|[\w.\-]{0,60}(?:signature|secret|token|passw(?:or)?d|pwd|key|credential|authorization|sas)"
_END = r"(?:=|%3D|%253D)"
_VALUE = r"(?:(?!%26|%2526|%23)[^&\s'\"<>,;)\]}])+"
_PARAMETER = re.compile(rf"(?i)((?:[?&]|%3F|%26|%253F|%2526)(?:{_WORDS})[\w.\-]{{0,30}}{_END}){_VALUE}")
_USER = re.compile(
    r"(?i)\b([a-z][a-z0-9+.\-%]{0,30}?)(:(?://)|%3A%2F%2F|%253A%252F%252F)"
    r"((?:(?!%2F|%40|%252F|%2540)[^\s/@'\"<>?#])+)(@|%40|%2540)"
)
_SETTING = re.compile(
    r"(?i)(?<![\w.\-])((?:[\w.\-]{0,60}(?:secret[\w.\-]{0,30}|password|passwd|token|account[_.\-]?key|"
    r"access[_.\-]?key(?:[_.\-]?id)?|api[_.\-]?key|private[_.\-]?key|credential|sas))"
    r"(?:(?:=|%3D)['\"]?|['\"]\s*[:=]\s*['\"]))(?!true\b|false\b|\.\.\.)" + _VALUE
)
_LOOKS = re.compile(
    r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|\beyJ[\w\-]{8,}\.[\w\-]{8,}\.[\w\-]*|(?i:(?<=bearer )[\w.\-~+/]{8,}=*)"
)
_CONTAINER_SCHEMES = ("abfs", "abfss", "wasb", "wasbs")
"""Their URLs name a container before the @, which is no user."""


def redacted(text: str) -> str:
    """The text without the secrets in it."""
    for secret in sorted(_known, key=len, reverse=True):
        if secret in text:
            text = text.replace(secret, HIDDEN)
    if "@" in text or "%40" in text or "%2540" in text:
        text = _USER.sub(_without_user, text)
    text = _PARAMETER.sub(rf"\g<1>{HIDDEN}", text)
    text = _SETTING.sub(rf"\g<1>{HIDDEN}", text)
    return _LOOKS.sub(HIDDEN, text)


def keep_secret(value: str) -> None:
    """Hide a value, in clear and percent-encoded, wherever it should turn up."""
    if len(value) >= _LEAST_CHARACTERS:
        _known.update((value, quote(value, safe=""), quote(value), quote_plus(value), quote(quote(value, safe=""))))


def names_secret(key: str) -> bool:
    """Whether a setting of that name unlocks something."""
    return _SETTING.search(f"{key}=value") is not None and not key.lower().endswith(_HARMLESS)


def redacting_logger(name: str) -> logging.Logger:
    """The logger of a name, whose records are redacted before any handler sees them."""
    logger = logging.getLogger(name)
    if not any(isinstance(known, _Redacting) for known in logger.filters):
        logger.addFilter(_Redacting())
    return logger


class _Redacting(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = redacted(record.getMessage()), ()
        return True


def _without_user(found: re.Match[str]) -> str:
    scheme, colon, user, at = found.groups()
    has_password = ":" in user or "%3a" in user.lower() or "%253a" in user.lower()
    if scheme.lower() in _CONTAINER_SCHEMES and not has_password:
        return found[0]
    return f"{scheme}{colon}{HIDDEN}{at}"
