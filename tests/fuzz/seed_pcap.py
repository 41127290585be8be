"""The seeds of fuzz_pcap.c: captures of every kind, with lines that lose and repeat packets."""

from __future__ import annotations

from collections.abc import Iterator

import iex_reference as iex
import pcap_reference as ref
from itch_reference import every_type


def seeds() -> Iterator[tuple[str, bytes]]:
    bodies = every_type()
    payloads = [ref.mold(at + 1, bodies[at : at + 4]) for at in range(0, len(bodies), 4)]
    payloads += [ref.mold(len(bodies) + 1, []), ref.mold(len(bodies) + 1, [], count=0xFFFF)]
    late = [payloads[0], payloads[2], payloads[1], payloads[1], *payloads[4:], payloads[3]]
    networks = {
        "ip4": (1, lambda u: ref.ethernet(ref.ipv4(u), tags=[0x8100])),
        "ip6": (101, lambda u: ref.ipv6(u, extensions=[0, 60])),
        "sll": (113, lambda u: ref.cooked(ref.ipv4(u, options=bytes(4)))),
    }
    # skip and how much is held, bytes a call less one, ticks a call less one: the header fuzz_pcap.c reads.
    for how, header in {
        "all": b"\2\xff\xff",
        "skip": b"\3\x60\2",
        "port": b"\4\xff\x10",
        "hold": b"\x17\x40\1",
    }.items():
        for name, (link, wrap) in networks.items():
            for order, sent in (("<", payloads), (">", late)):
                frames = [(1_548_858_600 * 10**9 + i * 1000, wrap(ref.udp(p))) for i, p in enumerate(sent)]
                place = f"{how}-{name}-{'little' if order == '<' else 'big'}"
                yield f"{place}.pcap", header + ref.pcap(frames, order=order, link=link)
                yield f"{place}.pcapng", header + ref.pcapng(frames, order=order, link=link)
                yield f"{place}-cut", header + ref.pcap(frames, order=order, link=link, snap=90)
    for protocol, types in iex.TYPES.items():
        frames = iex.packets(iex.every_type(types), protocol=protocol)
        late = [*frames[:3], frames[5], frames[4], frames[4], *frames[7:]]
        for how, header in {"all": b"\x22\xff\xff", "skip": b"\x23\x60\2", "hold": b"\x37\x40\1"}.items():
            yield f"iex-{protocol:x}-{how}", header + ref.pcap(late, nanoseconds=False)
            yield f"iex-{protocol:x}-{how}-ng", header + ref.pcapng(frames)
