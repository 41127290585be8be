/* MoldUDP64 on the wire (Nasdaq's "MoldUDP64 protocol specification", version 1.00): a header of 20 bytes (session 10,
 * sequence 8, count 2, numbers big-endian), then `count` blocks of length 2 + message. A count of 0 is a heartbeat and
 * 0xFFFF the end of the session; both carry the sequence of the message to come next. A request is a header alone:
 * `count` messages from `sequence` on are wanted again.
 *
 * A block is what an ITCH 5.0 file calls a frame: blocks of a packet are taken over as they are. */
#pragma once

#include "sd_tick.h"

#include <stdint.h>
#include <string.h>

/* cffi: begin */
enum {
  SD_MOLD_SESSION = 10,
  SD_MOLD_HEADER = 20,
  SD_MOLD_HEARTBEAT = 0,
  SD_MOLD_END = 0xFFFF,
  SD_MOLD_PACKET = 9216 /* a jumbo frame: the longest packet taken */
};
/* cffi: end */

/* Neither a greater sequence, nor one of the messages behind it, fits into a tick. */
#define SD_MOLD_SEQUENCE_MAX (SD_MAX_SEQUENCE - UINT16_MAX)

typedef struct sd_mold_header {
  const uint8_t *session;
  uint64_t sequence;
  uint32_t count;    /* of messages; 0 for a heartbeat and for the end */
  uint32_t end;      /* the session ends here */
  uint32_t body_len; /* bytes of blocks */
} sd_mold_header;

static inline uint32_t sd_be16(const uint8_t *p) { return (uint32_t)p[0] << 8 | p[1]; }

static inline uint64_t sd_be64(const uint8_t *p) {
  uint64_t v;
  memcpy(&v, p, sizeof v);
  return __builtin_bswap64(v);
}

static inline void sd_mold_write_header(uint8_t *p, const uint8_t *session, uint64_t sequence, uint32_t count) {
  uint64_t wire = __builtin_bswap64(sequence);
  memcpy(p, session, SD_MOLD_SESSION);
  memcpy(p + SD_MOLD_SESSION, &wire, sizeof wire);
  p[18] = (uint8_t)(count >> 8);
  p[19] = (uint8_t)count;
}

/* Reads and checks a whole packet. 0: not a packet. It is too short, its blocks do not fill it exactly, it has an empty message (which
 * ITCH does not have, and a file could not hold), or its sequence is 0 or impossibly high. */
static inline int sd_mold_parse(const uint8_t *p, uint64_t len, sd_mold_header *h) {
  if (len < SD_MOLD_HEADER || len > SD_MOLD_PACKET) return 0;
  uint32_t count = sd_be16(p + 18);
  h->session = p;
  h->sequence = sd_be64(p + SD_MOLD_SESSION);
  h->end = count == SD_MOLD_END;
  h->count = h->end ? 0 : count;
  h->body_len = (uint32_t)(len - SD_MOLD_HEADER);
  if (h->sequence == 0 || h->sequence > SD_MOLD_SEQUENCE_MAX) return 0;
  uint64_t at = SD_MOLD_HEADER;
  for (uint32_t i = 0; i < h->count; i++) {
    if (len - at < 2) return 0;
    uint32_t length = sd_be16(p + at);
    if (length == 0 || length > len - at - 2) return 0;
    at += 2 + length;
  }
  return at == len;
}
