/* Packet captures of MoldUDP64 that carries ITCH 5.0: pcap and pcapng in, ticks out.
 *
 * It reads captures in either byte order, with time stamps of any resolution; in them Ethernet (with VLAN tags), raw IP and Linux cooked
 * frames; IPv4 and IPv6; UDP; and MoldUDP64 as Nasdaq specifies it: session 10 bytes, sequence 8, count 2, then count times a length of 2
 * and a message. A count of 0 is a heartbeat, and 0xFFFF the session's end.
 *
 * Lines A and B carry the same packets. The decoder takes a message from the packet that brings it first. A packet ahead of its turn waits
 * until what is missing has come, until `hold` packets wait, until one has waited for `hold_ns`, or until the input ends. What is then
 * still missing is a gap, and is counted. A message's ts_recv is the capture time of the packet that made it available: of its own packet
 * or, if that had to wait, of the packet that ended the wait. `sequence` is MoldUDP64's. Everything else is as in itch.h, and is kept in
 * the itch state: names, counts of types, selection by symbol.
 *
 * Called by one thread at a time; touches nothing but its arguments and its own memory, and never a byte outside
 * [buf, buf + len).
 */
#ifndef SD_CODEC_PCAP_PCAP_H
#define SD_CODEC_PCAP_PCAP_H

#include "codec/pcap/state.h"

/* cffi: begin */
/* Prepares for the first byte. NULL: no memory. sd_pcap_free() takes NULL. */
sd_pcap *sd_pcap_new(sd_itch *itch, uint32_t skip);
void sd_pcap_free(sd_pcap *pcap);

/* The decoder: `self` is an sd_pcap, and a message makes at most one tick. It leaves at most SD_PCAP_MAX_RECORD bytes. SD_AGAIN as for
 * sd_itch_decode(). A fault fills `fault`. */
sd_decode sd_pcap_decode;
/* cffi: end */

#endif
