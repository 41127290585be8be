/* Packet captures of MoldUDP64 that carries ITCH 5.0, and of IEX-TP that carries IEX's feeds: pcap and pcapng in, ticks out.
 *
 * It reads captures in either byte order, with time stamps of any resolution; in them Ethernet (with VLAN tags), raw IP and Linux cooked
 * frames; IPv4 and IPv6; UDP; and MoldUDP64 as Nasdaq specifies it: session 10 bytes, sequence 8, count 2, then count times a length of 2
 * and a message. A count of 0 is a heartbeat, and 0xFFFF the session's end.
 *
 * Or IEX-TP 1, as IEX specifies it, little-endian: version 1 byte, reserved 1, protocol 2, channel 4, session 4, bytes of payload 2, count 2,
 * offset in the stream 8, sequence 8, time of sending 8, then count times a length of 2 and a message. A count of 0 is a heartbeat. The
 * protocol, the channel and the session name a stream, of which one is read; `session` has the number in decimal, padded with blanks.
 *
 * Lines A and B carry the same packets. The decoder takes a message from the packet that brings it first. A packet ahead of its turn waits
 * until what is missing has come, until `hold` packets wait, until one has waited for `hold_ns`, or until the input ends. What is then
 * still missing is a gap, and is counted. A message's ts_recv is the capture time of the packet that made it available: of its own packet
 * or, if that had to wait, of the packet that ended the wait. `sequence` is the transport's. Everything else is as in itch.h and iex.h,
 * and is kept in their states: names, counts of types, selection by symbol.
 *
 * Called by one thread at a time; touches nothing but its arguments and its own memory, and never a byte outside
 * [buf, buf + len).
 */
#pragma once

#include "codec/pcap/state.h"

/* cffi: begin */
/* Prepares for the first byte. One of itch and iex is NULL. NULL: no memory. sd_pcap_free() takes NULL. */
sd_pcap *sd_pcap_new(sd_itch *itch, sd_iex *iex, uint32_t skip);
void sd_pcap_free(sd_pcap *pcap);

/* The decoder: `self` is an sd_pcap, and a message makes at most one tick. It leaves at most SD_PCAP_MAX_RECORD bytes. SD_AGAIN as for
 * sd_itch_decode() and sd_iex_decode(). A fault fills `fault`. */
sd_decode sd_pcap_decode;
/* cffi: end */
