#include "feeder/feeder.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "sd_error.h"

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
  f->held += f->decoded.made;
  f->dry = f->held < wanted;
  if (f->held > left) f->held = left;
}

int sd_feeder_step(sd_feeder *f, sd_dispatcher *d, uint32_t participant, int flush, uint64_t slice_ns) {
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

uint64_t sd_feeder_publishing_ns(const sd_feeder *f) { return sd_clock_ns(f->publishing); }
