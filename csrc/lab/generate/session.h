/* When a day's messages come: times from 9:30 to 16:00 that rise in ns, in bursts at every scale.
 *
 * Each second has a weight: a profile over the day times a log-normal draw, kept below the calibrated peak and raised to it in one
 * second. Each millisecond of a second has a weight too. Messages are dealt to both in exact proportion, so the peaks come out as
 * configured, whatever the seed. Inside a millisecond the gaps are heavy-tailed. */
#pragma once

#include <stdint.h>

#include "base/prng.h"
#include "lab/generate/fixed.h"

enum { SD_SESSION_SECONDS = 23400, SD_SESSION_OPEN_S = 34200 };

typedef struct sd_session {
  /* fixed after sd_session_init() */
  uint64_t messages;
  uint32_t peak_second_q16; /* busiest second over the mean second */
  uint32_t peak_millisecond_q16;
  uint32_t burst_q16; /* multiplies every exponent: 0 is an even day */
  sd_exp2_table exp2;
  uint64_t *until; /* [SD_SESSION_SECONDS + 1]: the sum of the weights before each second */
  /* the place in the day */
  sd_prng random;
  uint32_t second, millisecond;
  uint32_t left;        /* messages still to come in this millisecond */
  uint32_t crowd;       /* messages of this millisecond in all */
  uint64_t done;        /* messages dealt to the seconds before and up to this one */
  sd_prng gaps;         /* replays the gaps whose sum gave `scale` */
  uint64_t run, scale;  /* gaps so far; ns per gap unit, in units of 2^-32 */
  uint32_t dealt[1001]; /* messages of this second that are dealt before each millisecond */
} sd_session;

/* The peaks are those at burst 1. SD_OK, SD_E_ARGUMENT or SD_E_NO_MEMORY. */
int sd_session_init(sd_session *s, uint64_t messages, uint64_t seed, uint32_t peak_second_q16,
                    uint32_t peak_millisecond_q16, uint32_t burst_q16);
void sd_session_destroy(sd_session *s);

/* Moves to the next millisecond that has messages; called by sd_session_next(). */
void sd_session_advance(sd_session *s);

/* A gap: from 1 to 65,536 units, most of them below 100. */
static inline uint64_t sd_session_gap(sd_prng *random) {
  uint64_t r = sd_prng_next(random);
  return (1 + (r & 63)) << __builtin_ctzll(r >> 6 | UINT64_C(1) << 10);
}

/* The next message's time in ns since midnight. At most `messages` calls. */
static inline uint64_t sd_session_next(sd_session *s) {
  if (!s->left) sd_session_advance(s);
  s->left--;
  s->run += sd_session_gap(&s->gaps);
  uint64_t start = (uint64_t)(SD_SESSION_OPEN_S + s->second) * 1000 + s->millisecond;
  return start * 1000000 + ((s->run * s->scale) >> 32);
}
