/* Which symbol the next message is for: by weight, and in runs.
 *
 * A symbol's messages come in runs whose length falls with its rank and grows with the crowd in the millisecond. A
 * run's symbol is drawn with probability weight / length, so runs leave every symbol's share of the day as it was.
 */
#pragma once

#include "lab/generate/weights.h"

enum { SD_PICKER_FULL_CROWD = 400 }; /* with this many messages in a millisecond, runs have their full length */

typedef struct sd_picker {
  sd_prng random;
  sd_alias alone;        /* by weight */
  sd_alias runs;         /* by weight / run length */
  uint32_t *run_lengths; /* by rank */
  uint32_t run_rank, run_left;
} sd_picker;

/* Copies the run lengths; weights and lengths are by rank. SD_OK, SD_E_ARGUMENT or SD_E_NO_MEMORY. */
int sd_picker_init(sd_picker *p, const uint64_t *weights, const uint32_t *run_lengths, uint32_t symbols, uint64_t seed);
void sd_picker_destroy(sd_picker *p);

/* The rank, from 0, of the next message's symbol; `crowd` messages share its millisecond. */
static inline uint32_t sd_picker_next(sd_picker *p, uint32_t crowd) {
  uint64_t r = sd_prng_next(&p->random);
  if (p->run_left) {
    if (r & 3) {
      p->run_left--;
      return p->run_rank;
    }
  } else if (!(r & 15)) {
    uint64_t bits = sd_prng_next(&p->random);
    p->run_rank = sd_alias_draw(&p->runs, bits);
    if (crowd > SD_PICKER_FULL_CROWD) crowd = SD_PICKER_FULL_CROWD;
    /* A fraction of a message is the chance of one message: rounding down would take runs from the rarer symbols. */
    uint32_t dither = sd_scale32((uint32_t)(r >> 32), SD_PICKER_FULL_CROWD);
    p->run_left = (p->run_lengths[p->run_rank] * crowd + dither) / SD_PICKER_FULL_CROWD;
  }
  return sd_alias_draw(&p->alone, r);
}
