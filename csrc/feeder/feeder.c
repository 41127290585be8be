#include "feeder/feeder.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "emit/writer.h"
#include "sd_error.h"

enum {
  IN_TURN = 1 << 18,
  MANY_ODD = 8 /* parts in a row that were nothing for blocks: then they are given up for a while */
};

/* Publishes the batch, and counts it once all of it has been accepted. */
static int publish(sd_feeder *f, sd_dispatcher *d, uint32_t participant, uint64_t slice_ns) {
  const uint64_t start = sd_now();
  const int code = f->open ? sd_publish_more(d, participant, slice_ns)
                           : sd_publish_own(d, participant, f->batch, (int64_t)f->held, slice_ns);
  f->open = code == SD_AGAIN;
  if (code == SD_OK) {
    const uint64_t time = (uint64_t)f->batch[f->held - 1].ts_recv;
    sd_count_by_symbol(f->batch, f->held, f->counts, f->n_counts, f->seen);
    if (time > f->feed_time) f->feed_time = time;
    f->published += f->held;
    f->held = 0;
  }
  f->publishing += sd_now() - start;
  return code;
}

/* Decodes until the batch has `wanted` ticks. Leaves out the ticks of the last record that go beyond the limit. */
static void fill(sd_feeder *f, uint64_t wanted) {
  const uint64_t capacity = wanted - f->held + f->max_per_record - 1, left = f->limit - f->published;
  f->decoded = f->decode(f->decoder, f->at, f->left, f->last, f->batch + f->held, capacity);
  f->at += f->decoded.consumed;
  f->left -= f->decoded.consumed;
  f->in_turn = f->in_turn > f->decoded.consumed ? f->in_turn - f->decoded.consumed : 0;
  f->held += f->decoded.made;
  f->dry = f->held < wanted;
  if (f->held > left) f->held = left;
}

/* Notes what the last ticks cost, reading them included, `in_blocks` or not, and whether the next ones are to go in blocks. */
static void learn(sd_feeder *f, const sd_dispatcher *d, uint64_t published, int in_blocks, int possible) {
  const uint64_t now = sd_now();
  if (f->ended && f->open_blocks && (in_blocks || !f->choice.blocks))
    sd_choice_learn(&f->choice, d, now - f->ended, published, possible);
  f->ended = now;
  f->in_blocks = f->open_blocks && d->blocks && !f->in_turn && sd_choice_blocks(&f->choice, d);
}

static int step(sd_feeder *f, sd_dispatcher *d, uint32_t participant, int flush, uint64_t slice_ns) {
  const uint64_t start = sd_now(), slice = sd_clock_counts(slice_ns);
  for (;;) {
    const uint64_t left = f->limit - f->published, wanted = left < f->capacity ? left : f->capacity;
    if (f->open || (f->held && (f->held >= wanted || flush))) {
      const int code = publish(f, d, participant, slice_ns);
      if (code) return code;
      continue;
    }
    if (wanted == 0 || flush || f->dry || f->decoded.code != SD_OK || f->decoded.sampled) return SD_OK;
    if (sd_now() - start > slice) return SD_AGAIN;
    fill(f, wanted);
  }
}

static int publish_over(sd_feeder *f, int code);

/* Goes on with what blocks kept back. */
static int publish_rest(sd_feeder *f, sd_dispatcher *d, uint32_t participant, uint64_t slice_ns) {
  const uint64_t start = sd_now();
  const int code = f->n_over ? publish_over(f, sd_publish_more(d, participant, slice_ns)) : SD_OK;
  f->publishing += sd_now() - start;
  return code;
}

int sd_feeder_step(sd_feeder *f, sd_dispatcher *d, uint32_t participant, int flush, uint64_t slice_ns) {
  int code = publish_rest(f, d, participant, slice_ns);
  if (code) return code;
  const uint64_t before = f->published;
  if (!f->ended) learn(f, d, 0, 0, 1);
  /* Blocks begin where the decoder stands, if the user wants them. */
  if (f->in_blocks && !flush && !f->open) return SD_OK;
  code = step(f, d, participant, flush, slice_ns);
  learn(f, d, f->published - before, 0, 1);
  return code;
}

/* ---- in blocks */

/* Adds ticks to what was seen, or takes them out of it, but for the order of their times. */
static void see(sd_seen *seen, const sd_tick *ticks, uint64_t n, int64_t times, int64_t *counts, uint64_t n_counts) {
  sd_seen these = {.latest = INT64_MIN};
  sd_count_by_symbol(ticks, n, counts, n_counts, &these);
  seen->ticks += times * these.ticks;
  seen->orders += times * these.orders;
  seen->trades += times * these.trades;
  seen->quotes += times * these.quotes;
  seen->zero_sizes += times * these.zero_sizes;
}

/* Notes by `code` how far publishing what blocks kept back has come. */
static int publish_over(sd_feeder *f, int code) {
  f->open = code == SD_AGAIN;
  if (code) return code;
  see(f->seen, f->over, f->n_over, 1, f->counts, f->n_counts);
  f->published += f->n_over;
  f->n_over = 0;
  return SD_OK;
}

int sd_feeder_in_blocks(sd_feeder *f, sd_dispatcher *d, uint32_t participant, uint64_t slice_ns) {
  int code = publish_rest(f, d, participant, slice_ns);
  if (!code && (f->open || f->held)) code = step(f, d, participant, 1, slice_ns);
  if (code) return code;
  f->ended = sd_now();
  sd_files_part files = {.files = f->files,
                         .all = {.decoder = f->decoder,
                                 .fd = f->fd,
                                 .base = f->base,
                                 .n_counts = f->n_counts,
                                 .limit = sd_choice_most(&f->choice, d, f->limit - f->published),
                                 .until = f->until,
                                 .seen = f->seen,
                                 .numbered = d->config.sizes.has_positions != 0}};
  sd_file_part *part = &files.all;
  sd_block_source source;
  sd_blocks_done done = {0};
  const int open = f->files ? sd_open_files(&files, &source) : f->open_blocks(part, &source);
  source.counts = f->counts; /* they are as many as part->n_counts */
  void *self = f->files ? (void *)&files : part;
  code = open ? sd_publish_blocks(d, participant, &source, self, slice_ns, &done) : SD_AGAIN;
  f->published += done.records;
  if (f->seen->latest > (int64_t)f->feed_time) f->feed_time = (uint64_t)f->seen->latest;
  if (done.n_held) {
    f->over = (const sd_tick *)(const void *)done.held;
    f->n_over = done.n_held;
    see(f->seen, f->over, f->n_over, -1, NULL, 0);
    code = publish_over(f, code);
  }
  f->publishing += sd_now() - f->ended;
  if (code == SD_AGAIN && !done.n_held && sd_outputs_full(d)) return SD_AGAIN;
  if (!part->blocks) f->in_turn = IN_TURN;
  f->odd = part->blocks ? 0 : f->odd + 1;
  learn(f, d, part->ticks, 1, (done.n_held || code == SD_OK) && f->odd < MANY_ODD);
  return done.n_held || code == SD_E_NO_MEMORY || code == SD_E_STOPPED ? code : SD_OK;
}

void sd_feeder_pass(sd_feeder *f, const sd_dispatcher *d, uint64_t n) {
  f->published += n;
  f->in_turn = 0;
  learn(f, d, n, 0, 1);
}

uint64_t sd_feeder_publishing_ns(const sd_feeder *f) { return sd_clock_ns(f->publishing); }
