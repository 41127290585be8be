#include "codec/itch/sync.h"

#include "codec/itch/layout.h"

#define DAY_NS UINT64_C(86400000000000)

enum { HEADER_BYTES = 11 };

typedef enum verdict { NO, YES, CUT } verdict;

_Static_assert(SD_ITCH_SYNC_FRAMES * (50 + PREFIX_BYTES) <= SD_ITCH_MAX_FRAME,
               "what the search waits for is no more than callers carry from one buffer to the next");

/* Whether a frame may start at p. CUT: nothing speaks against it, but it is not all there. */
static verdict judge_frame(const sd_itch *itch, const uint8_t *p, uint64_t left, uint64_t *length) {
  if (left < PREFIX_BYTES) return CUT;
  uint32_t prefix = sd_load_u16(p);
  if (prefix == 0 ? itch->prefixed : prefix > 50) return NO;
  if (left == PREFIX_BYTES) return CUT;
  const uint8_t *m = p + PREFIX_BYTES;
  uint32_t own = sd_itch_layouts[m[0]].length;
  if (own == 0 || (prefix != 0 && prefix != own)) return NO;
  if (left < PREFIX_BYTES + HEADER_BYTES) return CUT;
  if (sd_itch_time(m) >= DAY_NS) return NO;
  int of_market = m[0] == 'S' || m[0] == 'V' || m[0] == 'W';
  if (!of_market && m[0] != 'R' && itch->symbol_names != 0 && itch->symbols[sd_load_u16(m + 1)][0] == 0) return NO;
  *length = PREFIX_BYTES + own;
  return left < *length ? CUT : YES;
}

static verdict judge_run(const sd_itch *itch, const uint8_t *p, uint64_t left, int last) {
  uint64_t length = 0;
  for (int i = 0; i < SD_ITCH_SYNC_FRAMES; i++, p += length, left -= length) {
    if (left == 0 && last && i != 0) return YES;
    verdict v = judge_frame(itch, p, left, &length);
    if (v != YES) return v == CUT && last ? NO : v;
  }
  return YES;
}

uint64_t sd_itch_find_sync(const sd_itch *itch, const uint8_t *p, uint64_t left, int last, int *found) {
  for (uint64_t at = 0; at < left; at++) {
    verdict v = judge_run(itch, p + at, left - at, last);
    if (v == NO) continue;
    *found = v == YES;
    return at;
  }
  *found = 0;
  return left;
}
