#!/bin/sh
# meatpy, iex_parser: what Python readers of IEX's captures leave out without a word
#
# IEX publishes a day of its market as packets in a capture (HIST). Frames may have a VLAN tag; a public reader reports one in each frame
# of the file of 2017-08-26.
# meatpy looks for the packet's header at fixed places, so it reads nothing of such a file, and raises nothing.
# It also passes over messages that it cannot read, and neither package looks at sequence numbers: a lost packet leaves no trace.
# iex_parser makes datetimes of the nanoseconds through a float, which rounds them to microseconds.
# Seen with meatpy 0.5.0 and iex-parser 1.7.0.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet meatpy==0.5.0 iex-parser==1.7.0
venv/bin/python - <<'END'
import struct
from importlib.metadata import version
from iex_parser import DEEP_1_0, Parser
from meatpy.iex_deep import IEXDEEPMessageReader

AT = 1_580_394_600_000_000_000

def level(ns, kind=b"8"):
    return struct.pack("<cBq8sIq", kind, 1, ns, b"AAPL    ", 100, 990_500)

def packet(sequence, messages, tag=b""):
    data = b"".join(struct.pack("<H", len(m)) + m for m in messages)
    head = struct.pack("<BBHIIHHqqq", 1, 0, 0x8004, 1, 7, len(data), len(messages), 0, sequence, AT)
    udp = struct.pack(">HHHH", 1, 10378, 48 + len(data), 0) + head + data
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 1, 0, 64, 17, 0, bytes(4), bytes(4)) + udp
    frame = bytes(12) + tag + b"\x08\x00" + ip
    return struct.pack("<IIII", AT // 10**9, 0, len(frame), len(frame)) + frame

def file(name, *packets):
    with open(name, "wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1) + b"".join(packets))
    return name

def by_meatpy(name):
    with IEXDEEPMessageReader(name) as reader:
        return list(reader)

def by_iex_parser(name):
    with Parser(name, DEEP_1_0) as reader:
        return list(reader)

plain = [packet(1, [level(AT + 123), level(AT + 456)]), packet(3, [level(AT + 789)])]
tag = b"\x81\x00\x00\x05"
tagged = file("tagged.pcap", packet(1, [level(AT), level(AT)], tag), packet(3, [level(AT)], tag))
lost = file("lost.pcap", plain[0], packet(1000, [level(AT)]))
unknown = file("unknown.pcap", packet(1, [level(AT, b"z"), level(AT)[:20], level(AT)]))
plain = file("plain.pcap", *plain)
counts = {name: len(by_meatpy(name)) for name in (plain, tagged, lost, unknown)}
times = [message["timestamp"] for message in by_iex_parser(plain)]
print("meatpy", version("meatpy"), counts)
print("iex_parser", version("iex_parser"), "times of", [123, 456, 789], "ns:", [time.microsecond for time in times], "us;", len(by_iex_parser(lost)), "messages around a gap")
assert counts == {plain: 3, tagged: 0, lost: 3, unknown: 1}, counts
assert [time.microsecond for time in times] == [0, 0, 1]
assert len(by_iex_parser(lost)) == 3
END
