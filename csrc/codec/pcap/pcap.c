/* Three layers, each of which asks the one below for its next item: runs of messages from the current packet, packets in their turn from
 * those that wait, records from the buffer. A packet's messages are copied when it is taken. So neither a full output nor a pending
 * decision on a symbol depends on the caller's buffer. */
#include "codec/pcap/pcap.h"

#include <stdlib.h>
#include <string.h>

#include "codec/bytes.h"
#include "codec/pcap/record.h"

enum { MOLD_HEADER = 20, END_OF_SESSION = 0xFFFF, BLOCK_PREFIX = 2 };

/* MoldUDP64 messages of one packet. */
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

typedef enum way { TAKEN, NEED_MORE, ASK, NO_MEMORY, FAULT } way;

static void note(sd_pcap *pcap, const sd_pcap_sample *sample) {
  if (pcap->sampled < SD_PCAP_SAMPLES) pcap->samples[pcap->sampled++] = *sample;
}

/* Handles the fault at pcap->fault: ends the call, or skips. */
static way settle(sd_pcap *pcap) {
  if (!pcap->skip) return FAULT;
  pcap->skips[pcap->fault.fault]++;
  note(pcap, &pcap->fault);
  return TAKEN;
}

static way refuse(sd_pcap *pcap, uint32_t fault, uint32_t value, uint64_t offset, uint64_t sequence) {
  pcap->fault = (sd_pcap_sample){.offset = offset, .sequence = sequence, .fault = fault, .value = value};
  return settle(pcap);
}

/* Takes messages from the current packet, as long as they have the lengths of their types, up to `capacity` ticks. */
static way take_messages(sd_pcap *pcap, sd_tick *ticks, uint64_t capacity, uint64_t *made) {
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
    way taken = refuse(pcap, SD_PCAP_FAULT_MESSAGE, length, now->offset, sequence);
    if (taken == TAKEN) {
      now->at += BLOCK_PREFIX + length;
      now->sequence++;
    }
    return taken;
  }
  uint64_t ts = pcap->memory->current_ts;
  itch->messages = now->sequence - 1;
  itch->lost = 0;
  itch->start_ns = 0;
  itch->span_ns = !pcap->selective || ts - pcap->start_ns < pcap->span_ns ? UINT64_MAX : 0;
  uint64_t sampled = itch->sampled;
  const sd_decoded did = sd_itch_decode(itch, now->blocks + now->at, end - now->at, 1, ticks, capacity);
  for (uint64_t i = 0; i < did.made; i++) ticks[i].ts_recv = (int64_t)ts;
  for (uint64_t i = sampled; i < itch->sampled; i++) itch->samples[i].offset = now->offset;
  *made += did.made;
  pcap->ticks += did.made;
  now->at += (uint32_t)did.consumed;
  now->sequence = itch->messages + 1;
  if (did.code == SD_AGAIN) return ASK;
  if (did.code == SD_OK) return TAKEN;
  pcap->fault = (sd_pcap_sample){.offset = now->offset, .sequence = now->sequence, .fault = SD_PCAP_FAULT_ITCH};
  return FAULT;
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
static way start_packet(sd_pcap *pcap, const packet *p) {
  packet *now = &pcap->memory->current;
  if (copy_packet(now, p) != 0) return NO_MEMORY;
  for (; now->sequence < pcap->sequence; now->sequence++, now->count--)
    now->at += BLOCK_PREFIX + sd_load_u16(now->blocks + now->at);
  pcap->sequence += now->count;
  pcap->memory->current_ts = pcap->ts;
  return TAKEN;
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

/* Releases a waiting packet whose turn it is, or whose wait is over. NEED_MORE: there is none. */
static way release_held(sd_pcap *pcap, int over) {
  sd_pcap_memory *memory = pcap->memory;
  if (memory->held == 0) return NEED_MORE;
  uint32_t lowest = lowest_held(memory);
  packet *p = &memory->waiting[lowest];
  if (p->sequence > pcap->sequence) {
    int late = (int64_t)(pcap->ts - memory->since) > (int64_t)pcap->hold_ns;
    if (!over && !late && memory->held <= pcap->hold) return NEED_MORE;
    give_up(pcap, p->sequence, p->offset);
  }
  way taken = TAKEN;
  if (p->sequence + p->count > pcap->sequence) taken = start_packet(pcap, p);
  else pcap->duplicates++;
  if (taken != TAKEN) return taken;
  memory->since = pcap->ts;
  packet last = memory->waiting[--memory->held];
  memory->waiting[memory->held] = *p;
  if (lowest != memory->held) memory->waiting[lowest] = last;
  return TAKEN;
}

static way hold_packet(sd_pcap *pcap, const packet *p) {
  sd_pcap_memory *memory = pcap->memory;
  for (uint32_t i = 0; i < memory->held; i++) {
    if (memory->waiting[i].sequence == p->sequence && memory->waiting[i].count >= p->count) {
      pcap->duplicates++;
      return TAKEN;
    }
  }
  if (copy_packet(&memory->waiting[memory->held], p) != 0) return NO_MEMORY;
  if (memory->held++ == 0) memory->since = pcap->ts;
  pcap->held++;
  return TAKEN;
}

/* Whether `count` messages fill a payload exactly. */
static int fills(const uint8_t *blocks, uint32_t length, uint32_t count) {
  uint32_t at = 0;
  for (; count != 0 && length - at >= BLOCK_PREFIX; count--) {
    uint32_t block = BLOCK_PREFIX + sd_load_u16(blocks + at);
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

/* Takes a payload on a port that was chosen. */
static way take_payload(sd_pcap *pcap, const sd_pcap_datagram *datagram) {
  const uint8_t *p = datagram->payload;
  uint32_t length = datagram->length;
  uint32_t count = length < MOLD_HEADER ? 0 : sd_load_u16(p + 18);
  uint64_t sequence = length < MOLD_HEADER ? 0 : sd_load_u64(p + 10);
  uint32_t messages = count == END_OF_SESSION ? 0 : count;
  const int filled = length >= MOLD_HEADER && fills(p + MOLD_HEADER, length - MOLD_HEADER, messages);
  const int blanked = filled && is_blank(p);
  const int blank = blanked && pcap->blank_headers;
  if (blank) sequence = pcap->sequence ? pcap->sequence : 1;
  if (!filled || (!blank && !is_session(p)) || sequence == 0 || sequence > SD_MAX_SEQUENCE - END_OF_SESSION) {
    pcap->other_packets++;
    pcap->blank_packets += blanked && messages != 0;
    return pcap->any_port ? TAKEN : refuse(pcap, SD_PCAP_FAULT_MOLD, length, pcap->offset, 0);
  }
  if (!blank && !pcap->session_known) {
    memcpy(pcap->session, p, SD_PCAP_SESSION_BYTES);
    pcap->session_known = 1;
  }
  if (!blank && memcmp(pcap->session, p, SD_PCAP_SESSION_BYTES) != 0) {
    pcap->other_sessions++;
    return pcap->session_chosen ? TAKEN : refuse(pcap, SD_PCAP_FAULT_SESSION, 0, pcap->offset, sequence);
  }
  if (pcap->sequence == 0) pcap->sequence = sequence;
  if (sequence + messages > pcap->announced) pcap->announced = sequence + messages;
  pcap->heartbeats += count == 0;
  pcap->ends += count == END_OF_SESSION;
  if (messages == 0) return TAKEN;
  pcap->packets++;
  packet taken = {.blocks = (uint8_t *)p + MOLD_HEADER,
                  .length = length - MOLD_HEADER,
                  .count = count,
                  .sequence = sequence,
                  .offset = pcap->offset};
  if (sequence > pcap->sequence) return hold_packet(pcap, &taken);
  if (sequence + count > pcap->sequence) return start_packet(pcap, &taken);
  pcap->duplicates++;
  return TAKEN;
}

static way take_packet(sd_pcap *pcap, const sd_pcap_record *record) {
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
    return TAKEN;
  case SD_PCAP_UDP:
    if (chosen) return take_payload(pcap, &datagram);
    break;
  default:
    break;
  }
  pcap->other_packets++;
  return TAKEN;
}

/* Takes the next record of p[0 .. left): it passes *used bytes. */
static way take_record(sd_pcap *pcap, const uint8_t *p, uint64_t left, int last, uint64_t *used) {
  sd_pcap_record record;
  *used = 0;
  if (left == 0) return NEED_MORE;
  if (pcap->passing != 0) {
    *used = left < pcap->passing ? left : pcap->passing;
    pcap->passing -= *used;
    return TAKEN;
  }
  if (pcap->lost) {
    int found;
    *used = sd_pcap_find_record(pcap, p, left, last, &found);
    pcap->skipped_bytes += *used;
    pcap->lost = !found;
    return found || *used != 0 ? TAKEN : NEED_MORE;
  }
  int code = sd_pcap_next_record(pcap, p, left, &record, used);
  if (code == SD_OK && record.data) return take_packet(pcap, &record);
  if (code == SD_OK) return TAKEN;
  uint32_t fault = pcap->fault.fault, value = pcap->fault.value;
  if (code == SD_AGAIN) {
    if (!last) return NEED_MORE;
    fault = SD_PCAP_FAULT_TRUNCATED, value = 0;
  }
  if (pcap->kind == 0 && code != SD_AGAIN) { /* not a capture, so there is nothing to search for */
    pcap->fault.offset = pcap->offset;
    return FAULT;
  }
  if (*used == 0 && pcap->skip) { /* search for the next record */
    *used = pcap->kind ? 1 : left;
    pcap->lost = pcap->kind != 0;
    pcap->skipped_bytes += *used;
  }
  return refuse(pcap, fault, value, pcap->offset, 0);
}

static way take_next(sd_pcap *pcap, const uint8_t *p, uint64_t left, int last, uint64_t *used) {
  *used = 0;
  way taken = release_held(pcap, 0);
  if (taken != NEED_MORE) return taken;
  taken = take_record(pcap, p, left, last, used);
  if (taken != NEED_MORE || !last) return taken;
  taken = release_held(pcap, 1);
  if (taken == NEED_MORE && pcap->announced > pcap->sequence) give_up(pcap, pcap->announced, pcap->offset);
  return taken;
}

static int code_of(const sd_pcap *pcap, way taken) {
  switch (taken) {
  case ASK:
    return SD_AGAIN;
  case NO_MEMORY:
    return SD_E_NO_MEMORY;
  case FAULT:
    return pcap->fault.fault == SD_PCAP_FAULT_TRUNCATED ? SD_E_TRUNCATED : SD_E_FORMAT;
  default:
    return SD_OK;
  }
}

sd_decoded sd_pcap_decode(void *self, const uint8_t *at, uint64_t left, int last, sd_tick *out, uint64_t capacity) {
  sd_pcap *pcap = self;
  sd_decoded did = {0};
  way taken = TAKEN;
  while (did.made < capacity && taken == TAKEN) {
    uint64_t used;
    /* A full output may have left clear records of the packet's last message: they come before the next packet, at this one's time. */
    if (pcap->memory->current.at < pcap->memory->current.length || pcap->itch->clear_from) {
      taken = take_messages(pcap, out + did.made, capacity - did.made, &did.made);
      continue;
    }
    taken = take_next(pcap, at + did.consumed, left - did.consumed, last, &used);
    if (taken != TAKEN && taken != NEED_MORE) break;
    did.consumed += used;
    pcap->offset += used;
  }
  did.sampled = pcap->sampled + pcap->itch->sampled;
  did.code = code_of(pcap, taken);
  return did;
}

sd_pcap *sd_pcap_new(sd_itch *itch, uint32_t skip) {
  sd_pcap *pcap = calloc(1, sizeof *pcap);
  if (!pcap) return NULL;
  pcap->memory = calloc(1, sizeof *pcap->memory);
  if (!pcap->memory) {
    free(pcap);
    return NULL;
  }
  pcap->itch = itch;
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
