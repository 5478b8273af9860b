"""The URL of an OpenAI-compatible endpoint: checked, completed, and shown without a login."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit

from coalq.errors import InputError


def api_root(base_url: str) -> str:
    """The URL that `/chat/completions` is appended to; a bare host gets `/v1`.

    Raises:
        InputError: If it is not an http(s) URL with a host and a possible port.
    """
    try:
        parts = urlsplit(base_url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or any(character.isspace() for character in base_url):
        shown = without_credentials(base_url)
        raise InputError(f"COALQ_BASE_URL: {shown!r} is not an http:// or https:// URL, e.g. http://gpu1:8000/v1")
    path = parts.path.rstrip("/") or "/v1"
    return urlunsplit((parts.scheme, parts.netloc, path, "", ""))


def without_credentials(url: str) -> str:
    """The URL without user and password, for records and messages."""
    before, at, after = url.rpartition("@")
    if not at:
        return url
    scheme, slashes, _ = before.partition("//")
    return f"{scheme}//{after}" if slashes else after
