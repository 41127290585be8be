/* A file has mostly one type of record, so a branch on the type costs nothing. The costs are looking an instrument up (a table whose last
 * entry is tried first) and writing 64 bytes per tick. MBO, the type of which files have most, has its own loop. */
#include "codec/dbn/dbn.h"

#include "codec/dbn/record.h"

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

/* ---- a stream of records */

/* Notes the fault of the record at the stream's place, or the question about it. */
static __attribute__((cold)) int stop(sd_dbn *dbn, uint8_t why, const uint8_t *p, uint64_t left, uint8_t value) {
  dbn->fault = why;
  dbn->fault_offset = dbn->offset;
  dbn->fault_length = left ? p[0] * 4u : 0;
  dbn->fault_type = left > 1 ? p[1] : 0;
  dbn->fault_value = value;
  if (why == SD_DBN_FAULT_TRUNCATED) return SD_E_TRUNCATED;
  return why >= SD_DBN_STOP_INSTRUMENT ? SD_AGAIN : SD_E_FORMAT;
}

static void note_doubt(sd_dbn *dbn, uint8_t flags) {
  dbn->doubtful_books += is_doubtful_book(flags);
  dbn->doubtful_times += is_doubtful_time(flags);
}

/* Writes the tick that ends what a symbol was before its name went over to another instrument, as a new day does. */
static __attribute__((cold)) void make_roll(sd_dbn *dbn, sd_tick *tick, uint32_t key, uint32_t from, uint32_t to,
                                            int64_t received) {
  *tick = (sd_tick){.ts_event = received,
                    .ts_recv = received,
                    .price = SD_UNDEF_PRICE,
                    .instrument_id = key,
                    .action = 'R',
                    .side = 'N',
                    .kind = SD_KIND_STATUS};
  if (dbn->rolls++ > 0) return;
  dbn->roll_time = received;
  dbn->roll_key = key;
  dbn->roll_from = from;
  dbn->roll_to = to;
}

/* Looks whether the ticks of a key come from another instrument than before, and writes the tick that says so. Returns the ticks written,
 * or SD_DBN_NO_ROOM. */
static inline int64_t follow(sd_dbn *dbn, sd_tick *tick, uint32_t key, uint32_t id, uint64_t time) {
  if (LIKELY(id == dbn->latest_id && key == dbn->latest_key)) return 0;
  const int64_t from = sd_dbn_instruments_follow(dbn->instruments, key, id, time);
  if (UNLIKELY(from == SD_DBN_NO_ROOM)) return from;
  dbn->latest_id = id;
  dbn->latest_key = key;
  if (LIKELY(from == SD_DBN_NO_ROLL)) return 0;
  make_roll(dbn, tick, key, (uint32_t)from, id, (int64_t)time);
  return 1;
}

/* Takes one record of any type. SD_OK: it passed *used bytes and wrote *made ticks. SD_AGAIN with dbn->fault clear: no whole record is
 * left. */
static int take_any(sd_dbn *dbn, const uint8_t *p, uint64_t left, int last, sd_tick *ticks, uint64_t *used,
                    uint64_t *made) {
  *used = *made = 0;
  if (left == 0) return SD_AGAIN;
  uint64_t size = p[0] * UINT64_C(4);
  if (size < SD_DBN_HEADER) return stop(dbn, SD_DBN_FAULT_OUT_OF_STEP, p, left, 0);
  if (left < size) return last ? stop(dbn, SD_DBN_FAULT_TRUNCATED, p, left, 0) : SD_AGAIN;

  uint8_t type = p[1];
  uint8_t value = 0;
  uint8_t fault = find_fault(dbn, p, &value);
  if (fault != SD_DBN_FAULT_NONE) {
    if (!dbn->skip) return stop(dbn, fault, p, left, value);
    if (dbn->skips[fault]++ == 0) dbn->first_skips[fault] = dbn->offset;
    dbn->sampled = 1;
    *used = size;
    return SD_OK;
  }
  if (makes_ticks(type)) {
    uint64_t time = index_time(p);
    uint32_t id = sd_load_le32(p + 4);
    uint32_t key = sd_dbn_instruments_find(dbn->instruments, id, time);
    if (key == SD_DBN_UNKNOWN) {
      dbn->fault_instrument = id;
      dbn->fault_time = time;
      return stop(dbn, SD_DBN_STOP_INSTRUMENT, p, left, 0);
    }
    uint64_t count = key == SD_DBN_UNWANTED ? 0 : make_ticks(dbn, ticks, p, key, dbn->records + 1);
    if (count && is_wanted_time(dbn, (uint64_t)ticks[0].ts_recv)) {
      sd_tick roll;
      const int64_t rolled = follow(dbn, &roll, key, id, time);
      if (UNLIKELY(rolled == SD_DBN_NO_ROOM)) return SD_E_NO_MEMORY;
      if (has_doubts(type, ticks)) note_doubt(dbn, ticks[0].flags);
      if (has_own_quotes(type))
        dbn->mixed_quotes += (uint64_t)sd_dbn_instruments_mix(dbn->instruments, key, ticks[0].publisher_id);
      if (UNLIKELY(rolled)) {
        roll.ts_event = roll.ts_recv = ticks[0].ts_recv; /* a bar's is its end */
        memmove(ticks + 1, ticks, count * sizeof *ticks);
        ticks[0] = roll;
        count++;
      }
      *made = count;
    } else {
      dbn->not_selected += count ? count : 1;
    }
  }
  dbn->counts[type]++;
  *used = size;
  return SD_OK;
}

/* Takes MBO records while there are any. Stops before the first record that is not a plain one. */
static const uint8_t *take_mbo(sd_dbn *dbn, const uint8_t *p, const uint8_t *end, sd_tick **next, const sd_tick *full) {
  const uint8_t *start = p;
  sd_tick *tick = *next;
  uint64_t size = MBO_BYTES + dbn->tail;
  uint64_t taken = 0;
  while (tick < full && LIKELY((uint64_t)(end - p) >= size)) {
    if (UNLIKELY(p[0] * UINT64_C(4) != size || p[1] != MBO)) break;
    if (UNLIKELY(!kind_of_action[p[38]] || !is_side[p[39]])) break;
    uint64_t time = first_defined(sd_load_le64(p + 40), event_time(p));
    const uint32_t id = sd_load_le32(p + 4);
    uint32_t key = sd_dbn_instruments_find(dbn->instruments, id, time);
    if (UNLIKELY(key == SD_DBN_UNKNOWN)) break;
    if (UNLIKELY(is_beyond(event_time(p)) || is_beyond(sd_load_le64(p + 40)))) break;
    if (key != SD_DBN_UNWANTED && is_wanted_time(dbn, time)) {
      const int64_t rolled = follow(dbn, tick, key, id, time);
      if (UNLIKELY(rolled == SD_DBN_NO_ROOM)) break;
      tick += rolled;
      make_mbo(tick, p, key);
      if (UNLIKELY(tick->flags & (SD_DBN_MAYBE_BAD_BOOK | SD_DBN_BAD_TS_RECV))) note_doubt(dbn, tick->flags);
      tick++;
    } else {
      dbn->not_selected++;
    }
    taken++;
    p += size;
  }
  dbn->counts[MBO] += taken;
  dbn->records += taken;
  dbn->offset += (uint64_t)(p - start);
  *next = tick;
  return p;
}

sd_decoded sd_dbn_decode(void *self, const uint8_t *at, uint64_t left, int last, sd_tick *out, uint64_t capacity) {
  sd_dbn *dbn = self;
  if (capacity < SD_DBN_MAX_TICKS) return (sd_decoded){.sampled = dbn->sampled};
  const uint8_t *p = at;
  const uint8_t *end = at + left;
  sd_tick *tick = out;
  const sd_tick *full =
      out + capacity - (SD_DBN_MAX_TICKS - 1); /* from here on, `out` has no space for the ticks of another record */
  int code = SD_OK;
  dbn->fault = SD_DBN_FAULT_NONE;
  for (;;) {
    uint64_t used;
    uint64_t made;
    p = take_mbo(dbn, p, end, &tick, full);
    if (tick >= full) break;
    code = take_any(dbn, p, (uint64_t)(end - p), last, tick, &used, &made);
    if (code != SD_OK) break;
    uint8_t type = p[1];
    dbn->records++;
    dbn->offset += used;
    p += used;
    tick += made;
    if (type == SYMBOL_MAPPING) {
      dbn->fault = SD_DBN_STOP_MAPPING;
      dbn->fault_offset = dbn->offset - used;
      dbn->fault_length = (uint32_t)used;
      code = SD_AGAIN;
      break;
    }
  }
  if (code == SD_AGAIN && dbn->fault == SD_DBN_FAULT_NONE) code = SD_OK;
  const sd_decoded did = {
      .made = (uint64_t)(tick - out), .consumed = (uint64_t)(p - at), .code = code, .sampled = dbn->sampled};
  dbn->ticks += did.made;
  return did;
}

void sd_dbn_init(sd_dbn *dbn, uint32_t version, sd_dbn_instruments *instruments) {
  memset(dbn, 0, sizeof *dbn);
  dbn->last_ns = UINT64_MAX;
  dbn->version = version;
  dbn->levels = 1;
  dbn->latest_key = SD_DBN_UNKNOWN;
  dbn->instruments = instruments;
}
