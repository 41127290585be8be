/* Three layers, each of which asks the one below for its next item: runs of messages from the current packet, packets in their turn from
 * those that wait, records from the buffer. A packet's messages are copied when it is taken. So neither a full output nor a pending
 * decision on a symbol depends on the caller's buffer. */
#include "codec/pcap/pcap.h"

#include <stdlib.h>
#include <string.h>

#include "codec/bytes.h"
#include "codec/pcap/record.h"

enum {
  MOLD_HEADER = 20,
  END_OF_SESSION = 0xFFFF,
  IEX_HEADER = 40,
  IEX_ANEW_NS = 1000000000, /* a packet 1 sent so much later than all others is no copy */
  IEX_VERSION = 1,
  IEX_FIRST_PROTOCOL = 0x8002, /* TOPS 1.5; then 1.6, DEEP, DEEP+ */
  IEX_LAST_PROTOCOL = 0x8005,
  BLOCK_PREFIX = 2
};

/* The messages of one packet. */
typedef struct packet {
  uint8_t *blocks;
  uint32_t length;
  uint32_t capacity;
  uint32_t at; /* bytes done */
  uint32_t count;
  uint64_t sequence; /* of the message at `at` */
  uint64_t offset;   /* of the record in the capture */
} packet;

struct sd_pcap_memory {
  packet current;
  uint64_t current_ts;
  uint64_t since; /* capture time at which the first packet began to wait, or of the last release */
  uint32_t held;
  packet waiting[SD_PCAP_HELD]; /* in no order: few packets wait, and rarely */
};

static void note(sd_pcap *pcap, const sd_pcap_sample *sample) {
  if (pcap->sampled < SD_PCAP_SAMPLES) pcap->samples[pcap->sampled++] = *sample;
}

/* Handles the fault at pcap->fault: ends the call, or skips. */
static sd_way settle(sd_pcap *pcap) {
  if (!pcap->skip) return SD_FAULT;
  pcap->skips[pcap->fault.fault]++;
  note(pcap, &pcap->fault);
  return SD_TAKEN;
}

static sd_way refuse(sd_pcap *pcap, uint32_t fault, uint32_t value, uint64_t offset, uint64_t sequence) {
  pcap->fault = (sd_pcap_sample){.offset = offset, .sequence = sequence, .fault = fault, .value = value};
  return settle(pcap);
}

/* The length of the message at p. */
static uint32_t length_at(const sd_pcap *pcap, const uint8_t *p) {
  return pcap->iex ? sd_load_le16(p) : sd_load_u16(p);
}

/* Notes how far the messages' decoder came, which has made the ticks; `sequence` is the next message's. */
static sd_way took(sd_pcap *pcap, const sd_decoded *did, uint64_t sequence, sd_tick *ticks, uint64_t *made) {
  packet *now = &pcap->memory->current;
  for (uint64_t i = 0; i < did->made; i++) ticks[i].ts_recv = (int64_t)pcap->memory->current_ts;
  *made += did->made;
  pcap->ticks += did->made;
  now->at += (uint32_t)did->consumed;
  now->sequence = sequence;
  if (did->code == SD_AGAIN) return SD_ASKS;
  if (did->code == SD_OK) return SD_TAKEN;
  pcap->fault = (sd_pcap_sample){.offset = now->offset, .sequence = now->sequence, .fault = SD_PCAP_FAULT_CONTENT};
  return SD_FAULT;
}

static int is_wanted(const sd_pcap *pcap) {
  return !pcap->selective || pcap->memory->current_ts - pcap->start_ns < pcap->span_ns;
}

static sd_way take_iex(sd_pcap *pcap, sd_tick *ticks, uint64_t capacity, uint64_t *made) {
  const packet *now = &pcap->memory->current;
  sd_iex *iex = pcap->iex;
  iex->messages = now->sequence - 1;
  iex->passes = !is_wanted(pcap);
  const uint64_t sampled = iex->sampled;
  const sd_decoded did = sd_iex_decode(iex, now->blocks + now->at, now->length - now->at, 1, ticks, capacity);
  for (uint64_t i = sampled; i < iex->sampled; i++) iex->samples[i].offset = now->offset;
  return took(pcap, &did, iex->messages + 1, ticks, made);
}

/* Takes messages from the current packet, as long as they have the lengths of their types, up to `capacity` ticks. */
static sd_way take_itch(sd_pcap *pcap, sd_tick *ticks, uint64_t capacity, uint64_t *made) {
  packet *now = &pcap->memory->current;
  sd_itch *itch = pcap->itch;
  uint32_t end = now->at;
  uint32_t length = 0;
  while (end < now->length) {
    length = sd_load_u16(now->blocks + end);
    uint32_t own = length ? sd_itch_length(now->blocks[end + BLOCK_PREFIX]) : 0;
    if (length == 0 || length > SD_ITCH_MAX_MESSAGE || (own != 0 && own != length)) break;
    end += BLOCK_PREFIX + length;
  }
  if (end == now->at && !itch->clear_from) {
    uint64_t sequence = now->sequence;
    sd_way taken = refuse(pcap, SD_PCAP_FAULT_MESSAGE, length, now->offset, sequence);
    if (taken == SD_TAKEN) {
      now->at += BLOCK_PREFIX + length;
      now->sequence++;
    }
    return taken;
  }
  itch->messages = now->sequence - 1;
  itch->lost = 0;
  itch->start_ns = 0;
  itch->span_ns = is_wanted(pcap) ? UINT64_MAX : 0;
  const uint64_t sampled = itch->sampled;
  const sd_decoded did = sd_itch_decode(itch, now->blocks + now->at, end - now->at, 1, ticks, capacity);
  for (uint64_t i = sampled; i < itch->sampled; i++) itch->samples[i].offset = now->offset;
  return took(pcap, &did, itch->messages + 1, ticks, made);
}

static int copy_packet(packet *to, const packet *from) {
  if (to->capacity < from->length) {
    uint8_t *grown = realloc(to->blocks, from->length);
    if (!grown) return -1;
    to->blocks = grown;
    to->capacity = from->length;
  }
  uint8_t *blocks = to->blocks;
  uint32_t capacity = to->capacity;
  memcpy(blocks, from->blocks, from->length);
  *to = *from;
  to->blocks = blocks;
  to->capacity = capacity;
  return 0;
}

/* Makes a packet that starts at or before its turn the current one, without the messages already known. */
static sd_way start_packet(sd_pcap *pcap, const packet *p) {
  packet *now = &pcap->memory->current;
  if (copy_packet(now, p) != 0) return SD_NO_MEMORY;
  for (; now->sequence < pcap->sequence; now->sequence++, now->count--)
    now->at += BLOCK_PREFIX + length_at(pcap, now->blocks + now->at);
  pcap->sequence += now->count;
  pcap->memory->current_ts = pcap->ts;
  return SD_TAKEN;
}

static int before(const packet *a, const packet *b) {
  return a->sequence != b->sequence ? a->sequence < b->sequence : a->count > b->count;
}

/* The waiting packet whose turn is next; of two that start alike, the longer one. */
static uint32_t lowest_held(const sd_pcap_memory *memory) {
  uint32_t lowest = 0;
  for (uint32_t i = 1; i < memory->held; i++)
    if (before(&memory->waiting[i], &memory->waiting[lowest])) lowest = i;
  return lowest;
}

static void give_up(sd_pcap *pcap, uint64_t until, uint64_t offset) {
  uint64_t missing = until - pcap->sequence;
  sd_pcap_sample gap = {
      .offset = offset, .sequence = pcap->sequence, .value = missing < UINT32_MAX ? (uint32_t)missing : UINT32_MAX};
  note(pcap, &gap);
  pcap->gaps++;
  pcap->missing += missing;
  pcap->sequence = until;
}

/* Releases a waiting packet whose turn it is, or whose wait is over. SD_NEED_MORE: there is none. */
static sd_way release_held(sd_pcap *pcap, int over) {
  sd_pcap_memory *memory = pcap->memory;
  if (memory->held == 0) return SD_NEED_MORE;
  uint32_t lowest = lowest_held(memory);
  packet *p = &memory->waiting[lowest];
  if (p->sequence > pcap->sequence) {
    int late = (int64_t)(pcap->ts - memory->since) > (int64_t)pcap->hold_ns;
    if (!over && !late && memory->held <= pcap->hold) return SD_NEED_MORE;
    give_up(pcap, p->sequence, p->offset);
  }
  sd_way taken = SD_TAKEN;
  if (p->sequence + p->count > pcap->sequence) taken = start_packet(pcap, p);
  else pcap->duplicates++;
  if (taken != SD_TAKEN) return taken;
  memory->since = pcap->ts;
  packet last = memory->waiting[--memory->held];
  memory->waiting[memory->held] = *p;
  if (lowest != memory->held) memory->waiting[lowest] = last;
  return SD_TAKEN;
}

static sd_way hold_packet(sd_pcap *pcap, const packet *p) {
  sd_pcap_memory *memory = pcap->memory;
  for (uint32_t i = 0; i < memory->held; i++) {
    if (memory->waiting[i].sequence == p->sequence && memory->waiting[i].count >= p->count) {
      pcap->duplicates++;
      return SD_TAKEN;
    }
  }
  if (copy_packet(&memory->waiting[memory->held], p) != 0) return SD_NO_MEMORY;
  if (memory->held++ == 0) memory->since = pcap->ts;
  pcap->held++;
  return SD_TAKEN;
}

/* Whether `count` messages fill bytes exactly. */
static int fills(const sd_pcap *pcap, const uint8_t *blocks, uint32_t length, uint32_t count) {
  uint32_t at = 0;
  for (; count != 0 && length - at >= BLOCK_PREFIX; count--) {
    uint32_t block = BLOCK_PREFIX + length_at(pcap, blocks + at);
    if (block > length - at) return 0;
    at += block;
  }
  return count == 0 && at == length;
}

static int is_session(const uint8_t *p) {
  for (int i = 0; i < SD_PCAP_SESSION_BYTES; i++)
    if (p[i] < 0x20 || p[i] > 0x7E) return 0;
  return 1;
}

static int is_blank(const uint8_t *p) {
  for (int i = 0; i < SD_PCAP_SESSION_BYTES + 8; i++)
    if (p[i] != 0) return 0;
  return 1;
}

static int is_iex(const uint8_t *p, uint32_t length) {
  if (length < IEX_HEADER || p[0] != IEX_VERSION) return 0;
  const uint32_t protocol = sd_load_le16(p + 2);
  return protocol >= IEX_FIRST_PROTOCOL && protocol <= IEX_LAST_PROTOCOL;
}

/* What a payload's header says. */
typedef struct segment {
  uint8_t session[SD_PCAP_SESSION_BYTES];
  uint32_t header; /* bytes before the messages */
  uint32_t count;
  uint32_t ends;  /* the session */
  uint32_t blank; /* it says neither session nor sequence */
  uint32_t fits;  /* it is a packet of the transport */
  uint32_t damaged;
  uint64_t sequence;
  uint64_t stream;
  uint64_t sent;
} segment;

static segment mold_segment(sd_pcap *pcap, const uint8_t *p, uint32_t length) {
  segment s = {.header = MOLD_HEADER};
  if (length >= MOLD_HEADER) {
    const uint32_t count = sd_load_u16(p + 18);
    s.ends = count == END_OF_SESSION;
    s.count = s.ends ? 0 : count;
    s.sequence = sd_load_u64(p + 10);
    memcpy(s.session, p, sizeof s.session);
    const int filled = fills(pcap, p + MOLD_HEADER, length - MOLD_HEADER, s.count);
    const int blanked = filled && is_blank(p);
    s.blank = blanked && pcap->blank_headers;
    if (s.blank) s.sequence = pcap->sequence ? pcap->sequence : 1;
    s.fits = filled && (s.blank || is_session(p));
    pcap->blank_packets += blanked && !s.blank && s.count != 0;
  }
  pcap->iex_packets += !s.fits && is_iex(p, length);
  return s;
}

/* Names a session of IEX-TP by its number in decimal. */
static void name_session(sd_pcap *pcap, uint32_t number) {
  if (pcap->name[0] != 0 && pcap->named == number) return;
  uint8_t digits[SD_PCAP_SESSION_BYTES];
  uint32_t at = SD_PCAP_SESSION_BYTES;
  pcap->named = number;
  do digits[--at] = (uint8_t)('0' + number % 10);
  while ((number /= 10) != 0);
  memset(pcap->name, ' ', sizeof pcap->name);
  memcpy(pcap->name, digits + at, sizeof digits - at);
}

static segment iex_segment(sd_pcap *pcap, const uint8_t *p, uint32_t length) {
  segment s = {.header = IEX_HEADER};
  if (!is_iex(p, length)) return s;
  s.stream = (uint64_t)sd_load_le16(p + 2) << 32 | sd_load_le32(p + 4);
  s.count = sd_load_le16(p + 14);
  s.sequence = sd_load_le64(p + 24);
  s.sent = sd_load_le64(p + 32);
  name_session(pcap, sd_load_le32(p + 8));
  memcpy(s.session, pcap->name, sizeof s.session);
  s.fits = sd_load_le16(p + 12) == length - IEX_HEADER && fills(pcap, p + IEX_HEADER, length - IEX_HEADER, s.count);
  s.damaged = !s.fits;
  return s;
}

/* Takes a payload on a port that was chosen. */
static sd_way take_payload(sd_pcap *pcap, const sd_pcap_datagram *datagram) {
  const uint8_t *p = datagram->payload;
  const segment s = pcap->iex ? iex_segment(pcap, p, datagram->length) : mold_segment(pcap, p, datagram->length);
  if (!s.fits || s.sequence == 0 || s.sequence > SD_MAX_SEQUENCE - END_OF_SESSION) {
    pcap->other_packets++;
    const int passes = pcap->any_port && !s.damaged;
    return passes ? SD_TAKEN : refuse(pcap, SD_PCAP_FAULT_PACKET, datagram->length, pcap->offset, 0);
  }
  if (!s.blank && !pcap->session_known) {
    memcpy(pcap->session, s.session, sizeof s.session);
    pcap->session_known = 1;
  }
  const int other = !s.blank && memcmp(pcap->session, s.session, sizeof s.session) != 0;
  if (!other && pcap->stream == 0) pcap->stream = s.stream;
  if (other || s.stream != pcap->stream) {
    pcap->other_sessions++;
    const int passes = other && pcap->session_chosen;
    return passes ? SD_TAKEN
                  : refuse(pcap, SD_PCAP_FAULT_SESSION, (uint32_t)(s.stream >> 32), pcap->offset, s.sequence);
  }
  const int64_t later = (int64_t)(s.sent - pcap->sent);
  if (s.sequence == 1 && pcap->sequence > 1 && later > IEX_ANEW_NS) pcap->anew = 1;
  if (pcap->anew) return refuse(pcap, SD_PCAP_FAULT_ANEW, 0, pcap->offset, s.sequence);
  if (later > 0) pcap->sent = s.sent;
  if (pcap->sequence == 0) pcap->sequence = s.sequence;
  if (s.sequence + s.count > pcap->announced) pcap->announced = s.sequence + s.count;
  pcap->heartbeats += s.count == 0 && !s.ends;
  pcap->ends += s.ends;
  if (s.count == 0) return SD_TAKEN;
  pcap->packets++;
  packet taken = {.blocks = (uint8_t *)p + s.header,
                  .length = datagram->length - s.header,
                  .count = s.count,
                  .sequence = s.sequence,
                  .offset = pcap->offset};
  if (s.sequence > pcap->sequence) return hold_packet(pcap, &taken);
  if (s.sequence + s.count > pcap->sequence) return start_packet(pcap, &taken);
  pcap->duplicates++;
  return SD_TAKEN;
}

static sd_way take_packet(sd_pcap *pcap, const sd_pcap_record *record) {
  sd_pcap_datagram datagram;
  sd_pcap_content content = sd_pcap_open_packet(record, &datagram);
  pcap->ts = record->ts;
  if (pcap->first_ts == 0) pcap->first_ts = record->ts;
  pcap->records++;
  int chosen = pcap->any_port || (datagram.port < 65536 && (pcap->ports[datagram.port / 8] >> datagram.port % 8 & 1));
  switch (content) {
  case SD_PCAP_NO_LINK:
    return refuse(pcap, SD_PCAP_FAULT_LINK, record->link, pcap->offset, 0);
  case SD_PCAP_SNAPPED:
    if (chosen || datagram.port == 65536) return refuse(pcap, SD_PCAP_FAULT_SNAPPED, record->captured, pcap->offset, 0);
    break;
  case SD_PCAP_FRAGMENT:
    pcap->fragments++;
    return SD_TAKEN;
  case SD_PCAP_UDP:
    if (chosen) return take_payload(pcap, &datagram);
    break;
  default:
    break;
  }
  pcap->other_packets++;
  return SD_TAKEN;
}

/* Takes the next record of p[0 .. left): it passes *used bytes. */
static sd_way take_record(sd_pcap *pcap, const uint8_t *p, uint64_t left, int last, uint64_t *used) {
  sd_pcap_record record;
  *used = 0;
  if (left == 0) return SD_NEED_MORE;
  if (pcap->passing != 0) {
    *used = left < pcap->passing ? left : pcap->passing;
    pcap->passing -= *used;
    return SD_TAKEN;
  }
  if (pcap->lost) {
    int found;
    *used = sd_pcap_find_record(pcap, p, left, last, &found);
    pcap->skipped_bytes += *used;
    pcap->lost = !found;
    return found || *used != 0 ? SD_TAKEN : SD_NEED_MORE;
  }
  int code = sd_pcap_next_record(pcap, p, left, &record, used);
  if (code == SD_OK && record.data) return take_packet(pcap, &record);
  if (code == SD_OK) return SD_TAKEN;
  uint32_t fault = pcap->fault.fault, value = pcap->fault.value;
  if (code == SD_AGAIN) {
    if (!last) return SD_NEED_MORE;
    fault = SD_PCAP_FAULT_TRUNCATED, value = 0;
  }
  if (pcap->kind == 0 && code != SD_AGAIN) { /* not a capture, so there is nothing to search for */
    pcap->fault.offset = pcap->offset;
    return SD_FAULT;
  }
  if (*used == 0 && pcap->skip) { /* search for the next record */
    *used = pcap->kind ? 1 : left;
    pcap->lost = pcap->kind != 0;
    pcap->skipped_bytes += *used;
  }
  return refuse(pcap, fault, value, pcap->offset, 0);
}

static sd_way take_next(sd_pcap *pcap, const uint8_t *p, uint64_t left, int last, uint64_t *used) {
  *used = 0;
  sd_way taken = release_held(pcap, 0);
  if (taken != SD_NEED_MORE) return taken;
  taken = take_record(pcap, p, left, last, used);
  if (taken != SD_NEED_MORE || !last) return taken;
  taken = release_held(pcap, 1);
  if (taken == SD_NEED_MORE && pcap->announced > pcap->sequence) give_up(pcap, pcap->announced, pcap->offset);
  return taken;
}

sd_decoded sd_pcap_decode(void *self, const uint8_t *at, uint64_t left, int last, sd_tick *out, uint64_t capacity) {
  sd_pcap *pcap = self;
  sd_decoded did = {0};
  sd_way taken = SD_TAKEN;
  while (did.made < capacity && taken == SD_TAKEN) {
    uint64_t used;
    /* A full output may have left clear records of the packet's last message: they come before the next packet, at this one's time. */
    if (pcap->memory->current.at < pcap->memory->current.length || (pcap->itch && pcap->itch->clear_from)) {
      sd_way (*take)(sd_pcap *, sd_tick *, uint64_t, uint64_t *) = pcap->iex ? take_iex : take_itch;
      taken = take(pcap, out + did.made, capacity - did.made, &did.made);
      continue;
    }
    taken = take_next(pcap, at + did.consumed, left - did.consumed, last, &used);
    if (taken != SD_TAKEN && taken != SD_NEED_MORE) break;
    did.consumed += used;
    pcap->offset += used;
  }
  did.sampled = pcap->sampled + (pcap->iex ? pcap->iex->sampled : pcap->itch->sampled);
  did.code = sd_code_of(taken, pcap->fault.fault == SD_PCAP_FAULT_TRUNCATED);
  return did;
}

sd_pcap *sd_pcap_new(sd_itch *itch, sd_iex *iex, uint32_t skip) {
  sd_pcap *pcap = calloc(1, sizeof *pcap);
  if (!pcap) return NULL;
  pcap->memory = calloc(1, sizeof *pcap->memory);
  if (!pcap->memory) {
    free(pcap);
    return NULL;
  }
  pcap->itch = itch;
  pcap->iex = iex;
  pcap->skip = skip;
  pcap->span_ns = UINT64_MAX;
  pcap->any_port = 1;
  pcap->hold = SD_PCAP_HELD - 1;
  pcap->hold_ns = INT64_MAX;
  return pcap;
}

void sd_pcap_free(sd_pcap *pcap) {
  if (!pcap) return;
  for (uint32_t i = 0; i < SD_PCAP_HELD; i++) free(pcap->memory->waiting[i].blocks);
  free(pcap->memory->current.blocks);
  free(pcap->memory);
  free(pcap);
}
