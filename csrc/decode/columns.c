/* See the header. */
#include "decode/columns.h"

#include "decode/cells.h"

#include <string.h>

uint64_t sd_letters(const sd_cells *cells, const sd_letter *table, uint32_t entries, int64_t otherwise, uint32_t column,
                    const sd_target *target, uint16_t *faults) {
  uint64_t bad = 0;
  uint64_t keys[64];
  if (entries > 64) entries = 64;
  for (uint32_t e = 0; e < entries; e++) memcpy(&keys[e], table[e].text, 8);
  for (uint64_t i = 0; i < cells->count; i++) {
    field f = cell(cells, i);
    uint64_t length = (uint64_t)(f.end - f.at);
    int64_t value = otherwise;
    if (LIKELY(length <= 8)) {
      uint64_t key = 0;
      for (uint64_t b = 0; b < length; b++) key |= (uint64_t)f.at[b] << 8 * b;
      for (uint32_t e = 0; e < entries; e++) {
        if (keys[e] == key && table[e].length == length) {
          value = table[e].value;
          break;
        }
      }
    }
    if (UNLIKELY(value < 0)) {
      note(&faults[i], column, length ? SD_FAULT_UNKNOWN : SD_FAULT_EMPTY);
      bad++;
      continue;
    }
    put(target, i, &value);
  }
  return bad;
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
