"""Access to a server: the token in a file."""

from __future__ import annotations

import hmac
import weakref
from pathlib import Path
from typing import Final

from starlette.datastructures import Headers

from strand.errors import ConfigurationError
from strand.logs import Event, keep_secret

__all__ = ["STOPPING", "TOKENS", "Token"]

_KEPT: Final = Event("http.token_kept", ".http", "ERROR", "the token stays as it was: %(error)s")
_READ: Final = Event("http.token_read", ".http", "INFO", "the token was read again")

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

    def accepts(self, headers: Headers) -> bool:
        """Tells whether the header ``Authorization`` brings the token. It takes as long whatever that is."""
        scheme, _, given = headers.get("authorization", "").partition(" ")
        is_equal = hmac.compare_digest(given.strip().encode("latin-1", "replace"), self._value)
        return is_equal and scheme.lower() == "bearer"


#: All of this process.
TOKENS: Final[weakref.WeakSet[Token]] = weakref.WeakSet()
