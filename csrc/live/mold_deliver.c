#include "live/mold_deliver.h"

static void release(sd_mold *m, mold_slot *slot) {
  mold_packet *packet = &m->packets[slot->packet];
  slot->state = SLOT_FREE;
  m->counts.held--;
  if (--packet->users == 0) m->free_packets[m->free_count++] = slot->packet;
}

/* Delivers the messages that wait, from the next one on, while there is space. */
static void deliver_held(sd_mold *m) {
  uint32_t last_packet = UINT32_MAX;
  while (m->counts.held > 0 && mold_is_held(m, m->counts.next_sequence) && !mold_limit_reached(m)) {
    mold_slot *slot = mold_slot_of(m, m->counts.next_sequence);
    const mold_packet *packet = &m->packets[slot->packet];
    uint64_t bytes = 2 + sd_be16(packet->bytes + slot->at);
    if (bytes > m->out_bytes - m->out_used) break;
    if (slot->packet != last_packet) {
      if (m->run_count == m->run_capacity) break;
      mold_note_run(m, m->counts.next_sequence, packet->ts_recv);
      last_packet = slot->packet;
    }
    memcpy(m->out + m->out_used, packet->bytes + slot->at, bytes);
    mold_note_latency(m, packet->ts_recv, 1);
    m->out_used += bytes;
    m->counts.delivered++;
    m->counts.next_sequence++;
    release(m, slot);
  }
  if (m->gap_to < m->counts.next_sequence) m->gap_to = m->counts.next_sequence;
}

void sd_mold_find_gap(sd_mold *m) {
  uint64_t next = m->counts.next_sequence;
  uint64_t end = mold_window_end(m);
  m->gap_to = next;
  if (next >= m->counts.high || mold_is_held(m, next)) return;
  if (m->counts.held > 0) {
    for (uint64_t s = next + 1; s < end; s++) {
      if (!mold_is_held(m, s)) continue;
      m->gap_to = s;
      m->gap_since_ns = m->packets[mold_slot_of(m, s)->packet].arrived_ns;
      return;
    }
  }
  m->gap_to = m->counts.high;
  m->gap_since_ns = m->high_since_ns;
}

void sd_mold_deliver(sd_mold *m) {
  if (m->counts.stopped_at_gap) return;
  deliver_held(m);
  if (m->gap_to <= m->counts.next_sequence) sd_mold_find_gap(m);
  if (m->counts.next_sequence >= m->end_sequence || mold_limit_reached(m)) m->counts.ended = 1;
}

void sd_mold_give_up(sd_mold *m) {
  uint64_t from = m->counts.next_sequence;
  uint64_t to = m->gap_to;
  sd_ranges_add(&m->gaps, from, to);
  m->counts.next_sequence = to;
  if (m->options.stop_at_gap) m->counts.stopped_at_gap = m->counts.ended = 1;
  sd_mold_deliver(m);
}

int sd_mold_reserve(sd_mold *m, uint64_t to) {
  while (!m->counts.ended && (m->free_count == 0 || to > m->counts.next_sequence + WINDOW)) {
    uint64_t before = m->counts.next_sequence;
    deliver_held(m);
    sd_mold_find_gap(m);
    if (m->counts.next_sequence != before) continue;
    if (m->gap_to <= before) return 0;
    m->counts.forced++;
    sd_mold_give_up(m);
  }
  return 1;
}

void sd_mold_output(sd_mold *m, uint8_t *out, uint64_t out_bytes, sd_mold_run *runs, uint64_t run_capacity,
                    uint64_t realtime_ns) {
  m->out = out;
  m->out_bytes = out_bytes;
  m->out_used = 0;
  m->runs = runs;
  m->run_capacity = run_capacity;
  m->run_count = 0;
  m->realtime_ns = realtime_ns;
  if (m->counts.started) sd_mold_deliver(m);
}
