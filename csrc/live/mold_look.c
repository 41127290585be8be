#include "live/mold_look.h"

/* ---- what is missing now */

uint64_t sd_mold_deadline(const sd_mold *m) {
  const mold_suspect *first = m->counts.started ? NULL : mold_first_suspect(m);
  if (first) return first->arrived_ns + m->options.gap_timeout_ns;
  if (m->counts.ended || m->gap_to <= m->counts.next_sequence) return UINT64_MAX;
  return m->gap_since_ns + m->options.gap_timeout_ns;
}

sd_range sd_mold_hole_at(const sd_mold *m, uint64_t from) {
  sd_range hole = {from, from};
  if (m->counts.ended || from < m->counts.next_sequence) return hole;
  uint64_t end = mold_window_end(m);
  while (hole.to < end && !mold_is_held(m, hole.to)) hole.to++;
  return hole;
}

uint64_t sd_mold_holes(sd_mold *m, uint64_t now_ns, sd_range *holes, uint64_t capacity) {
  uint64_t found = 0;
  uint64_t from = m->counts.next_sequence;
  uint64_t end = mold_window_end(m);
  if (m->counts.ended || m->gap_to <= from) return 0;
  for (uint64_t s = from; s < end && found < capacity;) {
    if (mold_is_held(m, s)) {
      s++;
      continue;
    }
    sd_range hole = sd_mold_hole_at(m, s);
    s = hole.to;
    uint64_t since = s < end ? m->packets[mold_slot_of(m, s)->packet].arrived_ns : m->high_since_ns;
    if (now_ns >= since + m->options.request_after_ns) holes[found++] = hole;
  }
  return found;
}

/* ---- what was delivered */

uint64_t sd_mold_out_bytes(const sd_mold *m) { return m->out_used; }
uint64_t sd_mold_out_runs(const sd_mold *m) { return m->run_count; }

int sd_mold_has_space(const sd_mold *m) {
  return m->out_bytes - m->out_used >= SD_MOLD_PACKET && m->run_count < m->run_capacity;
}

const sd_range *sd_mold_gaps(const sd_mold *m, int line, uint64_t *count) {
  const sd_ranges *gaps = line < 0 ? &m->gaps : &m->track[line].gaps;
  *count = gaps->count;
  return gaps->at;
}

const sd_mold_counts *sd_mold_look(sd_mold *m) {
  sd_mold_counts *c = &m->counts;
  c->gap_count = m->gaps.count + m->gaps.unlisted;
  c->gap_messages = m->gaps.messages;
  c->gaps_unlisted = m->gaps.unlisted;
  for (int i = 0; i < SD_MOLD_REPLIES; i++) {
    const sd_ranges *gaps = &m->track[i].gaps;
    c->line[i].gap_count = gaps->count + gaps->unlisted;
    c->line[i].gap_messages = gaps->messages;
    c->line[i].gaps_unlisted = gaps->unlisted;
  }
  return c;
}

void sd_mold_stamp(sd_tick *ticks, uint64_t count, const sd_mold_run *runs, uint64_t run_count, uint64_t shift) {
  uint64_t r = 0;
  for (uint64_t i = 0; i < count; i++) {
    uint64_t position = (uint64_t)sd_sequence(&ticks[i]) + shift;
    while (r + 1 < run_count && runs[r + 1].position <= position) r++;
    if (run_count == 0 || runs[r].position > position) continue;
    ticks[i].ts_recv = runs[r].ts_recv;
    sd_set_sequence(&ticks[i], runs[r].sequence + (position - runs[r].position));
  }
}
