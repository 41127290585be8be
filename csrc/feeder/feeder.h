/* Publishes a file's ticks as they are decoded, some thousands at a time, so that they are still in the second-level cache when they are
 * published and counted. No Python runs in between, because its code and data would push them out. */
#pragma once

#include "blocks/choice.h"
#include "codec/blocks.h"
#include "codec/count_by_symbol.h"
#include "codec/decoder.h"
#include "codec/files.h"
#include "publish/publish.h"

/* cffi: begin */
typedef struct sd_feeder {
  /* written by the caller */
  sd_decode *decode;
  void *decoder;
  const uint8_t *at;
  uint64_t left;           /* bytes from there on, used up as they are decoded */
  int32_t last;            /* nothing follows them */
  uint32_t max_per_record; /* the most ticks that one record makes */
  sd_tick *batch;          /* at a cache line, for `capacity` ticks and the further ones of the record that fills it */
  uint64_t capacity;       /* ticks after which a batch is published */
  int64_t *counts;         /* ticks published, by symbol */
  uint64_t n_counts;
  sd_seen *seen;               /* what has been seen of these ticks */
  uint64_t limit;              /* the most ticks to publish */
  int64_t until;               /* blocks take ticks of times up to this one */
  sd_open_blocks *open_blocks; /* NULL: the format, or the input, has no blocks */
  int32_t fd;                  /* of the file, for them, */
  uint64_t base;               /* and its byte where the decoder's offset is 0 */
  sd_merged_files *files; /* in place of these two, those of a merge, which somebody else decodes in turn; or NULL */
  /* written by the feeder */
  sd_decoded decoded; /* what the decoder reported last; the caller clears it once it has acted on it */
  uint32_t dry;       /* the decoder needs more bytes; the caller clears it too */
  uint32_t open;      /* publishing is under way */
  uint64_t held;      /* ticks in `batch`, not published yet */
  uint64_t published;
  uint64_t feed_time;  /* the greatest ts_recv up to the end of a published batch */
  uint64_t publishing; /* clock counts spent on it */
  int32_t in_blocks;   /* the next ticks are to go in blocks: call sd_feeder_in_blocks */
  const sd_tick *over; /* ticks that blocks kept back, to be published before all others */
  uint64_t n_over;
  uint64_t
      in_turn;    /* bytes to be decoded before blocks are tried again, because there was something else than blocks */
  uint32_t odd;   /* parts in a row that were nothing for blocks */
  uint64_t ended; /* the clock at the end of the last call */
  sd_choice choice;
} sd_feeder;

/* Decodes and publishes. Keeps what does not fill a batch for the next call, unless `flush`.
 *
 * SD_OK: the caller has to give more bytes (`dry`), or to act on what the decoder reported (`decoded`: a fault, an answer, or samples to
 * be taken), or the limit is reached. SD_AGAIN: a slice of time is over, or strands have no space for all ticks yet (`open`); call again
 * with the bytes that are left. Other codes as sd_publish. */
int sd_feeder_step(sd_feeder *f, sd_dispatcher *d, uint32_t participant, int flush, uint64_t slice_ns);

/* Handles the file's ticks in blocks, from where the decoder stands, for a slice of time. All that was decoded is published before. The
 * decoder's place in the file says how far it came; the caller has to go on there, with bytes read anew.
 *
 * SD_OK: whether to go on in blocks is in `in_blocks`. SD_AGAIN: likewise, or nothing was done, as publishers wait for the merger. Other
 * codes as sd_publish. */
int sd_feeder_in_blocks(sd_feeder *f, sd_dispatcher *d, uint32_t participant, uint64_t slice_ns);

/* n ticks went in without the feeder, up to where the decoder stands: says in `in_blocks` whether to go on in blocks. */
void sd_feeder_pass(sd_feeder *f, const sd_dispatcher *d, uint64_t n);

uint64_t sd_feeder_publishing_ns(const sd_feeder *f);
/* cffi: end */
