"""Objects of stores (``s3://``, ``gs://``, ``https://``) as streams, through obstore. Extra ``stores``.

A store is asked for ranges of an object, a few ahead of the reader, each up to ``TRIES`` times. The object's tag is
that of the first look at it: an object that was replaced meanwhile is an error. Credentials come from the environment,
as obstore reads it; a URL that was signed (https with a query) is called by what stands before the query. So no error
can show a secret.
"""

from __future__ import annotations

import io
import os
import re
import threading
import weakref
from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Coroutine, Iterable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from datetime import timedelta
from functools import cached_property
from itertools import count
from typing import Any, BinaryIO, Final
from urllib.parse import unquote, urlsplit

from strand.errors import CALLED, ConfigurationError, FeedError, TruncatedFeedError, called
from strand.lazy import imported

#: Bytes that a store is asked for at a time, and how many such pieces are under way ahead of the reader.
PIECE_BYTES = 4 << 20
AHEAD: Final = 3
#: Bytes of the first piece, which shows the format, and the least that is asked for where nothing was planned.
FIRST_BYTES = 1 << 16
#: The same of a reader that seeks, and the most pieces that it keeps.
PART_BYTES = 1 << 20
PARTS_KEPT: Final = 64
#: Times that a piece is asked for before its fault is the feed's, and the pause before the second time, in s.
TRIES: Final = 4
PAUSE_S = 0.2
#: Time that a request may take, in s, and that a store's own retries of it may take.
TIMEOUT_S = 30.0

_URL: Final = re.compile(r"(?:s3|gs|https?):/+[^/]")
_WILD: Final = "*?["
_objects: weakref.WeakValueDictionary[str, StoredObject] = weakref.WeakValueDictionary()
_numbers: Final = count()
_loop_lock: Final = threading.Lock()
#: The loop of requests, by the process that began it: one that was forked has no thread of its parent's.
_loops: Final[dict[int, Any]] = {}
#: Variables that name another server of a store's protocol.
_ENDPOINTS: Final = {"s3": "AWS_ENDPOINT_URL", "gs": "GOOGLE_BASE_URL"}


def is_url(path: object) -> bool:
    """Tells whether a path is a URL of a store."""
    return isinstance(path, str | os.PathLike) and _URL.match(str(path)) is not None


def _split(url: str) -> tuple[str, str]:
    """The store's URL, with the query of a web server's, and the object's path in it. Raises ConfigurationError."""
    parts = urlsplit(url)
    query = f"?{parts.query}" if parts.query and parts.scheme.startswith("http") else ""
    if "@" in parts.netloc or (parts.query and not query) or parts.fragment:
        # What stands there may be a secret, so it is not shown.
        raise ConfigurationError(
            "source",
            f"{called(url)}: a URL with a user or a fragment is not read, and one with a query only if it is https://: "
            "give the URL without, and credentials in the environment (AWS_ACCESS_KEY_ID, "
            "GOOGLE_APPLICATION_CREDENTIALS)",
        )
    return f"{parts.scheme}://{parts.netloc}{query}", unquote(parts.path).strip("/")


def _store(root: str) -> Any:
    scheme = root.partition(":")[0]
    made = imported("obstore.store", "stores", f"reading {scheme}:// objects")
    endpoint = os.environ.get(_ENDPOINTS[scheme], "") if scheme in _ENDPOINTS else root
    options: Any = {"timeout": f"{TIMEOUT_S}s", "allow_http": endpoint.startswith("http://")}
    retries: Any = {
        "max_retries": TRIES - 1,
        "backoff": {"init_backoff": timedelta(seconds=PAUSE_S), "max_backoff": timedelta(seconds=4), "base": 2},
        "retry_timeout": timedelta(seconds=TIMEOUT_S),
    }
    return made.from_url(root, client_options=options, retry_config=retries)


def _fault(url: str, error: BaseException) -> FeedError:
    """The error of a store as one of a feed. Its own text names requests, and so signatures: only the status is taken
    from it."""
    text, name = str(error), type(error).__name__
    status = re.search(r"status code: (\d{3})|\((\d{3}) ", text)
    code = next(filter(None, status.groups()), "") if status else ""
    said = f" (status {code})" if code else ""
    if isinstance(error, FileNotFoundError):
        return FeedError(f"there is no such object{said}: look at the bucket and the key", path=url)
    if name in ("PermissionDeniedError", "UnauthenticatedError") or code in ("401", "403"):
        if "?" in url:
            return FeedError(
                f"may not be read{said}: its signature is another's, or is too old: sign it anew", path=url
            )
        return FeedError(
            f"may not be read with these credentials{said}: set those of a user who may, in the environment "
            "(AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, GOOGLE_APPLICATION_CREDENTIALS)",
            path=url,
        )
    if name == "PreconditionError" or code == "412":
        return FeedError("was replaced while it was read: read it again", path=url)
    if name == "NotSupportedError" or "non-partial" in text:
        return FeedError("its server does not give ranges of it: store it in a file first", path=url)
    if code:
        return FeedError(f"its server answered with status {code} {TRIES} times: try again later", path=url)
    if "InvalidCertificate" in text:
        return FeedError("its server's certificate is not trusted: name one that is by SSL_CERT_FILE", path=url)
    what = "took too long" if re.search("timed out|TimedOut|kind: Timeout", text) else "cannot be reached, or broke off"
    return FeedError(f"its server {what} {TRIES} times: look at the address, or try again later", path=url)


class StoredObject(os.PathLike[str]):
    """An object of a store, with a path that stands for it as long as this object lives. Errors call it by its URL."""

    def __init__(self, url: str, store: Any = None, *, size: int | None = None) -> None:
        #: All of its URL, which may hold a signature.
        self.url = url
        root, self.key = _split(url)
        if not self.key:
            raise ConfigurationError("source", f"{called(url)}: name an object or a prefix in it")
        self._store = _store(root) if store is None else store
        self._size = size
        #: Files of it that are being read.
        self.files: weakref.WeakSet[ObjectFile] = weakref.WeakSet()
        self._path = f"store:{next(_numbers)}/{urlsplit(url).netloc}/{self.key}"
        _objects[self._path] = self
        CALLED[self._path] = called(url)
        weakref.finalize(self, CALLED.pop, self._path, None)

    def __fspath__(self) -> str:
        return self._path

    @cached_property
    def _head(self) -> dict[str, Any]:
        obstore = imported("obstore", "stores")

        async def ask() -> Any:
            if "?" not in self.url:
                return await obstore.head_async(self._store, self.key)
            # What is signed for a GET is for no HEAD.
            return (await obstore.get_async(self._store, self.key, options={"range": (0, 1)})).meta

        try:
            found: dict[str, Any] = _awaited(ask())
        except (obstore.exceptions.BaseError, FileNotFoundError, OSError, ValueError) as error:
            if "status code: 416" in str(error):
                return {"size": 0}
            raise _fault(self.url, error) from None
        return found

    @property
    def size(self) -> int:
        """Bytes of the object. Raises FeedError."""
        return int(self._head["size"])

    async def read(self, start: int, length: int) -> bytes:
        """Bytes of the object, whose ``size`` is known, asked for up to ``TRIES`` times. Raises FeedError."""
        import asyncio

        obstore = imported("obstore", "stores")
        tag, fault = self._head.get("e_tag"), FeedError("was not read", path=self.url)
        for turn in range(TRIES):
            if turn:
                await asyncio.sleep(PAUSE_S * 2 ** (turn - 1))
            options: dict[str, Any] = {"range": (start, start + length)}
            if tag is not None and not tag.startswith("W/"):
                options["if_match"] = tag
            try:
                found = await obstore.get_async(self._store, self.key, options=options)
                data = bytes(await found.bytes_async())
            except (obstore.exceptions.BaseError, FileNotFoundError, OSError, ValueError) as error:
                fault = _fault(self.url, error)
                if type(error).__name__ == "GenericError" and "non-partial" not in str(error):
                    continue
                raise fault from None
            meta = found.meta
            if int(meta["size"]) != self.size or (tag is not None and meta.get("e_tag") not in (None, tag)):
                raise FeedError("was replaced while it was read: read it again", path=self.url)
            if len(data) == length:
                return data
            what = "fewer" if len(data) < length else "more"
            fault = TruncatedFeedError(
                f"its server sent {what} bytes than it was asked for ({len(data):,} for {length:,}) {turn + 1} times: "
                "try again later, or store it in a file first",
                path=self.url,
                offset=start + min(len(data), length),
            )
        raise fault


def object_at(path: str | os.PathLike[str]) -> StoredObject | None:
    """The object that a path stands for."""
    return _objects.get(os.fspath(path)) if isinstance(path, str | os.PathLike) else None


class Ranges:
    """Reads an object from its start to its end. It requests a few pieces before the reader needs them."""

    def __init__(self, found: StoredObject) -> None:
        self.object, self.size = found, found.size
        self._next = 0
        self._ahead: deque[Future[bytes]] = deque()
        self._lock = threading.Lock()
        self._closed = False

    def piece(self) -> bytes:
        """The next piece; empty at the end. Raises FeedError."""
        first = self._next == 0
        with self._lock:
            if self._closed:
                raise FeedError("the feed was closed while it was being read", path=self.object.url)
            # The first piece alone shows the format: no other is asked for before a reader goes on.
            while self._next < self.size and len(self._ahead) < (1 if first else AHEAD):
                length = min(PIECE_BYTES if self._next else FIRST_BYTES, self.size - self._next)
                self._ahead.append(_asked(self.object.read(self._next, length)))
                self._next += length
            if not self._ahead:
                return b""
            wanted = self._ahead[0]
        try:
            return wanted.result()
        except CancelledError:
            raise FeedError("the feed was closed while it was being read", path=self.object.url) from None
        finally:
            with self._lock:
                if wanted in self._ahead and wanted.done():
                    self._ahead.remove(wanted)

    def close(self) -> None:
        """Ends requests under way. May be called again."""
        with self._lock:
            self._closed = True
            for each in self._ahead:
                each.cancel()


class ObjectFile(io.RawIOBase):
    """An object as a file that seeks, for readers of parts of it.

    ``plan`` names the ranges that will be read. They come in pieces, of which a few are under way ahead of the reader,
    and the latest ``PARTS_KEPT`` are kept.
    """

    def __init__(self, found: StoredObject) -> None:
        super().__init__()
        self.object, self.size = found, found.size
        self._at = 0
        self._planned: list[tuple[int, int]] = []
        self._kept: OrderedDict[tuple[int, int], Future[bytes]] = OrderedDict()
        self._most = PARTS_KEPT
        self._ended = False
        found.files.add(self)

    def plan(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Sets the ranges that will be read: where each begins and ends. Ranges that touch are one."""
        whole: list[list[int]] = []
        for begin, end in sorted((max(0, begin), min(end, self.size)) for begin, end in ranges):
            if whole and begin <= whole[-1][1]:
                whole[-1][1] = max(whole[-1][1], end)
            else:
                whole.append([begin, end])
        self._planned = [
            (at, min(at + PART_BYTES, end)) for begin, end in whole for at in range(begin, end, PART_BYTES)
        ]
        self._most = max(PARTS_KEPT, 2 * len(whole))  # a reader may go round its columns

    def pread(self, size: int, at: int) -> bytes:
        """Bytes from a place on, fewer at the end. Raises FeedError."""
        data, end = bytearray(), min(at + size, self.size)
        while at < end:
            begin, piece = self._piece(at, end)
            data += piece[at - begin : end - begin]
            at = begin + len(piece)
        return bytes(data)

    def _piece(self, at: int, end: int) -> tuple[int, bytes]:
        place = bisect_right(self._planned, (at, self.size)) - 1
        if place >= 0 and at < self._planned[place][1]:
            wanted = self._planned[place]
            for each in self._planned[place : place + 1 + AHEAD]:
                self._ask(each)
        else:
            known = (each for each in self._kept if each[0] <= at < each[1])
            wanted = next(known, (at, min(max(end, at + FIRST_BYTES), self.size)))
            self._ask(wanted)
        with suppress(CancelledError):
            if not self._ended:
                return wanted[0], self._kept[wanted].result()
        raise FeedError("the feed was closed while it was being read", path=self.object.url)

    def _ask(self, piece: tuple[int, int]) -> None:
        if piece not in self._kept:
            while len(self._kept) >= self._most:
                self._kept.popitem(last=False)[1].cancel()
            self._kept[piece] = _asked(self.object.read(piece[0], piece[1] - piece[0]))
        self._kept.move_to_end(piece)

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def tell(self) -> int:
        """The place of the next byte."""
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Goes to a place."""
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self.size}[whence]
        return self._at

    def read(self, size: int = -1) -> bytes:
        """Bytes from here on, fewer at the end. Raises FeedError."""
        data = self.pread(self.size if size is None or size < 0 else size, self._at)
        self._at += len(data)
        return data

    def readinto(self, buffer: Any) -> int:
        """Bytes into a buffer. Raises FeedError."""
        view = memoryview(buffer).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)

    def interrupt(self) -> None:
        """Ends requests under way: the next read raises FeedError."""
        self._ended = True
        for each in list(self._kept.values()):
            each.cancel()

    def close(self) -> None:
        """Ends requests under way. May be called again."""
        self.interrupt()
        super().close()


def _asked(asks: Coroutine[Any, Any, Any]) -> Future[Any]:
    """A request under way. A call of obstore's that blocks can be ended by nobody: Ctrl-C would wait for its time."""
    import asyncio

    with _loop_lock:
        loop = _loops.get(os.getpid())
        if loop is None:
            if _loops:
                asks.close()
                raise FeedError(
                    "this process was forked from one that had read a store, whose threads are not in it: start it "
                    "with multiprocessing's 'spawn' or 'forkserver'"
                )
            loop = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="strand store", daemon=True).start()
            _loops[os.getpid()] = loop
    return asyncio.run_coroutine_threadsafe(asks, loop)


def _awaited(asks: Coroutine[Any, Any, Any]) -> Any:
    """The result of a request, which an interrupt ends."""
    asked = _asked(asks)
    try:
        return asked.result()
    finally:
        asked.cancel()


def objects_named(url: str) -> Iterator[StoredObject]:
    """The object of a URL, those of a prefix that ends in ``/``, or those that a glob fits, by name.

    Raises FeedError where there is none, ConfigurationError for a URL that cannot be.
    """
    root, key = _split(url)
    is_glob, is_folder = any(mark in key for mark in _WILD), urlsplit(url).path.endswith("/")
    if not is_glob and not is_folder:
        yield StoredObject(url)
        return
    if root.startswith("http"):
        raise ConfigurationError("source", f"{called(url)}: a web server does not say what it holds: name each object")
    obstore, store = imported("obstore", "stores"), _store(root)
    plain = key[: min(key.index(mark) for mark in _WILD if mark in key)] if is_glob else key
    prefix = plain.rpartition("/")[0] if is_glob else plain

    async def names(parts: Any) -> list[str]:
        return [each["path"] async for part in parts for each in part if each["size"]]

    try:
        listed = sorted(_awaited(names(obstore.list(store, prefix or None))))
    except (obstore.exceptions.BaseError, OSError, ValueError) as error:
        raise _fault(url, error) from None
    fits = re.compile(_pattern(key)) if is_glob else re.compile(re.escape(f"{key}/" if key else "") + r"[^/]+")
    found = [path for path in listed if fits.fullmatch(path) and not path.rpartition("/")[2].startswith((".", "_"))]
    if not found:
        raise FeedError("no object matches" if is_glob else "holds no object", path=url)
    yield from (StoredObject(f"{root}/{path}", store) for path in found)


def _pattern(glob: str) -> str:
    """A regular expression of a glob: ``**/`` goes into folders, ``*`` and ``?`` stay within a name."""
    made, at = "", 0
    while at < len(glob):
        if glob.startswith("**/", at):
            made, at = made + "(?:.*/)?", at + 3
        elif glob[at] == "[" and "]" in glob[at + 1 :]:
            end = glob.index("]", at + 1)
            made, at = made + "[" + glob[at + 1 : end].replace("!", "^", 1).replace("\\", "\\\\") + "]", end + 1
        else:
            made += {"*": "[^/]*", "?": "[^/]"}.get(glob[at], re.escape(glob[at]))
            at += 1
    return made


def check_target(url: str) -> None:
    """Raises ConfigurationError for a URL to which no object is written."""
    root, key = _split(url)
    if root.startswith("http") or not key or url.endswith("/"):
        raise ConfigurationError("out", f"{called(url)}: name an object of s3:// or gs:// to write, or a file")


def put(url: str, file: BinaryIO, size: int) -> None:
    """Uploads a whole file. The object is there once all of it is, and what had its name stays until then.

    Raises FeedError; the upload is given up then.
    """
    obstore, (root, key) = imported("obstore", "stores"), _split(url)
    file.seek(0)
    store, parts = _store(root), {"use_multipart": size > PIECE_BYTES, "chunk_size": max(PIECE_BYTES, 5 << 20)}

    async def sent() -> None:
        await obstore.put_async(store, key, file, **parts)

    try:
        _awaited(sent())
    except (obstore.exceptions.BaseError, FileNotFoundError, OSError, ValueError) as error:
        raise FeedError(
            f"cannot be written: {_fault(url, error)}".replace("read with", "used with"), path=url
        ) from None
