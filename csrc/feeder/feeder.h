/* A file's ticks, published as they are decoded. Some thousands are published at a time, so that they are still in the second cache
 * when they are published and counted. No Python runs in between, whose own code and data would push them out. */
#ifndef SD_FEEDER_FEEDER_H
#define SD_FEEDER_FEEDER_H

#include "codec/count_by_symbol.h"
#include "codec/decoder.h"
#include "publish/publish.h"

typedef struct sd_feeder {
  /* The caller's. */
  sd_decode *decode;
  void *decoder;
  const uint8_t *at;
  uint64_t left;           /* bytes from there on, used up as they are decoded */
  int32_t last;            /* nothing follows them */
  uint32_t max_per_record; /* the most ticks that one record makes */
  sd_tick *batch;          /* at a cache line, for `capacity` ticks and those of a record that goes beyond */
  uint64_t capacity;       /* ticks after which a batch is published */
  int64_t *counts;         /* ticks published, by symbol */
  uint64_t n_counts;
  sd_seen *seen;  /* what is known of them */
  uint64_t limit; /* the most ticks to publish */
  /* The feeder's. */
  sd_decoded decoded; /* what the decoder said last; the caller clears it once it has seen to that */
  uint32_t dry;       /* the decoder needs more bytes; likewise */
  uint32_t open;      /* publishing is under way */
  uint64_t held;      /* ticks in `batch`, not published yet */
  uint64_t published;
  uint64_t feed_time;  /* the greatest ts_recv that ended a batch published */
  uint64_t publishing; /* clock counts spent on it */
} sd_feeder;

/* Decodes and publishes, and keeps what does not fill a batch for the next call unless `flush`.
 *
 * SD_OK: the decoder needs more bytes (`dry`) or something else of the caller (`decoded`: a fault, an answer, or samples to be
 * taken), or the limit is reached. SD_AGAIN: a slice of time is over, or there is no room for all ticks yet (`open`); call again
 * with the bytes that are left. Else as sd_publish. */
int sd_feeder_step(sd_feeder *f, sd_dispatcher *d, uint32_t participant, int flush, uint64_t slice_ns);

uint64_t sd_feeder_publishing_ns(const sd_feeder *f);

#endif
