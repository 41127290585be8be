#include "publish/in_blocks.h"

#include "base/clock.h"
#include "blocks/array.h"
#include "numbering/failure.h"
#include "numbering/watermark.h"
#include "sd_error.h"
#include "worker/worker.h"

#if defined(SD_MODEL_SCHEDULER)
enum { FEWEST = 2 * SD_ARRAY_BLOCK, SLICE_NS = 3000, SEEN_SLICE_NS = SLICE_NS, SETTLE_NS = 20 };
#elif defined(SD_STRESS)
enum { FEWEST = 2 * SD_ARRAY_BLOCK, SLICE_NS = 500000, SEEN_SLICE_NS = SLICE_NS, SETTLE_NS = 2000000 };
#else
enum {
  FEWEST = 4 * SD_ARRAY_BLOCK, /* records */
  SLICE_NS = 20000000,         /* how long strands are owned at a time */
  SEEN_SLICE_NS = 3000000,     /* the same, if others may look at the rows from outside */
  SETTLE_NS = 20000000         /* how long to wait for strands to become idle */
};
#endif

/* Waits until the strands that workers still have are idle, and helps. */
static void settle(sd_dispatcher *d, uint32_t participant) {
  const uint64_t start = sd_now(), most = sd_clock_counts(SETTLE_NS);
  for (int turn = 0; sd_now() - start < most && !sd_dispatcher_stopping(d); turn++) {
    if (sd_help(d, participant)) continue;
    if (!sd_in_flight(d)) return;
    if (turn % 64) sd_pause();
    else sd_yield();
  }
}

int sd_run_in_blocks(sd_dispatcher *d, uint32_t participant, const sd_block_source *source, void *self,
                     uint64_t slice_ns, sd_blocks_done *done) {
  const uint64_t most = d->arena->description && slice_ns > SEEN_SLICE_NS ? SEEN_SLICE_NS : slice_ns;
  const uint64_t slice = sd_clock_counts(most);
  const int code = sd_blocks_run(d, participant, source, self, slice, done);
  if (code != SD_AGAIN) return code;
  settle(d, participant);
  return sd_blocks_run(d, participant, source, self, slice, done);
}

int sd_publish_in_blocks(sd_dispatcher *d, uint32_t participant, sd_publisher *p) {
  const int64_t left = p->n - p->at;
  /* A feeder's own records may be what blocks kept back, in the memory where the next run puts such records. */
  if (!d->blocks || p->nested || p->own == SD_FEEDERS || p->after || left < FEWEST ||
      !sd_choice_blocks(&p->in_blocks, d))
    return 0;
  /* Blocks cost more than publishing with outputs, timers or ends. Only ingest="blocks" takes them there. */
  if (p->positions && d->config.ingest == SD_INGEST_AUTO) {
    sd_choice_learn(&p->in_blocks, d, 0, 0, 0);
    return 0;
  }
  sd_block_array array = {.records = p->records + (size_t)p->at * d->pool.record_size,
                          .n = sd_choice_most(&p->in_blocks, d, (uint64_t)left),
                          .size = (uint32_t)d->pool.record_size,
                          .key_offset = d->arena->key_offset};
  const sd_block_source source = sd_block_array_source(d, &array);
  const uint64_t start = sd_now();
  sd_blocks_done done;
  const int code = sd_run_in_blocks(d, participant, &source, &array, SLICE_NS, &done);
  sd_choice_learn(&p->in_blocks, d, sd_now() - start, array.adopted, !code && array.adopted);
  if (done.n_held) {
    /* What blocks kept back comes before the rest of the call. */
    p->after = p->records;
    p->n_after = p->n;
    p->at_after = p->at + (int64_t)array.adopted;
    for (uint64_t i = 0; i < done.n_held; i++)
      done.places[i] = (uint64_t)p->at + (done.places[i] >> 32) * SD_ARRAY_BLOCK + (uint32_t)done.places[i];
    p->held_places = done.places;
    p->given = done.positions;
    p->records = done.held;
    p->n = (int64_t)done.n_held;
    p->at = 0;
    return 1;
  }
  p->at += (int64_t)array.adopted;
  return array.adopted != 0;
}
