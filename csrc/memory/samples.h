/* A ring of samples: the last states of something that one thread writes, for readers without a lock.
 *
 * Put: the one writer. Get: any thread, or another process, to which the memory is read-only. A reader copies a slot, and then looks whether
 * the writer can have come back to it meanwhile: then the copy may be torn, and the reader takes a later sample. */
#pragma once

#include "base/atomic.h"

typedef struct sd_samples {
  SD_ALIGNED(2 * SD_LINE) sd_a64 written; /* how many were ever put. The last one is in slot (written - 1) % slots */
  uint32_t slots, words;                  /* words: of a slot. The slots follow */
} sd_samples;

static inline sd_a64 *sd_samples_slot(sd_samples *s, uint64_t number, uint32_t slots, uint32_t words) {
  return (sd_a64 *)(void *)(s + 1) + number % slots * words;
}

static inline void sd_samples_put(sd_samples *s, const uint64_t *from) {
  const uint64_t number = sd_load(&s->written, relaxed, G2);
  sd_a64 *slot = sd_samples_slot(s, number, s->slots, s->words);
  for (uint32_t i = 0; i < s->words; i++) {
    /* G1: release; pairs with the acquire of sd_samples_get: a reader that sees a word of this sample also sees, in `written`, all
     * samples before it, and so that its slot was used again. */
    sd_store(&slot[i], from[i], release, G1);
  }
  /* G2: release; pairs with the acquire below: who sees the number sees the sample. */
  sd_store(&s->written, number + 1, release, G2);
}

/* Copies the sample that was put `back` samples before the last one. *number: how many were put before it. Zero: there was none such, or
 * it is gone, or it went meanwhile. `slots` and `words` are the ring's, as the reader has checked them. */
static inline int sd_samples_get(sd_samples *s, uint32_t slots, uint32_t words, uint64_t back, uint64_t *to,
                                 uint64_t *number) {
  /* G2: acquire */
  const uint64_t written = sd_load(&s->written, acquire, G2);
  if (back >= written || back + 1 >= slots) return 0;
  *number = written - 1 - back;
  sd_a64 *slot = sd_samples_slot(s, *number, slots, words);
  for (uint32_t i = 0; i < words; i++) {
    /* G1: acquire */
    to[i] = sd_load(&slot[i], acquire, G1);
  }
  /* G2: relaxed; after the loads above. The sample that takes this slot is begun when so many were put. */
  return sd_load(&s->written, relaxed, G2) - *number < slots;
}
