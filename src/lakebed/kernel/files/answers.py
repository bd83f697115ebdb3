"""What an object store's refusal means, and what to do about it."""

from __future__ import annotations

import html
import re

from lakebed.errors import RetryableError, StorageError, first_line
from lakebed.kernel.files.store import failed

_STATUS = re.compile(r"status code: (\d{3}) ?([A-Za-z ]*)")
_CODE = re.compile(r"<Code>([\w.]+)</Code>")
_MESSAGE = re.compile(r"<Message>([^<]{1,300})")
_TRIES = re.compile(r"in ([\d.]+)(m?)s, after (\d+) retries")
_SERVER = re.compile(r"[A-Z]+ (https?://[^/\s)]+)")
_METADATA = re.compile(r"/latest/|/computeMetadata/|/metadata/identity/|//169\.254\.")
_AGAIN = frozenset({408, 425, 429})
"""Statuses of 4xx that ask to be tried again."""
_MISSING_FILE = frozenset({"NoSuchKey", "NoSuchVersion", "BlobNotFound", "PathNotFound", "NotFound", ""})
_KEYS = "lakebed.storage.setting.aws_access_key_id and aws_secret_access_key (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY)"
_REGION = "Set lakebed.storage.setting.aws_region (AWS_REGION) to the bucket's region"
_TODO = {
    "InvalidAccessKeyId": f"Check the key: {_KEYS}",
    "XAdminUserNotFound": f"Check the key: {_KEYS}",
    "SignatureDoesNotMatch": "Check the secret: lakebed.storage.setting.aws_secret_access_key (AWS_SECRET_ACCESS_KEY)",
    "ExpiredToken": "Get new keys and set them again, with lakebed.storage.setting.aws_session_token "
    "(AWS_SESSION_TOKEN), or name a function that renews them in lakebed.storage.provider",
    "TokenRefreshRequired": "Get new keys, or name a function that renews them in lakebed.storage.provider",
    "InvalidToken": "Check lakebed.storage.setting.aws_session_token (AWS_SESSION_TOKEN), or unset it",
    "RequestTimeTooSkewed": "Set this machine's clock: it differs too much from the store's",
    "AuthorizationHeaderMalformed": _REGION,
    "PermanentRedirect": _REGION,
    "TemporaryRedirect": _REGION,
    "IllegalLocationConstraintException": _REGION,
    "NoSuchBucket": "Check that the bucket exists",
    "NotImplemented": "lakebed needs a store with conditional writes (If-None-Match)",
    "InvalidBucketName": "Check the bucket's name",
    "AccessDenied": "Check the credentials: these keys may not do this in this bucket",
    "AuthenticationFailed": "Check the credentials: lakebed.storage.setting.azure_storage_account_key "
    "(AZURE_STORAGE_ACCOUNT_KEY)",
}  # fmt: skip
_BY_STATUS = {
    301: _REGION, 307: _REGION, 401: "Check the credentials", 403: "Check the credentials (docs/storage.md)",
    404: "Check that the bucket exists", 400: f"Check the settings: region, endpoint and {_KEYS}",
}  # fmt: skip


def answer_of(error: Exception) -> tuple[int, str]:
    """The status and the store's own code in a client's exception; 0 and "" where it has none."""
    text = str(error)
    status, code = _STATUS.search(text), _CODE.search(text)
    if status is None and "without LOCATION" in text:
        return 301, "PermanentRedirect"
    return int(status[1]) if status else 0, code[1] if code else ""


def is_refusal(error: Exception) -> bool:
    """Whether the store, or the client before it, said no: the same request would be refused again."""
    status, _ = answer_of(error)
    if status:
        return status == 501 or (300 <= status < 500 and status not in _AGAIN)
    return type(error).__name__ in ("PermissionDeniedError", "UnauthenticatedError", "InvalidPathError") or isinstance(
        error, FileNotFoundError
    )


def was_tried_again(error: Exception) -> bool:
    """Whether the answer is not that of the first try, so an earlier one may have had its effect."""
    tries = _TRIES.search(str(error))
    return tries is not None and int(tries[3]) > 0


def is_missing(error: FileNotFoundError) -> bool:
    """Whether a 404 says that there is no such file, rather than no such bucket or user."""
    return answer_of(error)[1] in _MISSING_FILE


def failure(verb: str, location: str, path: str, error: Exception) -> StorageError:
    """The error for a failed request: a refusal names the setting to change, anything else may be tried again."""
    status, code = answer_of(error)
    refused = is_refusal(error)
    todo = _TODO.get(code) or _BY_STATUS.get(status, "") if refused else ""
    if refused and not status:
        todo = "Check the credentials (docs/storage.md)"
        if "credential provider" in str(error):
            todo = "Check the function that lakebed.storage.provider names, or the catalog that hands out keys"
    text, tries = str(error), _TRIES.search(str(error))
    seconds = float(tries[1]) / (1000 if tries[2] else 1) if tries else 0.0
    often = f", {int(tries[3]) + 1} times in {seconds:.1f} s" if tries and int(tries[3]) else ""
    raised = failed(verb, location, path, error, StorageError if refused else RetryableError, todo)
    if status:
        message = _MESSAGE.search(text)
        raised.why = f"the store answered {status}{f' {code}' if code else ''}" + (
            f" ({html.unescape(message[1]).strip().rstrip('.')})" if message and code else ""
        )
        raised.why += often
    elif not refused and (server := _SERVER.search(text)):
        raised.why = f"no answer came from {server[1]}{often}: {first_line(error).rpartition(' - ')[2]}"
        if _METADATA.search(text):
            raised.todo = "It is where this machine gives out its role. Leave out lakebed.storage.provider=instance, "
            raised.todo += "and set keys"
        else:
            setting = "lakebed.storage.setting.aws_endpoint (AWS_ENDPOINT_URL_S3), " if location[:2] == "s3" else ""
            raised.todo = f"Check {setting}the network and the proxy, then try again"
    return raised
