/* The decoder has two ways through a frame.
 *
 * The eight types that are nearly all of a day (A D U E X F C P) differ only in where a field lies and whether it is
 * there. A table says so (layout.h), and the loop reads every field at the table's offset and masks out what the
 * type lacks: no branch depends on the type, so the unpredictable order of types costs nothing. It reads up to
 * HOT_BYTES from the frame's start whatever the type, so it runs only while that much is left in the buffer.
 *
 * All else (rare types, faults, the buffer's last bytes) goes through take_any(), one frame a call, which reads only
 * what is there: the tail is copied into a padded block and decoded by the same code.
 *
 * With a selection, skim.c and take_selected() stand in for the loop: they check what the loop checks, so that
 * faults are the same, and make no tick of what is not wanted.
 */
#include "codec/itch/itch.h"

#include "codec/itch/layout.h"
#include "codec/itch/rare.h"
#include "codec/itch/skim.h"
#include "codec/itch/sync.h"

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

_Static_assert(HOT_BYTES >= 50 + PREFIX_BYTES, "the longest message fits the padded block");

/* After skimming stops, the plain loop runs for so many bytes before skimming is tried again. */
enum { PLAIN_BYTES = 16384 };

/* What became of a frame. */
typedef enum way {
  TAKEN,     /* passed and counted */
  NEED_MORE, /* it is not complete */
  ASK,       /* its locate is undecided */
  LOST,      /* skipped; the next frame has to be searched for */
  FAULT      /* itch->fault_* say why */
} way;

static way fail(sd_itch *itch, uint32_t fault, uint32_t length, uint8_t type, uint8_t value) {
  itch->fault = fault;
  itch->fault_offset = itch->offset;
  itch->fault_length = (uint16_t)length;
  itch->fault_type = type;
  itch->fault_value = value;
  return FAULT;
}

static void note_skip(sd_itch *itch, uint32_t fault, uint32_t length, uint8_t type, uint8_t value) {
  itch->skips[fault]++;
  if (itch->sampled == SD_ITCH_SAMPLES) return;
  itch->samples[itch->sampled++] = (sd_itch_sample){
      .offset = itch->offset, .length = (uint16_t)length, .fault = (uint8_t)fault, .type = type, .value = value};
}

/* The frames are out of step from here on. */
static way lose_step(sd_itch *itch, uint32_t fault, uint32_t length, uint8_t type, uint8_t value, uint64_t *used) {
  if (!itch->skip) return fail(itch, fault, length, type, value);
  note_skip(itch, fault, length, type, value);
  itch->lost = 1;
  itch->skipped_bytes++;
  *used = 1;
  return LOST;
}

/* The rest of buf has no whole frame. */
static way end_of_buffer(sd_itch *itch, const uint8_t *p, uint64_t left, int last, uint64_t *used) {
  if (!last || left == 0) return NEED_MORE;
  uint32_t prefix = left < PREFIX_BYTES ? 0 : sd_load_u16(p);
  if (left == PREFIX_BYTES && itch->prefixed && prefix == 0) {
    /* In a file of true lengths, a lone zero length closes a session. If all lengths are 0, it starts a message whose rest is missing. */
    *used = PREFIX_BYTES;
    return NEED_MORE;
  }
  return lose_step(itch, SD_ITCH_FAULT_TRUNCATED, prefix, left > PREFIX_BYTES ? p[PREFIX_BYTES] : 0, 0, used);
}

/* Notes that clear records are due, for the locates that have a name now. */
static void begin_day(sd_itch *itch, const uint8_t *m) {
  itch->clear_ns = itch->midnight_ns + sd_itch_time(m);
  itch->clear_sequence = itch->messages + 1;
  itch->clear_from = 1;
}

static int in_span(const sd_itch *itch, uint64_t ts) { return ts - itch->start_ns < itch->span_ns; }

/* Makes these records, up to the capacity, or to a locate that is undecided. */
static __attribute__((noinline, cold)) sd_tick *make_clears(sd_itch *itch, sd_tick *tick, const sd_tick *full) {
  uint32_t locate = itch->clear_from;
  for (; locate < itch->symbol_count && tick != full; locate++) {
    if (itch->symbols[locate][0] == 0) continue;
    if (itch->selective && itch->wanted[locate] == SD_ITCH_UNDECIDED) {
      itch->asked = locate;
      break;
    }
    if (itch->selective && (itch->wanted[locate] != SD_ITCH_WANTED || !in_span(itch, itch->clear_ns))) {
      itch->unselected++;
      continue;
    }
    *tick = (sd_tick){.ts_event = (int64_t)itch->clear_ns,
                      .ts_recv = (int64_t)itch->clear_ns,
                      .price = SD_UNDEF_PRICE,
                      .instrument_id = locate,
                      .action = 'R',
                      .side = 'N',
                      .kind = SD_KIND_STATUS};
    sd_set_sequence(tick++, itch->clear_sequence);
  }
  itch->clear_from = locate < itch->symbol_count ? locate : 0;
  return tick;
}

/* A sound message makes a tick, or is kept in another way. Returns a fault. */
static uint32_t take_message(sd_itch *itch, const sd_itch_layout *t, const uint8_t *m, sd_tick *tick, uint64_t *made,
                             uint8_t *value) {
  switch (m[0]) {
  case 'R':
    return sd_itch_name_locate(itch, m, value);
  case 'S':
    if (m[11] == 'O' && itch->symbol_names && itch->messages - itch->clear_sequence >= itch->symbol_names)
      begin_day(itch, m);
    /* fall through */
  case 'V':
  case 'W':
    sd_itch_keep_market_event(itch, m, t->length);
    return SD_ITCH_FAULT_NONE;
  default:
    break;
  }
  if (!t->hot) {
    *value = m[11];
    if (sd_itch_size_beyond(m)) return SD_ITCH_FAULT_SIZE;
    *made = (uint64_t)sd_itch_decode_rare(itch->midnight_ns, itch->messages + 1, m, tick);
    return SD_ITCH_FAULT_NONE;
  }
  *value = m[t->side_at];
  *made = sd_itch_decode_hot(t, m, itch->midnight_ns, itch->messages + 1, tick) != 0;
  return *made ? SD_ITCH_FAULT_NONE : SD_ITCH_FAULT_SIDE;
}

/* Takes one frame of any kind, and reads only p[0 .. left). It passes *used bytes and writes *made ticks (0 or 1). */
static __attribute__((noinline, cold)) way take_any(sd_itch *itch, const uint8_t *p, uint64_t left, int last,
                                                    sd_tick *tick, uint64_t *used, uint64_t *made) {
  uint8_t padded[HOT_BYTES] = {0};
  *used = *made = 0;
  if (left <= PREFIX_BYTES) return end_of_buffer(itch, p, left, last, used);
  uint32_t prefix = sd_load_u16(p);
  uint8_t type = p[PREFIX_BYTES];
  const sd_itch_layout *t = &sd_itch_layouts[type];
  if (prefix > SD_ITCH_MAX_MESSAGE || (t->length != 0 && prefix != 0 && prefix != t->length))
    return lose_step(itch, SD_ITCH_FAULT_LENGTH, prefix, type, 0, used);
  if (t->length == 0 && (prefix == 0 || !itch->skip))
    return lose_step(itch, SD_ITCH_FAULT_UNKNOWN_TYPE, prefix, type, type, used);

  uint64_t length = t->length != 0 ? t->length : prefix;
  if (left < PREFIX_BYTES + length) return end_of_buffer(itch, p, left, last, used);
  if (t->length == 0) {
    note_skip(itch, SD_ITCH_FAULT_UNKNOWN_TYPE, prefix, type, type);
    itch->skipped_unknown_type++;
    itch->prefixed = 1;
    *used = PREFIX_BYTES + length;
    return TAKEN;
  }
  memcpy(padded, p + PREFIX_BYTES, length);
  uint32_t locate = sd_load_u16(padded + 1);
  uint32_t alarm = itch->selective ? itch->wanted[locate] : SD_ITCH_WANTED;
  /* R names a locate, so it never has to wait for a decision on one. */
  if (alarm == SD_ITCH_UNDECIDED && type != 'R') {
    itch->asked = locate;
    return ASK;
  }

  uint8_t value = 0;
  uint32_t fault = take_message(itch, t, padded, tick, made, &value);
  if (fault != SD_ITCH_FAULT_NONE && !itch->skip) return fail(itch, fault, prefix, type, value);
  itch->prefixed |= prefix != 0;
  *used = PREFIX_BYTES + length;
  if (fault != SD_ITCH_FAULT_NONE) {
    note_skip(itch, fault, prefix, type, value);
    itch->skipped_bad_field++;
    return TAKEN;
  }
  itch->counts[type]++;
  if (*made && itch->selective && (alarm == SD_ITCH_UNWANTED || !in_span(itch, (uint64_t)tick->ts_recv))) {
    itch->unselected++;
    *made = 0;
  }
  return TAKEN;
}

/* Searches for the next sound frame in p[0 .. left). Returns how many bytes it skipped. */
static __attribute__((noinline, cold)) uint64_t search(sd_itch *itch, const uint8_t *p, uint64_t left, int last) {
  int found;
  uint64_t passed = sd_itch_find_sync(itch, p, left, last, &found);
  itch->skipped_bytes += passed;
  itch->lost = !found;
  return passed;
}

/* Takes frames of hot types while HOT_BYTES are left in the buffer. Stops before the first frame that it cannot take. */
static const uint8_t *take_hot(sd_itch *itch, const uint8_t *p, const uint8_t *end, sd_tick **next,
                               const sd_tick *full) {
  const uint8_t *start = p;
  sd_tick *tick = *next;
  uint64_t midnight_ns = itch->midnight_ns;
  uint64_t sequence = itch->messages;
  uint32_t prefixes = 0;
  while (tick != full && LIKELY(end - p >= HOT_BYTES)) {
    uint32_t prefix = sd_load_u16(p);
    const uint8_t *m = p + PREFIX_BYTES;
    const sd_itch_layout *t = &sd_itch_layouts[m[0]];
    if (UNLIKELY(!t->hot || (prefix != t->length && prefix != 0))) break;
    if (UNLIKELY(sd_itch_decode_hot(t, m, midnight_ns, sequence + 1, tick) == 0)) break;
    itch->counts[m[0]]++;
    prefixes |= prefix;
    sequence++;
    tick++;
    p += PREFIX_BYTES + t->length;
  }
  itch->prefixed |= prefixes != 0;
  itch->messages = sequence;
  itch->offset += (uint64_t)(p - start);
  *next = tick;
  return p;
}

/* take_hot() with a selection, up to the first frame that begins at or after `stop`. */
static const uint8_t *take_selected(sd_itch *itch, const uint8_t *p, const uint8_t *stop, const uint8_t *end,
                                    sd_tick **next, const sd_tick *full) {
  const uint8_t *start = p;
  const uint8_t *wanted = itch->wanted;
  sd_tick *tick = *next;
  uint64_t sequence = itch->messages;
  uint64_t unselected = 0;
  uint32_t prefixes = 0;
  while (tick != full && p < stop && LIKELY(end - p >= HOT_BYTES)) {
    uint32_t prefix = sd_load_u16(p);
    const uint8_t *m = p + PREFIX_BYTES;
    const sd_itch_layout *t = &sd_itch_layouts[m[0]];
    if (UNLIKELY(!t->hot || (prefix != t->length && prefix != 0))) break;
    if (UNLIKELY(((sd_itch_sides[m[t->side_at]] & t->side_mask) | t->side_none) == 0)) break;
    uint32_t alarm = wanted[sd_load_u16(m + 1)];
    if (UNLIKELY(alarm != SD_ITCH_UNWANTED)) {
      if (alarm == SD_ITCH_UNDECIDED) break;
      sd_itch_decode_hot(t, m, itch->midnight_ns, sequence + 1, tick);
      int inside = in_span(itch, (uint64_t)tick->ts_recv);
      tick += inside;
      unselected += !inside;
    } else {
      unselected++;
    }
    itch->counts[m[0]]++;
    prefixes |= prefix;
    sequence++;
    p += PREFIX_BYTES + t->length;
  }
  itch->prefixed |= prefixes != 0;
  itch->messages = sequence;
  itch->unselected += unselected;
  itch->offset += (uint64_t)(p - start);
  *next = tick;
  return p;
}

sd_decoded sd_itch_decode(void *self, const uint8_t *at, uint64_t left, int last, sd_tick *out, uint64_t capacity) {
  sd_itch *itch = self;
  const uint8_t *p = at;
  const uint8_t *end = at + left;
  sd_tick *tick = out;
  const sd_tick *full = out + capacity;
  way taken = TAKEN;
  itch->fault = SD_ITCH_FAULT_NONE;
  while (tick != full && (taken == TAKEN || taken == LOST)) {
    uint64_t used;
    uint64_t made;
    if (UNLIKELY(itch->clear_from)) {
      tick = make_clears(itch, tick, full);
      if (itch->clear_from && tick != full) taken = ASK;
      continue;
    }
    if (UNLIKELY(itch->lost)) {
      used = search(itch, p, (uint64_t)(end - p), last);
      p += used;
      itch->offset += used;
      if (itch->lost) break;
    }
    if (itch->selective) {
      if (itch->prefixed) p = sd_itch_skim(itch, p, end, &tick, full);
      const uint8_t *stop = end - p > PLAIN_BYTES ? p + PLAIN_BYTES : end;
      p = take_selected(itch, p, stop, end, &tick, full);
      if (p >= stop && p != end) continue;
    } else {
      p = take_hot(itch, p, end, &tick, full);
    }
    if (tick == full) break;
    taken = take_any(itch, p, (uint64_t)(end - p), last, tick, &used, &made);
    itch->messages += taken == TAKEN || taken == LOST;
    p += used;
    itch->offset += used;
    tick += made;
  }
  sd_decoded did = {.made = (uint64_t)(tick - out), .consumed = (uint64_t)(p - at), .sampled = itch->sampled};
  itch->ticks += did.made;
  if (taken == FAULT) did.code = itch->fault == SD_ITCH_FAULT_TRUNCATED ? SD_E_TRUNCATED : SD_E_FORMAT;
  if (taken == ASK) did.code = SD_AGAIN;
  return did;
}

void sd_itch_init(sd_itch *itch, uint64_t midnight_ns, uint32_t skip) {
  memset(itch, 0, offsetof(sd_itch, symbols));
  itch->midnight_ns = midnight_ns;
  itch->skip = skip;
  itch->span_ns = UINT64_MAX;
}

uint32_t sd_itch_length(uint8_t type) { return sd_itch_layouts[type].length; }
