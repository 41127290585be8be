/* How messages spread over symbols: weights by rank (rank 1, the busiest, at index 0), and draws by weight. */
#pragma once

#include <stdint.h>

#include "base/prng.h"

/* cffi: begin */
/* Weights rank^-exponent in units of 2^-40, at least 1. exponent in units of 2^-32, at most 8.
 * SD_OK, or SD_E_ARGUMENT. */
int sd_weights_zipf(uint32_t symbols, uint64_t exponent_q32, uint64_t *out);

/* Weights of any number of symbols, from the counts of n ranks. For up to n symbols it takes those of the busiest ranks. For more, it
 * stretches the whole curve along the logarithm of the rank, so the busiest stays the busiest and the tail grows. Units of 2^-16 of a
 * message. SD_OK, or SD_E_ARGUMENT. */
int sd_weights_from_counts(const uint64_t *counts, uint32_t n, uint32_t symbols, uint64_t *out);

/* Straight lines through (rank, value) on logarithmic axes, read at ranks 1..symbols and rounded down, at least 1; the
 * ends are held. Ranks rise from 1; values are 1 or more. SD_OK, or SD_E_ARGUMENT. */
int sd_interpolate_ranks(const uint32_t *ranks, const uint32_t *values, uint32_t n, uint32_t symbols, uint32_t *out);
/* cffi: end */

/* Draws an index with probability weight / total in constant time (Vose's alias method, in integers). */
typedef struct sd_alias_slot {
  uint32_t keep; /* if 32 random bits are below this, the slot returns its own number, otherwise `other` */
  uint32_t other;
} sd_alias_slot;

typedef struct sd_alias {
  sd_alias_slot *slots;
  uint32_t count;
} sd_alias;

/* Weights must sum to less than 2^64. SD_OK, SD_E_ARGUMENT when all are 0, or SD_E_NO_MEMORY. */
int sd_alias_init(sd_alias *a, const uint64_t *weights, uint32_t count);
void sd_alias_destroy(sd_alias *a);

static inline uint32_t sd_alias_draw(const sd_alias *a, uint64_t random) {
  uint32_t i = sd_scale32((uint32_t)(random >> 32), a->count);
  return (uint32_t)random < a->slots[i].keep ? i : a->slots[i].other;
}
