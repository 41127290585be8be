"""Access to a server: its token, hosts, pages of other sites, bodies, and the line of each call in a log."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import json
import logging
import re
import weakref
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from strand.errors import ConfigurationError
from strand.logs import Event, keep_secret
from strand.validate import check_depth

__all__ = [
    "LOCAL_HOSTS", "STOPPING", "TOKENS", "Hosts", "Token", "body_of", "is_foreign", "note_call", "refusal", "refused",
]  # fmt: skip

_KEPT: Final = Event("http.token_kept", ".http", "ERROR", "the token stays as it was: %(error)s")
_READ: Final = Event("http.token_read", ".http", "INFO", "the token was read again")
#: Each call that may change something has its line here.
_CALLED: Final = Event("http.control", ".http.audit", "INFO", "%(client)s %(method)s %(path)s %(status)d", most=None)
logging.getLogger(_CALLED.logger).setLevel(logging.INFO)

#: Hosts that requests from this machine name.
LOCAL_HOSTS: Final = ("127.0.0.1", "localhost", "[::1]")
#: No letter of a client's name or address.
_ODD: Final = re.compile(r"[^\w.:%-]")
#: The header Host: a name or an address, and a port.
_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/?#@\[\]]+)(?::\d+)?")
_BODY_S: Final = 10.0

#: Entry of a scope: what tells whether the server is about to end, so that endless replies end.
STOPPING: Final = "strand.is_stopping"
_LEAST_TOKEN: Final = 16


class Token:
    """A token in a file: a secret that a request brings. Raises ConfigurationError where the file has none."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._value = self._read()
        TOKENS.add(self)

    def _read(self) -> bytes:
        try:
            value = Path(self._path).read_bytes().strip()
        except OSError as error:
            raise ConfigurationError("token_file", f"{self._path}: {error.strerror}") from None
        if len(value) < _LEAST_TOKEN:
            raise ConfigurationError("token_file", f"{self._path}: a token has {_LEAST_TOKEN} characters at least")
        keep_secret(value)
        return value

    def read_again(self) -> None:
        """Reads the file again. If that fails, the token stays, and the log says so."""
        try:
            self._value = self._read()
        except ConfigurationError as error:
            _KEPT(error=error)
        else:
            _READ()

    def accepts(self, headers: Headers, method: str) -> bool:
        """Tells whether the header ``Authorization`` brings the token: as Bearer, or as the password of Basic, by which
        a browser asks for it. It takes as long whatever the token is.

        A browser brings the password with whatever a page of any site asks for. So with it, a method other than GET and
        HEAD has to come from a page of the same origin.
        """
        scheme, _, given = headers.get("authorization", "").partition(" ")
        value = given.strip().encode("latin-1", "replace")
        is_known = scheme.lower() == "bearer"
        if scheme.lower() == "basic":
            is_known = method in ("GET", "HEAD") or ("origin" in headers and not is_foreign(headers))
            try:
                value = base64.b64decode(value, validate=True).partition(b":")[2]
            except binascii.Error:
                is_known = False
        return hmac.compare_digest(value, self._value) and is_known


#: All of this process.
TOKENS: Final[weakref.WeakSet[Token]] = weakref.WeakSet()


class Hosts:
    """Hosts that a request may name; ``"*"``: any."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = {f"[{host}]" if ":" in host and host[0] != "[" else host.lower() for host in names}

    def fault(self, headers: Headers) -> str | None:
        """The fault of a request's header ``Host``; None: it has none."""
        named = headers.get("host", "")
        host = _HOST.fullmatch(named)
        if host is not None and ("*" in self._names or host[1].lower() in self._names):
            return None
        return f"the header Host names {named!r}: name one of {', '.join(sorted(self._names))}"


def is_foreign(headers: Headers) -> bool:
    """Tells whether a browser says that a page of another site asks."""
    origin = headers.get("origin")
    of_another = origin is not None and origin.partition("://")[2] != headers.get("host")
    return of_another or headers.get("sec-fetch-site", "none") not in ("none", "same-origin")


async def body_of(request: Request, kind: Any, most_bytes: int) -> Any:
    """The body of a request. Raises HTTPException, msgspec.DecodeError."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, "the body has to be application/json")
    text = bytearray()
    try:
        async with asyncio.timeout(_BODY_S):
            async for part in request.stream():
                text += part
                if len(text) > most_bytes:
                    raise HTTPException(413, f"the body has more than {most_bytes:,} bytes")
    except TimeoutError:
        raise HTTPException(408, f"the body took more than {_BODY_S:g} s") from None
    try:
        check_depth(text)
    except ValueError as error:
        raise HTTPException(400, f"the body is refused: {error}") from None
    return msgspec.json.decode(text, type=kind)


def refusal(status: int, reason: str, headers: Mapping[str, str] | None = None) -> Response:
    """An answer that is an error."""
    return JSONResponse({"error": reason}, status, headers)


async def refused(_: Request, error: Exception) -> Response:
    """The answer for an HTTPException."""
    assert isinstance(error, HTTPException)
    return refusal(error.status_code, error.detail, error.headers)


def note_call(request: Request, status: int) -> None:
    """Writes the line of a call into the log ``strand.http.audit``."""
    # A server takes it from X-Forwarded-For, where anything may stand.
    client = "-" if request.client is None else _ODD.sub("?", request.client.host)
    path = json.dumps(request.scope["path"])  # no letter of it ends the line
    _CALLED(client=client, method=request.method, path=path, status=status)
