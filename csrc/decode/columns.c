/* See the header. */
#include "decode/columns.h"

#include "decode/cells.h"

#include <string.h>

enum { SLOTS = 128 }; /* twice as many as there are texts, so that one that is not there is soon known */

/* Texts by what their bytes are as a number, in the slot that is free from where a hash points to. */
typedef struct letters {
  uint64_t keys[SLOTS];
  uint32_t values[SLOTS];
  uint8_t lengths[SLOTS]; /* FREE: no text */
} letters;

enum { FREE = 255 };

static inline uint32_t slot_of(uint64_t key) { return (uint32_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 57); }

static void fill(letters *known, const sd_letter *table, uint32_t entries) {
  memset(known->lengths, FREE, sizeof known->lengths);
  for (uint32_t e = 0; e < entries && e < SLOTS / 2; e++) {
    uint64_t key;
    memcpy(&key, table[e].text, 8);
    uint32_t slot = slot_of(key);
    while (known->lengths[slot] != FREE) slot = (slot + 1) % SLOTS;
    known->keys[slot] = key;
    known->values[slot] = table[e].value;
    known->lengths[slot] = (uint8_t)table[e].length;
  }
}

/* Up to eight bytes as a number, the first one lowest, without a loop: parts that overlap agree where they do. */
static inline uint64_t key_of(field f, uint64_t length) {
  if (length > 3) {
    uint32_t first, last;
    memcpy(&first, f.at, 4);
    memcpy(&last, f.end - 4, 4);
    return first | (uint64_t)last << (8 * (length - 4));
  }
  if (UNLIKELY(!length)) return 0;
  uint64_t middle = length / 2;
  return f.at[0] | (uint64_t)f.at[middle] << 8 * middle | (uint64_t)f.end[-1] << 8 * (length - 1);
}

uint64_t sd_letters(const sd_cells *given, const sd_letter *table, uint32_t entries, int64_t otherwise, uint32_t column,
                    const sd_target *to, uint16_t *faults) {
  uint64_t bad = 0;
  letters known;
  fill(&known, table, entries);
  /* Copied: the bytes that are written might else be these, and they would be read again for each row. */
  sd_cells cells = *given;
  sd_target target = *to;
  for (uint64_t i = 0; i < cells.count; i++) {
    field f = cell(&cells, i);
    uint64_t length = (uint64_t)(f.end - f.at);
    int64_t value = otherwise;
    if (LIKELY(length <= 8)) {
      uint64_t key = key_of(f, length);
      uint32_t slot = slot_of(key);
      while (UNLIKELY(known.lengths[slot] != FREE && (known.keys[slot] != key || known.lengths[slot] != length)))
        slot = (slot + 1) % SLOTS;
      if (known.lengths[slot] != FREE) value = known.values[slot];
    }
    if (UNLIKELY(value < 0)) {
      note(&faults[i], column, length ? SD_FAULT_UNKNOWN : SD_FAULT_EMPTY);
      bad++;
      continue;
    }
    put(&target, i, &value);
  }
  return bad;
}

void sd_blank_ticks(sd_tick *out, uint64_t count, const sd_tick *blank, uint64_t first, const int64_t *ts_event,
                    const int64_t *ts_recv, const uint32_t *names) {
  sd_tick tick = *blank;
  for (uint64_t i = 0; i < count; i++) {
    tick.ts_recv = (uint64_t)ts_recv[i];
    tick.ts_event = ts_event[i] ? (uint64_t)ts_event[i] : tick.ts_recv;
    tick.sequence = first + i;
    if (names) tick.instrument_id = names[i];
    out[i] = tick;
  }
}

uint64_t sd_fit_sizes(const int64_t *amounts, uint64_t count, int64_t unit, uint8_t *sizes, uint8_t *flags,
                      uint64_t stride, uint8_t flag) {
  uint64_t lossy = 0;
  for (uint64_t i = 0; i < count; i++) {
    uint64_t amount = amounts[i] > 0 ? (uint64_t)amounts[i] : 0;
    uint64_t whole = amount / (uint64_t)unit;
    int lost = whole > UINT32_MAX || whole * (uint64_t)unit != amount;
    uint32_t size = whole > UINT32_MAX ? UINT32_MAX : (uint32_t)whole;
    memcpy(sizes + i * stride, &size, sizeof size);
    flags[i * stride] |= lost ? flag : 0;
    lossy += (uint64_t)lost;
  }
  return lossy;
}

uint64_t sd_count_byte(const uint8_t *bytes, uint64_t count, uint8_t byte) {
  uint64_t found = 0;
  while (count) {
    /* No more at once than a byte counts to: compilers then count sixteen side by side. */
    uint64_t run = count < 255 ? count : 255;
    uint8_t here = 0;
    for (uint64_t i = 0; i < run; i++) here += bytes[i] == byte;
    found += here;
    bytes += run;
    count -= run;
  }
  return found;
}
