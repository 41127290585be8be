/* What the merger's parts and the slots know of lanes: where entries lie, and the way along them. */
#ifndef SD_LANE_H
#define SD_LANE_H

#include "sd_output.h"

/* Bytes of a lane that are fetched while one is read. */
enum { SD_LANE_AHEAD = 1024 };

static inline unsigned char *entries_of(sd_chunk *chunk) { return (unsigned char *)chunk + SD_CHUNK_HEADER; }

static inline sd_emitted *entry_at(const sd_outputs *o, const sd_output *output, uint32_t ref) {
  sd_chunk *chunk = o->pool.table[ref >> SD_REF_BITS];
  return (sd_emitted *)(entries_of(chunk) + (size_t)((ref & ((1u << SD_REF_BITS) - 1)) - 1) * output->entry_bytes);
}

static inline uint32_t next_of(const sd_emitted *e) { return e->link & ~SD_BY_PYTHON; }

/* Goes on to the chunk that has the next entry, where there is one. */
static inline void find_next(sd_lane *lane) {
  if (!lane->reading) {
    lane->reading = lane->oldest = lane->first;
    lane->at = entries_of(lane->reading);
  } else if (lane->at == entries_of(lane->reading) + lane->chunk_bytes) {
    lane->reading = lane->reading->next;
    lane->at = entries_of(lane->reading);
  }
}

/* Where a lane's entries lie in a row from lane->at on, of those that come before byte `to` of it. */
static inline unsigned char *end_of_row(const sd_lane *lane, uint64_t to) {
  unsigned char *end = entries_of(lane->reading) + lane->chunk_bytes;
  return (uint64_t)(end - lane->at) > to - lane->read ? lane->at + (to - lane->read) : end;
}

static inline void pass(sd_lane *lane, unsigned char *at) {
  lane->read += (uint64_t)(at - lane->at);
  lane->at = at;
}

#endif
