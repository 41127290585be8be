/* Names of eight bytes, padded with blanks, and their indices in the order in which they first come: for formats whose messages name their
 * symbol. The names lie in the decoder's own table; this finds them there. */
#pragma once

#include <stdint.h>
#include <string.h>

enum { SD_SYMBOL_SLOTS = 1 << 17 }; /* twice as many as symbols: at most half full */

static inline uint64_t sd_mix(uint64_t key) {
  key *= UINT64_C(0x9E3779B97F4A7C15);
  return key ^ key >> 32;
}

/* Where a name's index is, or belongs; 0 there: the name is new. `symbols` holds the names by index, from 1. */
static inline uint32_t *sd_symbol_slot(uint32_t *slots, const char (*symbols)[8], uint64_t name) {
  uint64_t at = sd_mix(name) & (SD_SYMBOL_SLOTS - 1);
  while (slots[at] != 0 && memcmp(symbols[slots[at]], &name, sizeof name) != 0) at = (at + 1) & (SD_SYMBOL_SLOTS - 1);
  return &slots[at];
}
