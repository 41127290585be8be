#include "codec/pcap/record.h"

#include "codec/bytes.h"

enum {
  CLASSIC = 1,
  NG = 2,
  FILE_HEADER = 24,
  RECORD_HEADER = 16,
  BLOCK_EDGES = 12, /* type, length, and length again */
  MAX_PACKET = 262144,
  MIN_SECTION = 28
};

#define SECTION_BLOCK 0x0A0D0D0Au
#define BYTE_ORDER_MARK 0x1A2B3C4Du
#define SECOND_NS UINT64_C(1000000000)
#define DAY_NS (86400 * SECOND_NS)

static uint32_t load32(const uint8_t *p, uint32_t swapped) {
  uint32_t v;
  memcpy(&v, p, sizeof v);
  return swapped ? __builtin_bswap32(v) : v;
}

static uint32_t load16(const uint8_t *p, uint32_t swapped) {
  uint16_t v;
  memcpy(&v, p, sizeof v);
  return swapped ? __builtin_bswap16(v) : v;
}

static int refuse(sd_pcap *pcap, uint32_t fault, uint32_t value) {
  pcap->fault.fault = fault;
  pcap->fault.value = value;
  return SD_E_FORMAT;
}

/* The file's first bytes say what it is. */
static int open_file(sd_pcap *pcap, const uint8_t *p, uint64_t left, uint64_t *used) {
  if (left < 4) return SD_AGAIN;
  uint32_t magic = load32(p, 0);
  if (magic == SECTION_BLOCK) {
    pcap->kind = NG;
    return SD_OK;
  }
  uint32_t straight = magic == 0xA1B2C3D4u || magic == 0xA1B23C4Du;
  uint32_t swapped = magic == 0xD4C3B2A1u || magic == 0x4D3CB2A1u;
  if (!straight && !swapped) return refuse(pcap, SD_PCAP_FAULT_RECORD, magic);
  if (left < FILE_HEADER) return SD_AGAIN;
  pcap->swapped = swapped;
  int nanoseconds = magic == 0xA1B23C4Du || magic == 0x4D3CB2A1u;
  pcap->interface[0] =
      (sd_pcap_interface){.link = load32(p + 20, swapped) & 0xFFFF, .times = nanoseconds ? 1 : 1000, .over = 1};
  pcap->interfaces = 1;
  pcap->kind = CLASSIC;
  *used = FILE_HEADER;
  return SD_OK;
}

static int classic_record(sd_pcap *pcap, const uint8_t *p, uint64_t left, sd_pcap_record *record, uint64_t *used) {
  if (left < RECORD_HEADER) return SD_AGAIN;
  uint64_t fraction = load32(p + 4, pcap->swapped) * pcap->interface[0].times;
  record->captured = load32(p + 8, pcap->swapped);
  record->length = load32(p + 12, pcap->swapped);
  if (record->captured > MAX_PACKET) return refuse(pcap, SD_PCAP_FAULT_RECORD, record->captured);
  if (fraction >= SECOND_NS) return refuse(pcap, SD_PCAP_FAULT_RECORD, load32(p + 4, pcap->swapped));
  if (left < RECORD_HEADER + (uint64_t)record->captured) return SD_AGAIN;
  record->ts = load32(p, pcap->swapped) * SECOND_NS + fraction;
  record->data = p + RECORD_HEADER;
  record->link = pcap->interface[0].link;
  *used = RECORD_HEADER + (uint64_t)record->captured;
  return SD_OK;
}

/* Reads the unit of time and its offset from an interface's options p[0 .. left). */
static void read_options(const uint8_t *p, uint32_t left, uint32_t swapped, sd_pcap_interface *interface) {
  while (left >= 4) {
    uint32_t code = load16(p, swapped);
    uint32_t length = load16(p + 2, swapped);
    uint32_t padded = (length + 3) & ~3u;
    if (code == 0 || left - 4 < padded) return;
    if (code == 9 && length == 1) {
      uint32_t digits = p[4] & 0x7F;
      interface->times = interface->over = 1;
      interface->shift = p[4] & 0x80 && digits < 64 ? digits : 0;
      for (uint32_t i = digits; i < 9 && !(p[4] & 0x80); i++) interface->times *= 10;
      for (uint32_t i = 9; i < digits && i < 27 && !(p[4] & 0x80); i++) interface->over *= 10;
      if (p[4] == 0x80) interface->times = SECOND_NS; /* units of 2^-0 s */
    } else if (code == 14 && length == 8) {
      uint64_t low = load32(p + 4 + (swapped ? 4 : 0), swapped), high = load32(p + 4 + (swapped ? 0 : 4), swapped);
      /* The byte-order mark says whether the file's machine has the other byte order; this machine is little-endian. */
      interface->offset_s = (int64_t)(high << 32 | low);
    }
    p += 4 + padded;
    left -= 4 + padded;
  }
}

static uint64_t time_of(const sd_pcap_interface *interface, uint32_t high, uint32_t low) {
  uint64_t units = (uint64_t)high << 32 | low;
  uint64_t ns = interface->shift ? (uint64_t)(((unsigned __int128)units * SECOND_NS) >> interface->shift)
                                 : (uint64_t)((unsigned __int128)units * interface->times / interface->over);
  return ns + (uint64_t)interface->offset_s * SECOND_NS;
}

static int section(sd_pcap *pcap, const uint8_t *p, uint64_t left) {
  if (left < BLOCK_EDGES) return SD_AGAIN;
  uint32_t mark = load32(p + 8, 0);
  if (mark != BYTE_ORDER_MARK && mark != __builtin_bswap32(BYTE_ORDER_MARK))
    return refuse(pcap, SD_PCAP_FAULT_RECORD, mark);
  if (load32(p + 4, mark != BYTE_ORDER_MARK) < MIN_SECTION) return refuse(pcap, SD_PCAP_FAULT_RECORD, mark);
  pcap->swapped = mark != BYTE_ORDER_MARK;
  pcap->interfaces = 0;
  return SD_OK;
}

static int describe_interface(sd_pcap *pcap, const uint8_t *p, uint32_t length) {
  if (length < 20) return refuse(pcap, SD_PCAP_FAULT_RECORD, length);
  if (pcap->interfaces == SD_PCAP_INTERFACES) return refuse(pcap, SD_PCAP_FAULT_LINK, SD_PCAP_INTERFACES);
  sd_pcap_interface *interface = &pcap->interface[pcap->interfaces++];
  *interface = (sd_pcap_interface){.link = load16(p + 8, pcap->swapped), .times = 1000, .over = 1};
  read_options(p + 16, length - 20, pcap->swapped, interface);
  return SD_OK;
}

/* Finds the packet in a block of `length` bytes, whose fields and data begin at `at`. */
static int packet_of(sd_pcap *pcap, const uint8_t *p, uint32_t length, uint32_t type, sd_pcap_record *record) {
  uint32_t swapped = pcap->swapped;
  uint32_t at = type == 3 ? 12 : 28;
  if (length < at + 4) return refuse(pcap, SD_PCAP_FAULT_RECORD, length);
  uint32_t which = type == 6 ? load32(p + 8, swapped) : type == 2 ? load16(p + 8, swapped) : 0;
  if (which >= pcap->interfaces) return refuse(pcap, SD_PCAP_FAULT_LINK, which);
  const sd_pcap_interface *interface = &pcap->interface[which];
  record->link = interface->link;
  record->length = load32(p + (type == 3 ? 8 : 24), swapped);
  record->captured = type != 3 ? load32(p + 20, swapped) : record->length < length - 16 ? record->length : length - 16;
  if (record->captured > length - at - 4) return refuse(pcap, SD_PCAP_FAULT_RECORD, record->captured);
  record->ts = type == 3 ? pcap->ts : time_of(interface, load32(p + 12, swapped), load32(p + 16, swapped));
  record->data = p + at;
  return SD_OK;
}

static int ng_record(sd_pcap *pcap, const uint8_t *p, uint64_t left, sd_pcap_record *record, uint64_t *used) {
  if (left < 8) return SD_AGAIN;
  uint32_t type = load32(p, 0);
  if (type == SECTION_BLOCK) {
    int code = section(pcap, p, left);
    if (code != SD_OK) return code;
  }
  type = load32(p, pcap->swapped);
  uint32_t length = load32(p + 4, pcap->swapped);
  if (length < BLOCK_EDGES || length % 4) return refuse(pcap, SD_PCAP_FAULT_RECORD, length);
  int packet = type == 6 || type == 3 || type == 2;
  if (!packet && type != 1) { /* names, statistics, comments, secrets: of any length */
    pcap->passing = length;
    return SD_OK;
  }
  if (length > SD_PCAP_MAX_RECORD) return refuse(pcap, SD_PCAP_FAULT_RECORD, length);
  if (left < length) return SD_AGAIN;
  if (load32(p + length - 4, pcap->swapped) != length) return refuse(pcap, SD_PCAP_FAULT_RECORD, length);
  *used = length;
  return packet ? packet_of(pcap, p, length, type, record) : describe_interface(pcap, p, length);
}

int sd_pcap_next_record(sd_pcap *pcap, const uint8_t *p, uint64_t left, sd_pcap_record *record, uint64_t *used) {
  *used = 0;
  record->data = NULL;
  if (pcap->kind == 0) return open_file(pcap, p, left, used);
  return pcap->kind == CLASSIC ? classic_record(pcap, p, left, record, used) : ng_record(pcap, p, left, record, used);
}

/* 1: a record may start here, of *length bytes; 0: none; -1: too few bytes to tell. */
static int judge(const sd_pcap *pcap, const uint8_t *p, uint64_t left, uint64_t *length) {
  if (pcap->kind == CLASSIC) {
    if (left < RECORD_HEADER) return -1;
    uint64_t fraction = load32(p + 4, pcap->swapped) * pcap->interface[0].times;
    uint64_t ts = load32(p, pcap->swapped) * SECOND_NS + fraction;
    uint32_t captured = load32(p + 8, pcap->swapped);
    *length = RECORD_HEADER + (uint64_t)captured;
    return fraction < SECOND_NS && captured != 0 && captured <= MAX_PACKET &&
           captured <= load32(p + 12, pcap->swapped) && load32(p + 12, pcap->swapped) <= MAX_PACKET &&
           (pcap->ts == 0 || ts - pcap->ts + DAY_NS < 2 * DAY_NS);
  }
  if (left < 8) return -1;
  uint32_t type = load32(p, pcap->swapped);
  *length = load32(p + 4, pcap->swapped);
  if (type != 6 && type != SECTION_BLOCK) return 0;
  if (*length < 32 || *length % 4 || *length > SD_PCAP_MAX_RECORD) return 0;
  if (left < *length) return -1;
  return load32(p + *length - 4, pcap->swapped) == *length;
}

uint64_t sd_pcap_find_record(sd_pcap *pcap, const uint8_t *p, uint64_t left, int last, int *found) {
  *found = 0;
  for (uint64_t at = 0; at < left; at++) {
    uint64_t length = 0;
    uint64_t next = 0;
    int verdict = judge(pcap, p + at, left - at, &length);
    if (verdict > 0 && pcap->kind == CLASSIC) {
      if (left - at < length) verdict = -1;
      else if (left - at > length) verdict = judge(pcap, p + at + length, left - at - length, &next);
      else verdict = last ? 1 : -1;
    }
    if (verdict < 0 && !last) return at;
    if (verdict <= 0) continue;
    *found = 1;
    return at;
  }
  return left;
}

/* Where the network layer begins, and its protocol number; 0: the frame ends before. */
static uint32_t network_of(const sd_pcap_record *record, uint32_t *protocol) {
  const uint8_t *p = record->data;
  uint32_t at;
  switch (record->link) {
  case 1: /* Ethernet */
    at = 12;
    break;
  case 113: /* Linux cooked */
    at = 14;
    break;
  default: /* the first byte of raw IP gives its version */
    if (record->captured == 0) return UINT32_MAX;
    *protocol = p[0] >> 4 == 6 ? 0x86DD : 0x0800;
    return 0;
  }
  for (;;) {
    if (record->captured < at + 2) return UINT32_MAX;
    *protocol = sd_load_u16(p + at);
    at += 2;
    if (*protocol != 0x8100 && *protocol != 0x88A8 && *protocol != 0x9100) return at;
    at += 2; /* a VLAN tag */
  }
}

/* Where the transport layer begins, and how many bytes it has. */
static sd_pcap_content transport_of(const sd_pcap_record *record, uint32_t at, uint32_t protocol, uint32_t *begin,
                                    uint32_t *end) {
  const uint8_t *p = record->data;
  uint32_t left = record->captured - at;
  if (protocol == 0x0800) {
    if (left < 20) return SD_PCAP_SNAPPED;
    uint32_t header = (p[at] & 15u) * 4, total = sd_load_u16(p + at + 2);
    if (p[at] >> 4 != 4 || header < 20 || p[at + 9] != 17 || total < header) return SD_PCAP_OTHER;
    if (sd_load_u16(p + at + 6) & 0x3FFF) return SD_PCAP_FRAGMENT;
    *begin = at + header;
    *end = at + total;
    return SD_PCAP_UDP;
  }
  if (protocol != 0x86DD) return SD_PCAP_OTHER;
  if (left < 40) return SD_PCAP_SNAPPED;
  if (p[at] >> 4 != 6) return SD_PCAP_OTHER;
  *end = at + 40 + sd_load_u16(p + at + 4);
  uint32_t next = p[at + 6];
  for (at += 40; next != 17;) {
    if (next == 44) return SD_PCAP_FRAGMENT;
    if (next != 0 && next != 43 && next != 60) return SD_PCAP_OTHER;
    if (record->captured < at + 8) return SD_PCAP_SNAPPED;
    next = p[at];
    at += 8 + p[at + 1] * 8u;
  }
  *begin = at;
  return SD_PCAP_UDP;
}

/* For data that ends too early: cut off by the capture, or not a packet. */
static sd_pcap_content short_of(const sd_pcap_record *record) {
  return record->captured < record->length ? SD_PCAP_SNAPPED : SD_PCAP_OTHER;
}

sd_pcap_content sd_pcap_open_packet(const sd_pcap_record *record, sd_pcap_datagram *datagram) {
  uint32_t protocol = 0;
  uint32_t begin = 0;
  uint32_t end = 0;
  datagram->port = 65536;
  if (record->link != 1 && record->link != 113 && record->link != 101 && record->link != 12) return SD_PCAP_NO_LINK;
  uint32_t at = network_of(record, &protocol);
  if (at == UINT32_MAX) return short_of(record);
  sd_pcap_content content = transport_of(record, at, protocol, &begin, &end);
  if (content == SD_PCAP_SNAPPED) return short_of(record);
  if (content != SD_PCAP_UDP) return content;
  if (record->captured < begin + 8) return short_of(record);
  const uint8_t *udp = record->data + begin;
  uint32_t length = sd_load_u16(udp + 4);
  datagram->port = sd_load_u16(udp + 2);
  if (length < 8 || begin + length > end) return SD_PCAP_OTHER;
  if (record->captured < begin + length) return short_of(record);
  datagram->payload = udp + 8;
  datagram->length = length - 8;
  return SD_PCAP_UDP;
}
