#include "codec/itch/flow.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "sd_error.h"

/* Publishes what is held, and counts it when all of it is in. */
static int publish(sd_itch_flow *f, sd_dispatcher *d, uint32_t participant, uint64_t slice_ns) {
  const uint64_t start = sd_now();
  const int code = f->open ? sd_publish_more(d, participant, slice_ns)
                           : sd_publish_own(d, participant, f->room, (int64_t)f->held, slice_ns);
  f->open = code == SD_AGAIN;
  if (code == SD_OK) {
    const uint64_t time = (uint64_t)f->room[f->held - 1].ts_recv;
    sd_tally(f->room, f->held, f->counts, f->n_counts, f->seen);
    if (time > f->feed_time) f->feed_time = time;
    f->published += f->held;
    f->held = 0;
  }
  f->publishing += sd_now() - start;
  return code;
}

/* Decodes into what room there is. */
static void fill(sd_itch_flow *f, uint64_t most) {
  sd_itch *itch = f->itch;
  const uint64_t room = most - f->held;
  f->decoded = sd_itch_decode(itch, f->at, f->left, f->last, f->room + f->held, room);
  f->at += itch->consumed;
  f->left -= itch->consumed;
  f->held += itch->made;
  f->dry = itch->made < room;
}

int sd_itch_flow_run(sd_itch_flow *f, sd_dispatcher *d, uint32_t participant, int flush, uint64_t slice_ns) {
  const uint64_t start = sd_now(), slice = sd_clock_counts(slice_ns);
  for (;;) {
    const uint64_t left = f->limit - f->published, most = left < f->capacity ? left : f->capacity;
    if (f->open || (f->held && (f->held == most || flush))) {
      const int code = publish(f, d, participant, slice_ns);
      if (code) return code;
      continue;
    }
    if (most == 0 || flush || f->dry || f->decoded != SD_OK || f->itch->sampled) return SD_OK;
    if (sd_now() - start > slice) return SD_AGAIN;
    fill(f, most);
  }
}

uint64_t sd_itch_flow_publishing_ns(const sd_itch_flow *f) { return sd_clock_ns(f->publishing); }
