/* A file's ticks, published as they are decoded: some thousands at a time, so that they are still in the second cache when they
 * are published and counted, and without a word in between with Python, whose own code and data would push them out. */
#ifndef SD_CODEC_ITCH_FLOW_H
#define SD_CODEC_ITCH_FLOW_H

#include <stdint.h>

#include "codec/count_by_symbol.h"
#include "codec/itch/itch.h"
#include "publish/publish.h"

typedef struct sd_itch_flow {
  /* The caller's. */
  sd_itch *itch; /* without a selection */
  const uint8_t *at;
  uint64_t left; /* bytes from there on, used up as they are decoded */
  int32_t last;  /* nothing follows them */
  sd_tick *room; /* for ticks on their way, at a cache line */
  uint64_t capacity;
  int64_t *counts; /* ticks published, by symbol */
  uint64_t n_counts;
  sd_seen *seen;  /* what is known of them */
  uint64_t limit; /* most ticks to publish */
  /* The flow's. */
  int32_t decoded; /* what the decoder said last */
  uint32_t dry;    /* it needs more bytes */
  uint32_t open;   /* publishing is under way */
  uint64_t held;   /* ticks in `room`, not published yet */
  uint64_t published;
  uint64_t feed_time;  /* the greatest ts_recv that ended a piece published */
  uint64_t publishing; /* clock counts spent on it */
} sd_itch_flow;

/* Decodes and publishes, and keeps what does not fill `room` for the next call unless `flush`. SD_OK: it needs more bytes (`dry`),
 * has reached its limit, or the decoder has a fault (`decoded`) or samples of what it passed over; SD_AGAIN: a slice of time is
 * over, or (`open`) there is no room yet: to be called again, with the bytes that are left; else as sd_publish. */
int sd_itch_flow_run(sd_itch_flow *f, sd_dispatcher *d, uint32_t participant, int flush, uint64_t slice_ns);

uint64_t sd_itch_flow_publishing_ns(const sd_itch_flow *f);

#endif
