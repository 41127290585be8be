"""Objects of stores, read and written: against s3rver and nginx on this machine, with faults by a proxy before them."""

from __future__ import annotations

import gzip
import signal
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from command_apart import started
from command_here import run_here
from feed_samples import SAMPLES, Sample
from store_servers import NGINX, S3RVER, USER, Faults, https_server, s3_server

import strand
from strand import feeds
from strand.errors import ConfigurationError, FeedError, TruncatedFeedError
from strand.feeds.io import stores
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.feeds.write.conversion import convert

obstore = pytest.importorskip("obstore")
pytest.importorskip("pyarrow")

pytestmark = pytest.mark.python
s3 = pytest.mark.skipif(
    not S3RVER.exists(), reason="s3rver is not installed: npm install --prefix build/servers s3rver"
)
https = pytest.mark.skipif(NGINX is None, reason="nginx is not installed")


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Faults]:
    with s3_server(tmp_path_factory.mktemp("s3")) as port, Faults(port) as faults:
        yield faults


@pytest.fixture
def faults(proxy: Faults, monkeypatch: pytest.MonkeyPatch) -> Faults:
    """The proxy without faults, and the environment of a user who may read and write."""
    proxy.next, proxy.always, proxy.only, proxy.asked = [], None, "", []
    for name, value in USER.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{proxy.port}")
    monkeypatch.setattr(stores, "PAUSE_S", 0.01)
    return proxy


def upload(key: str, data: bytes) -> str:
    store = obstore.store.from_url("s3://day", client_options={"allow_http": True})
    obstore.put(store, key, data)
    return f"s3://day/{key}"


def ticks_of(source: object, **options: object) -> np.ndarray:
    with feeds.open(source, **options) as feed:  # type: ignore[arg-type]
        return np.concatenate([batch.copy() for batch in feed])


@s3
@pytest.mark.parametrize("sample", [one for one in SAMPLES if one.available], ids=lambda one: one.name)
def test_every_format_is_read_from_a_store(sample: Sample, faults: Faults, tmp_path: Path) -> None:
    path = sample.build(tmp_path)
    url = upload(f"{sample.name.replace(' ', '_').replace('+', 'p').replace(',', '')}/{sample.file}", path.read_bytes())
    with feeds.open(url) as feed:
        assert feed.info.path == url
    assert ticks_of(url).tobytes() == ticks_of(path).tobytes()


@s3
def test_a_large_object_comes_in_ranges_a_few_ahead_and_a_head_reads_no_more(
    faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "PIECE_BYTES", 100_000)
    url = upload("20260105.itch50.gz", sample_path().read_bytes())
    faults.asked.clear()
    result = strand.replay(url, "vwap")
    assert result.fingerprint == strand.replay(sample_path(), "vwap", date=SAMPLE_DATE).fingerprint
    ranges = [asked[2] for asked in faults.asked if asked[0] == "GET"]
    behind = [one for one in ranges if one != "bytes=0-65535"]
    assert len(set(behind)) == len(behind) > sample_path().stat().st_size // 110_000
    faults.asked.clear()
    assert run_here("cat", url, "--head", "3").returncode == 0
    assert sum(asked[0] == "GET" for asked in faults.asked) < 20


@s3
def test_prefixes_globs_and_several_objects_are_one_feed(faults: Faults, tmp_path: Path) -> None:
    for day in ("01-05", "01-06"):
        convert(sample_path(), tmp_path / f"2026-{day}.npz", date=f"2026-{day}", limit=1000)
        upload(f"days/2026-{day}.npz", (tmp_path / f"2026-{day}.npz").read_bytes())
    upload("days/inner/2026-01-07.npz", b"not looked at")
    whole = ticks_of(tmp_path)
    for source in (
        "s3://day/days/",
        "s3://day/days/*.npz",
        ["s3://day/days/2026-01-05.npz", "s3://day/days/2026-01-06.npz"],
    ):
        assert ticks_of(source).tobytes() == whole.tobytes()
    assert len(ticks_of("s3://day/**/2026-01-0[5].npz")) == 1000
    with pytest.raises(FeedError, match=r"s3://day/days/\*\.csv: no object matches"):
        feeds.open("s3://day/days/*.csv")
    with pytest.raises(ConfigurationError, match=r"s3://day/days/2026-01-05.npz is named twice"):
        feeds.open(["s3://day/days/2026-01-05.npz", "s3://day/days/*5.npz"])


@s3
@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [
        (403, FeedError, r"s3://day/f\.itch: may not be read with these credentials \(status 403\): set those of"),
        (404, FeedError, r"s3://day/f\.itch: there is no such object \(status 404\)"),
        (500, FeedError, r"s3://day/f\.itch: its server answered with status 500 4 times: try again later"),
        ("half", FeedError, r"s3://day/f\.itch.*: its server (sent fewer bytes|cannot be reached, or broke off)"),
        ("longer", FeedError, r"s3://day/f\.itch.*: its server sent more bytes than it was asked for"),
        ("whole", FeedError, r"s3://day/f\.itch: its server does not give ranges"),
    ],
)  # fmt: skip
def test_faults_that_stay_are_errors_that_name_the_object(
    fault: int | str, kind: type[FeedError], words: str, faults: Faults
) -> None:
    url = upload("f.itch", next(one for one in SAMPLES if one.name == "itch").content())
    faults.always = fault
    with pytest.raises(kind, match=words) as caught:
        feeds.open(url)
    assert "S3RVER" not in str(caught.value)


@s3
@pytest.mark.parametrize("fault", [500, 503, "half", "slow"])
def test_faults_that_pass_are_asked_past(fault: int | str, faults: Faults, monkeypatch: pytest.MonkeyPatch) -> None:
    content = next(one for one in SAMPLES if one.name == "itch").content()
    url = upload("20190130.itch", content)
    before = ticks_of(url).tobytes()
    monkeypatch.setattr(stores, "PIECE_BYTES", 200)
    monkeypatch.setattr(stores, "FIRST_BYTES", 200)
    faults.next = [None, fault, None, fault, fault, None, None, fault]
    assert ticks_of(url).tobytes() == before
    assert faults.next == []


@s3
def test_a_server_that_is_slow_beyond_its_time_is_an_error(faults: Faults, monkeypatch: pytest.MonkeyPatch) -> None:
    url = upload("20190130.itch", next(one for one in SAMPLES if one.name == "itch").content())
    monkeypatch.setattr(stores, "TIMEOUT_S", 0.3)
    faults.always = "slow"
    with pytest.raises(FeedError, match=r"20190130\.itch: its server took too long 4 times"):
        feeds.open(url)


@s3
def test_a_fault_in_the_middle_comes_behind_the_ticks_before_it(
    faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = upload("20260105.itch50.gz", sample_path().read_bytes())
    monkeypatch.setattr(stores, "PIECE_BYTES", 1 << 16)
    with feeds.open(url, date=SAMPLE_DATE) as feed, pytest.raises(FeedError, match="status 500"):
        faults.next, faults.always = [None] * 30, 500
        read = 0
        for batch in feed:
            read += len(batch)
    assert 50_000 < read < 200_000


@s3
def test_an_object_that_was_replaced_is_an_error(faults: Faults, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "PIECE_BYTES", 1 << 16)
    data = sample_path().read_bytes()
    url = upload("20260105.itch50.gz", data)
    feed = feeds.open(url)
    upload("20260105.itch50.gz", data[::-1])
    with pytest.raises(FeedError, match=r"20260105\.itch50\.gz: was replaced while it was read"):
        list(feed)


@s3
def test_outputs_and_conversions_are_there_whole_or_not_at_all(faults: Faults, tmp_path: Path) -> None:
    convert(sample_path(), tmp_path / "day.parquet", date=SAMPLE_DATE)
    written = convert(sample_path(), "s3://day/out/day.parquet", date=SAMPLE_DATE)
    assert (written.path, written.bytes) == ("s3://day/out/day.parquet", (tmp_path / "day.parquet").stat().st_size)
    assert ticks_of(written.path).tobytes() == ticks_of(tmp_path / "day.parquet").tobytes()
    out = {"bars": "s3://day/out/bars.parquet"}
    strand.replay(sample_path(), "bars", date=SAMPLE_DATE, out=out)
    strand.replay(sample_path(), "bars", date=SAMPLE_DATE, out={"bars": tmp_path / "bars.parquet"})
    store = obstore.store.from_url("s3://day", client_options={"allow_http": True})
    assert bytes(obstore.get(store, "out/bars.parquet").bytes()) == (tmp_path / "bars.parquet").read_bytes()

    (tmp_path / "cut.itch50.gz").write_bytes(sample_path().read_bytes()[:100_000])
    with pytest.raises(TruncatedFeedError):
        convert(tmp_path / "cut.itch50.gz", "s3://day/out/cut.npz", date=SAMPLE_DATE)
    faults.always = 500
    with pytest.raises(FeedError, match=r"s3://day/out/other.npz: cannot be written: .*status 500"):
        convert(sample_path(), "s3://day/out/other.npz", date=SAMPLE_DATE)
    faults.always = None
    there = {one["path"] for part in obstore.list(store, "out") for one in part}
    assert there == {"out/day.parquet", "out/bars.parquet"}


@s3
def test_a_large_output_goes_up_in_parts_and_leaves_nothing_if_one_fails(faults: Faults) -> None:
    with pytest.raises(FeedError, match="cannot be written"), stores_file("s3://day/large") as file:
        file.write(bytes(12 << 20))
        faults.only, faults.next = "large", [None, None, 400]
    store = obstore.store.from_url("s3://day", client_options={"allow_http": True})
    with pytest.raises(FileNotFoundError):
        obstore.head(store, "large")
    with stores_file("s3://day/large") as file:
        file.write(bytes(12 << 20))
    assert obstore.head(store, "large")["size"] == 12 << 20
    assert [asked[0] for asked in faults.asked].count("PUT") > 3


def stores_file(url: str) -> object:
    from strand.feeds.io.atomic_write import atomic_write

    return atomic_write(url)


def test_an_interrupt_ends_requests_that_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "TIMEOUT_S", 10)  # a request that nobody ends is then made again
    data = gzip.decompress(sample_path().read_bytes())
    asked, ended = threading.Event(), threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_HEAD(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()

        def do_GET(self) -> None:
            begin, end = map(int, self.headers["Range"].partition("=")[2].split("-"))
            if begin:
                begun.append(begin)
                asked.set()
                ended.wait()
                return
            self.send_response(206)
            self.send_header("Content-Range", f"bytes 0-{end}/{len(data)}")
            self.send_header("Content-Length", str(end + 1))
            self.end_headers()
            self.wfile.write(data[: end + 1])

    def read() -> None:
        with pytest.raises(FeedError) as caught:
            for _ in feed:
                pass
        errors.append(caught.value)

    errors, begun = list[FeedError](), list[int]()
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever).start()
        try:
            feed = feeds.open(f"http://127.0.0.1:{server.server_port}/day.itch50", date=SAMPLE_DATE)
            reader = threading.Thread(target=read)
            reader.start()
            assert asked.wait(60)
            feed.close()
            reader.join()
        finally:
            ended.set()
            server.shutdown()
    assert "closed" in str(errors[0])
    assert len(set(begun)) == len(begun)


@https
def test_https_is_read_and_its_faults_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sample = next(one for one in SAMPLES if one.name == "itch in gzip")
    path = sample.build(tmp_path)
    with https_server(tmp_path) as (port, certificate):
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        monkeypatch.setattr(stores, "PAUSE_S", 0.01)
        url = f"https://localhost:{port}/{sample.file}"
        assert ticks_of(url).tobytes() == ticks_of(path).tobytes()
        with pytest.raises(FeedError, match=r"none\.itch: there is no such object \(status 404\)"):
            feeds.open(f"https://localhost:{port}/none.itch")
        with pytest.raises(FeedError, match=r"private/a: may not be read with these credentials \(status 403\)"):
            feeds.open(f"https://localhost:{port}/private/a")
        with pytest.raises(ConfigurationError, match="a web server does not say what it holds: name each object"):
            feeds.open(f"https://localhost:{port}/")
        with pytest.raises(ConfigurationError, match="name an object of s3:// or gs:// to write"):
            convert(path, f"https://localhost:{port}/day.npz")
        monkeypatch.delenv("SSL_CERT_FILE")
        with pytest.raises(FeedError, match="certificate is not trusted: name one that is by SSL_CERT_FILE"):
            feeds.open(url)
    with pytest.raises(FeedError, match="its server cannot be reached, or broke off 4 times"):
        feeds.open(url)


@pytest.mark.parametrize(
    "url",
    ["https://user:secret@example.com/day.itch", "https://example.com/day.itch?X-Amz-Signature=secret", "s3://day"],
)
def test_a_url_that_could_hold_a_secret_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(ConfigurationError, match="source: ") as caught:
        feeds.open(url)
    assert "secret" not in str(caught.value)


def test_an_interrupt_ends_an_upload_that_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        mute.settimeout(60)
        for name, value in (
            ("AWS_ENDPOINT_URL", f"http://127.0.0.1:{mute.getsockname()[1]}"), ("AWS_ALLOW_HTTP", "true"),
            ("AWS_ACCESS_KEY_ID", "a"), ("AWS_SECRET_ACCESS_KEY", "b"), ("AWS_REGION", "us-east-1"),
        ):  # fmt: skip
            monkeypatch.setenv(name, value)
        words = [str(sample_path()), "--date", SAMPLE_DATE, "--handler", "count", "--limit", "10"]
        with started("replay", *words, "--out", "s3://day/rows.csv") as process:
            with mute.accept()[0] as asked:
                assert asked.recv(1) == b"P"
                process.send_signal(signal.SIGINT)
                process.communicate(timeout=20)  # without an end, the request would be tried for half a minute
            assert process.returncode == 130
