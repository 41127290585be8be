/* Delivers in order: the messages that wait, up to the first gap. And gives gaps up. */
#pragma once

#include "live/mold_state.h"
#include "memory/counters.h"

_Static_assert((int)SD_MOLD_LATENCY_BUCKETS == (int)SD_BUCKETS, "the same buckets as the engine's histograms");

/* cffi: begin */
/* Where to deliver until the next call: bytes of frames, and runs. What did not fit before goes first. */
void sd_mold_output(sd_mold *m, uint8_t *out, uint64_t out_bytes, sd_mold_run *runs, uint64_t run_capacity,
                    uint64_t realtime_ns);
/* cffi: end */

/* Delivers the waiting messages, from the next one on, while there is space, and finds the gap before the rest. */
void sd_mold_deliver(sd_mold *m);
/* Finds where the head gap ends. The message that waits right behind it says since when it has been a gap. */
void sd_mold_find_gap(sd_mold *m);
/* Lists the head gap, and continues behind it. */
void sd_mold_give_up(sd_mold *m);
/* Makes space for `to` in the window, and for one packet more. 0: impossible while the output is full. */
int sd_mold_reserve(sd_mold *m, uint64_t to);

static inline int mold_limit_reached(const sd_mold *m) {
  return m->options.message_limit != 0 && m->counts.delivered >= m->options.message_limit;
}

static inline void mold_note_run(sd_mold *m, uint64_t sequence, uint64_t ts_recv) {
  m->runs[m->run_count++] = (sd_mold_run){m->counts.delivered + 1, sequence, ts_recv};
}

static inline void mold_note_latency(sd_mold *m, uint64_t ts_recv, uint64_t messages) {
  uint64_t age = m->realtime_ns > ts_recv ? m->realtime_ns - ts_recv : 0;
  m->counts.latency[sd_bucket_of(age)] += messages;
}

/* Notes that there are messages before `high`. */
static inline void mold_heard_of(sd_mold *m, uint64_t high, uint64_t now_ns) {
  if (high <= m->counts.high) return;
  if (m->gap_to == m->counts.high && m->gap_to > m->counts.next_sequence && m->counts.held == 0) {
    m->gap_to = high; /* no message came, only an announcement: the gap grows and keeps its age */
  }
  m->counts.high = high;
  m->high_since_ns = now_ns;
}
