#include "live/mold_take.h"

#include "live/mold_deliver.h"
#include "live/mold_track.h"

#include <stdlib.h>

#define LIKELY(x) __builtin_expect(!!(x), 1)

_Static_assert((SD_MOLD_WINDOW & (SD_MOLD_WINDOW - 1)) == 0, "slots are found by masking");
_Static_assert(SD_MOLD_WINDOW > SD_MOLD_PACKET / 3, "a packet's messages fit the window");

sd_mold *sd_mold_make(const sd_mold_options *options) {
  sd_mold *m = options->first_sequence <= SD_MOLD_SEQUENCE_MAX ? calloc(1, sizeof *m) : NULL;
  if (!m) return NULL;
  m->options = *options;
  m->end_sequence = UINT64_MAX;
  m->slots = calloc(WINDOW, sizeof *m->slots);
  m->packets = calloc(SD_MOLD_HELD_PACKETS, sizeof *m->packets);
  m->free_packets = calloc(SD_MOLD_HELD_PACKETS, sizeof *m->free_packets);
  int complete = m->slots && m->packets && m->free_packets;
  for (int i = 0; i < SD_MOLD_LINES; i++) {
    m->track[i].fd = -1;
    m->track[i].seen = calloc(WINDOW / 64, sizeof(uint64_t));
    complete = complete && m->track[i].seen;
  }
  if (!complete) {
    sd_mold_unmake(m);
    return NULL;
  }
  /* The lowest indices are taken first, so that only as much memory is touched as was ever needed. */
  for (uint32_t i = 0; i < SD_MOLD_HELD_PACKETS; i++) m->free_packets[i] = SD_MOLD_HELD_PACKETS - 1 - i;
  m->free_count = SD_MOLD_HELD_PACKETS;
  return m;
}

void sd_mold_unmake(sd_mold *m) {
  for (int i = 0; i < SD_MOLD_LINES; i++) {
    free(m->track[i].seen);
    sd_ranges_free(&m->track[i].gaps);
  }
  sd_ranges_free(&m->gaps);
  free(m->slots);
  free(m->packets);
  free(m->free_packets);
  free(m);
}

/* ---- packets in */

static void start(sd_mold *m, const sd_mold_header *h) {
  uint64_t first = m->options.first_sequence ? m->options.first_sequence : h->sequence;
  memcpy(m->counts.session, h->session, SD_MOLD_SESSION);
  m->counts.first_sequence = first;
  m->counts.started = 1;
  m->counts.next_sequence = m->counts.high = m->gap_to = first;
  for (int i = 0; i < SD_MOLD_LINES; i++) m->track[i].floor = m->track[i].high = first;
}

/* Nonzero: the packet is of the session that is followed, or may be the first one that is heard. */
static int session_is(sd_mold *m, int line, const sd_mold_header *h) {
  sd_mold_counts *c = &m->counts;
  if (LIKELY(c->started)) {
    if (LIKELY(memcmp(c->session, h->session, SD_MOLD_SESSION) == 0)) return 1;
    c->line[line].other_session++;
    /* A retransmission says nothing about what is sent now. And if a session was asked for, no other is wanted. */
    if (line != SD_MOLD_REPLIES && m->options.any_session && !c->ended) {
      c->session_changed = memcmp(c->new_session, h->session, SD_MOLD_SESSION) == 0;
      memcpy(c->new_session, h->session, SD_MOLD_SESSION);
    }
    return 0;
  }
  if (line == SD_MOLD_REPLIES ||
      (!m->options.any_session && memcmp(m->options.session, h->session, SD_MOLD_SESSION) != 0)) {
    c->line[line].other_session++;
    return 0;
  }
  return 1;
}

/* Counts messages before the next one. */
static void count_known(const sd_mold *m, sd_mold_line *line, uint64_t from, uint64_t to) {
  if (from < m->counts.first_sequence) {
    uint64_t wanted = m->counts.first_sequence < to ? m->counts.first_sequence : to;
    line->unwanted += wanted - from;
    from = wanted;
  }
  uint64_t late =
      m->gaps.count > 0 && m->gaps.at[m->gaps.count - 1].to > from ? sd_ranges_overlap(&m->gaps, from, to) : 0;
  line->late += late;
  line->duplicates += to - from - late;
}

/* Puts the messages of a packet that are neither delivered nor waiting into the window. */
static void hold(sd_mold *m, sd_mold_line *line, const sd_mold_header *h, const uint8_t *bytes, uint64_t len,
                 uint64_t ts_recv, uint64_t now_ns) {
  uint64_t next = m->counts.next_sequence;
  uint32_t index = m->free_packets[m->free_count - 1];
  mold_packet *packet = &m->packets[index];
  uint32_t users = 0;
  uint64_t at = SD_MOLD_HEADER;
  for (uint64_t s = h->sequence; s < h->sequence + h->count; s++) {
    mold_slot *slot = mold_slot_of(m, s);
    if (s < next) {
      count_known(m, line, s, s + 1);
    } else if (mold_is_held(m, s)) {
      line->duplicates++;
    } else {
      *slot = (mold_slot){s, index, (uint16_t)at, SLOT_HELD};
      users++;
      if (s < m->gap_to) m->gap_to = s; /* the gap ends sooner, and keeps its age */
    }
    at += 2 + sd_be16(bytes + at);
  }
  if (users == 0) return;
  m->free_count--;
  memcpy(packet->bytes, bytes, len);
  packet->ts_recv = ts_recv;
  packet->arrived_ns = now_ns;
  packet->users = users;
  line->first += users;
  m->counts.held += users;
  if (m->counts.held > m->counts.max_held) m->counts.max_held = m->counts.held;
}

/* Takes a packet that is believed. */
static void accept(sd_mold *m, int line_index, const sd_mold_header *header, const uint8_t *bytes, uint64_t len,
                   uint64_t ts_recv, uint64_t now_ns) {
  sd_mold_counts *c = &m->counts;
  sd_mold_line *line = &c->line[line_index];
  sd_mold_header h = *header;
  uint64_t to = h.sequence + h.count;
  if (line_index != SD_MOLD_REPLIES) mold_track_saw(&m->track[line_index], h.sequence, to);
  if (h.count == 0) {
    line->heartbeats += !h.end;
    m->track[line_index].heard_end |= h.end;
    /* An end before the first message wanted counts too. An end before what was heard since then is an old packet. */
    if (h.end && h.sequence < m->end_sequence && (h.sequence >= c->high || c->high == m->counts.first_sequence))
      m->end_sequence = h.sequence;
    mold_heard_of(m, to, now_ns);
    sd_mold_deliver(m);
    return;
  }
  line->packets++;
  line->messages += h.count;
  if (to <= c->next_sequence) {
    count_known(m, line, h.sequence, to);
    return;
  }
  if (c->ended) {
    line->unwanted += h.count;
    return;
  }
  if (LIKELY(h.sequence == c->next_sequence && c->held == 0 && h.body_len <= m->out_bytes - m->out_used &&
             m->run_count < m->run_capacity &&
             (m->options.message_limit == 0 || h.count <= m->options.message_limit - c->delivered))) {
    mold_note_run(m, h.sequence, ts_recv);
    memcpy(m->out + m->out_used, bytes + SD_MOLD_HEADER, h.body_len);
    m->out_used += h.body_len;
    mold_note_latency(m, ts_recv, h.count);
    c->delivered += h.count;
    line->first += h.count;
    c->next_sequence = to;
    mold_heard_of(m, to, now_ns);
    sd_mold_deliver(m);
    return;
  }
  /* Do not mention its own messages yet: until they are in the window they would look like part of the gap before them. */
  mold_heard_of(m, h.sequence, now_ns);
  if (!sd_mold_reserve(m, to)) {
    line->overflowed++;
    line->unwanted += h.count;
    return;
  }
  if (c->ended) {
    line->unwanted += h.count;
    return;
  }
  hold(m, line, &h, bytes, len, ts_recv, now_ns);
  mold_heard_of(m, to, now_ns);
  sd_mold_deliver(m);
}

/* The packet set aside that this one confirms; NULL: none. A copy of a packet on its own line, which a network may make, does not confirm
 * it. */
static mold_suspect *agreeing(sd_mold *m, int line, const sd_mold_header *h) {
  for (int i = 0; i < SUSPECTS; i++) {
    mold_suspect *s = &m->suspect[i];
    uint64_t apart = h->sequence > s->to ? h->sequence - s->to : s->to - h->sequence;
    int is_copy = line == s->line && h->sequence == s->sequence && h->sequence + h->count == s->to;
    if (s->len > 0 && !is_copy && apart <= m->options.jump_window && memcmp(s->bytes, h->session, SD_MOLD_SESSION) == 0)
      return s;
  }
  return NULL;
}

static void set_aside(sd_mold *m, int line, const sd_mold_header *h, const uint8_t *bytes, uint64_t len,
                      uint64_t ts_recv, uint64_t now_ns) {
  mold_suspect *s = &m->suspect[m->suspects++ % SUSPECTS];
  if (s->len > 0 && !m->counts.started)
    m->counts.line[s->line].jumps++; /* after the start, it was counted when it came */
  s->sequence = h->sequence;
  s->to = h->sequence + h->count;
  s->ts_recv = ts_recv;
  s->arrived_ns = now_ns;
  s->len = len;
  s->line = line;
  memcpy(s->bytes, bytes, len);
}

/* Begins with a packet that was set aside: the other one was not of the session. */
static void start_with(sd_mold *m, const mold_suspect *s, const sd_mold_header *h) {
  for (int i = 0; i < SUSPECTS; i++)
    if (&m->suspect[i] != s && m->suspect[i].len > 0) m->counts.line[m->suspect[i].line].jumps++;
  start(m, h);
}

/* Takes it, and drops the other packet set aside. */
static void take_suspect(sd_mold *m, mold_suspect *s, uint64_t now_ns) {
  sd_mold_header h;
  if (!sd_mold_parse(s->bytes, s->len, &h)) return; /* it was a packet when it came */
  if (!m->counts.started) start_with(m, s, &h);
  for (int i = 0; i < SUSPECTS; i++)
    if (&m->suspect[i] != s) m->suspect[i].len = 0;
  accept(m, s->line, &h, s->bytes, s->len, s->ts_recv, now_ns);
  s->len = 0;
}

/* Sets aside a packet that is the first one, or too far beyond what was heard. */
static void doubt(sd_mold *m, int line, const sd_mold_header *h, const uint8_t *bytes, uint64_t len, uint64_t ts_recv,
                  uint64_t now_ns) {
  sd_mold_counts *c = &m->counts;
  mold_suspect *s = line != SD_MOLD_REPLIES ? agreeing(m, line, h) : NULL;
  if (s) {
    c->jumps_believed += c->started;
    /* Take the earlier one first: as the second it would be late, because what lies before a jump is given up. */
    int earlier = h->sequence < s->sequence;
    if (earlier) {
      if (!c->started) start_with(m, s, h);
      accept(m, line, h, bytes, len, ts_recv, now_ns);
    }
    take_suspect(m, s, now_ns);
    if (!earlier) accept(m, line, h, bytes, len, ts_recv, now_ns);
    return;
  }
  c->line[line].jumps += c->started;
  /* An answer that nobody asked for is ignored. */
  if (line != SD_MOLD_REPLIES) set_aside(m, line, h, bytes, len, ts_recv, now_ns);
}

void sd_mold_take(sd_mold *m, int line_index, const uint8_t *bytes, uint64_t len, uint64_t ts_recv, uint64_t now_ns) {
  sd_mold_counts *c = &m->counts;
  sd_mold_header h;
  if (!sd_mold_parse(bytes, len, &h)) {
    c->line[line_index].malformed++;
    return;
  }
  if (!session_is(m, line_index, &h)) return;
  if (!c->started && m->options.first_sequence) start(m, &h);
  if (LIKELY(c->started && (h.sequence <= c->high || h.sequence - c->high <= m->options.jump_window)))
    accept(m, line_index, &h, bytes, len, ts_recv, now_ns);
  else doubt(m, line_index, &h, bytes, len, ts_recv, now_ns);
}

void sd_mold_tick(sd_mold *m, uint64_t now_ns) {
  mold_suspect *first = m->counts.started ? NULL : mold_first_suspect(m);
  if (first && now_ns >= first->arrived_ns && now_ns - first->arrived_ns >= m->options.gap_timeout_ns)
    take_suspect(m, first, now_ns);
  sd_mold_deliver(m);
  while (m->gap_to > m->counts.next_sequence && now_ns - m->gap_since_ns >= m->options.gap_timeout_ns &&
         now_ns >= m->gap_since_ns && !m->counts.ended)
    sd_mold_give_up(m);
}

int sd_mold_finish(sd_mold *m) {
  mold_suspect *first = m->counts.started ? NULL : mold_first_suspect(m);
  if (first) take_suspect(m, first, first->arrived_ns);
  if (!m->counts.started) return SD_OK;
  /* If the end is known, a line must have come to it. Otherwise nobody can say what the line may still bring. */
  for (int i = 0; i < SD_MOLD_REPLIES; i++) {
    mold_track *t = &m->track[i];
    if (t->fd >= 0 || m->counts.line[i].packets > 0)
      mold_track_decide(t, m->end_sequence != UINT64_MAX ? m->end_sequence : t->high);
  }
  sd_mold_deliver(m);
  while (m->counts.next_sequence < m->counts.high && !mold_limit_reached(m) && !m->counts.stopped_at_gap) {
    sd_mold_find_gap(m);
    if (m->gap_to <= m->counts.next_sequence) return SD_AGAIN;
    sd_mold_give_up(m);
  }
  return SD_OK;
}
