"""Delivery of alerts by HTTP: signed, in order, at least once."""

from __future__ import annotations

import collections
import hashlib
import hmac
import ipaddress
import json
import re
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any, Final
from urllib.parse import urlsplit

from strand.background import Rounds
from strand.errors import ConfigurationError
from strand.logs import Event, keep_secret

_LOST: Final = Event("webhook.lost", ".alerts", "WARNING", "%(lost)d messages for the webhook were lost")
_FAILED: Final = Event("webhook.attempt_failed", ".alerts", "WARNING", "webhook: attempt failed: %(reason)s")
_PLAIN: Final = re.compile(r"[!-~]+")
_FIRST_WAIT_S, _LONGEST_WAIT_S, _IDLE_S = 1.0, 60.0, 3600.0


def signature(secret: bytes, time_s: int, body: bytes) -> str:
    """Returns the header ``Strand-Signature`` of a body: ``t=SECONDS,v1=HEX``.

    HEX is the HMAC-SHA256 of the text ``SECONDS.``, followed by the body. A receiver computes it again, compares it by
    ``hmac.compare_digest``, and refuses a time that is long past.
    """
    mac = hmac.new(secret, b"%d." % time_s + body, hashlib.sha256)
    return f"t={time_s},v1={mac.hexdigest()}"


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None  # it is then an HTTPError


class Webhook:
    """Posts each message to a URL as JSON, one after the other, until the receiver answers 2xx.

    A message that fails is sent again after 1 s, then after twice as long, up to 60 s. Meanwhile others wait, up to
    ``bound``; of more, the oldest is dropped and counted. Redirects are not followed: they count as failures. A message
    may come twice, if its answer is lost: its ``id`` tells.

    Args:
        url: An https URL. http is for the own machine alone.
        secret: Key of the signatures; see ``signature``. None: messages are not signed.
        bound: How many messages may wait.
        timeout_s: The longest silence of the receiver in one attempt, in s.
        stop_s: How long ``stop`` waits for those that wait, in s, and then for the attempt under way.

    Attributes:
        delivered: Messages that the receiver took.
        failed: Attempts that failed.
        lost: Messages that were dropped: by the bound, or as ``stop`` ended.

    Raises:
        ConfigurationError: If the URL is neither, or the secret is no bytes.
    """

    def __init__(
        self,
        url: str,
        secret: bytes | None = None,
        *,
        bound: int = 1000,
        timeout_s: float = 10.0,
        stop_s: float = 10.0,
    ) -> None:
        _check(url)
        if secret is not None and not (isinstance(secret, bytes) and secret):
            raise ConfigurationError("secret", f"give bytes, and not none of them; {type(secret).__name__} is no key")
        if secret is not None:
            keep_secret(secret)
        self.delivered = self.failed = self.lost = 0
        self._url, self._secret = url, secret
        self._bound, self._timeout_s, self._stop_s = bound, timeout_s, stop_s
        self._waiting: collections.deque[bytes] = collections.deque()
        self._lock = threading.Lock()
        self._empty = threading.Event()
        self._empty.set()
        self._wait_s = _FIRST_WAIT_S
        #: Time of the monotonic clock before which nothing is sent: the pause after a failure.
        self._not_before = 0.0
        proxies = {scheme: proxy for scheme, proxy in urllib.request.getproxies().items() if scheme == "https"}
        self._opener = urllib.request.build_opener(_NoRedirects, urllib.request.ProxyHandler(proxies))
        self._rounds = Rounds(self._send, _IDLE_S, "strand webhook")
        self._is_started = False

    def start(self) -> None:
        """Starts the thread that sends."""
        self._rounds.start()
        self._is_started = True

    def put(self, message: Mapping[str, Any]) -> None:
        """Hands over a message, which JSON has to hold. Waits for nobody."""
        body = json.dumps(message, separators=(",", ":")).encode()
        with self._lock:
            self._waiting.append(body)
            self._empty.clear()
            if len(self._waiting) > self._bound:
                self._waiting.popleft()
                self.lost += 1
        self._rounds.wake()

    def stop(self) -> None:
        """Waits up to ``stop_s`` for messages that wait, and ends. What waits then is lost, and counted."""
        if self._is_started:  # else nobody sends
            self._empty.wait(self._stop_s)
        self._rounds.end()
        with self._lock:
            self.lost += len(self._waiting)
            self._waiting.clear()
        if self.lost:
            _LOST(lost=self.lost)

    def _send(self, _: bool) -> float:
        while True:
            with self._lock:
                if not self._waiting:
                    self._empty.set()
                    return _IDLE_S
                body = self._waiting[0]
            if (pause_s := self._not_before - time.monotonic()) > 0:
                return pause_s
            if not self._post(body):
                self._not_before = time.monotonic() + self._wait_s
                self._wait_s = min(2 * self._wait_s, _LONGEST_WAIT_S)
                continue
            self._wait_s = _FIRST_WAIT_S
            with self._lock:
                self.delivered += 1
                if self._waiting and self._waiting[0] is body:
                    self._waiting.popleft()
                else:  # the bound had dropped it meanwhile
                    self.lost -= 1

    def _post(self, body: bytes) -> bool:
        request = urllib.request.Request(self._url, body, {"Content-Type": "application/json"}, method="POST")
        if self._secret is not None:
            request.add_header("Strand-Signature", signature(self._secret, int(time.time()), body))
        try:
            with self._opener.open(request, timeout=self._timeout_s) as answer:
                return bool(200 <= answer.status < 300)
        except (OSError, HTTPException, ValueError) as error:  # ValueError: of a redirect to what is no URL
            code = error.code if isinstance(error, urllib.error.HTTPError) else None
            self.failed += 1
            # Neither the URL nor the body: they may hold secrets.
            _FAILED(reason=f"status {code}" if code is not None else type(error).__name__)
            return False


def _check(url: str) -> None:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        host.encode("idna")
    except (ValueError, AttributeError, TypeError):
        parts, host, port = urlsplit(""), "", None
    try:
        is_here = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_here = False
    if parts.scheme not in ("https", "http") or not host or port == 0 or not _PLAIN.fullmatch(url):
        raise ConfigurationError(
            "webhook", "give a URL that begins with https://, has a host, and is ASCII without spaces"
        )
    if parts.scheme == "http" and not is_here:
        raise ConfigurationError("webhook", "http is for the own machine alone: give an https URL")
