#include "lab/generate/session.h"

#include <stdlib.h>
#include <string.h>

#include "sd_error.h"

enum {
  ROUNDS = 12,           /* rounds of capping weights at the peak; each one moves the mean, and with it the peak */
  SPREAD_SECOND = 72000, /* spread of log2(weight), in units of 2^-16 per standard deviation of draw() */
  SPREAD_MILLISECOND = 122000,
  QUIET_SECOND = 1000, /* a second with fewer messages gets them in clusters; single ones would come evenly */
  CLUSTER_BITS = 2
};

/* log2 of the rate by half hour from 9:30, in units of 2^-16: busy at the open, busier at the close than at noon. */
static const int32_t day_profile[13] = {70000,  36000,  18000, 6000, -4000, -12000, -18000,
                                        -18000, -12000, -4000, 6000, 20000, 62000};

/* Nearly normal, mean 0, deviation 1 in units of 2^-16: the sum of four uniform draws out of one random number. */
static int64_t draw(sd_prng *random) {
  uint64_t r = sd_prng_next(random);
  int64_t sum = (int64_t)(r & 65535) + (int64_t)(r >> 16 & 65535) + (int64_t)(r >> 32 & 65535) + (int64_t)(r >> 48);
  return (sum - 2 * 65535) * 113512 >> 16; /* sqrt(3) in units of 2^-16 */
}

static int64_t tempered(const sd_session *s, int64_t exponent) { return exponent * (int64_t)s->burst_q16 >> 16; }

/* ratio^burst */
static uint32_t peak(uint32_t ratio_q16, uint32_t burst_q16) {
  int64_t log2 = (int64_t)(sd_log2_q32(ratio_q16) - (UINT64_C(16) << 32));
  return (uint32_t)sd_exp2_q32((int64_t)(((__int128)log2 * burst_q16) >> 16));
}

static uint64_t sum_of(const uint64_t *weights, uint32_t n) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < n; i++) sum += weights[i];
  return sum;
}

/* Keeps weights at or below `ratio` times their own mean, and raises the largest to it. */
static void hold(uint64_t *weights, uint32_t n, uint64_t ratio_q16) {
  uint32_t top = 0;
  for (uint32_t i = 1; i < n; i++)
    if (weights[i] > weights[top]) top = i;
  for (int round = 0; round < ROUNDS; round++) {
    uint64_t bound = (uint64_t)((unsigned __int128)sum_of(weights, n) * ratio_q16 / n >> 16);
    for (uint32_t i = 0; i < n; i++)
      if (weights[i] > bound) weights[i] = bound;
    weights[top] = bound;
  }
}

int sd_session_init(sd_session *s, uint64_t messages, uint64_t seed, uint32_t peak_second_q16,
                    uint32_t peak_millisecond_q16, uint32_t burst_q16) {
  if (peak_second_q16 < 65536 || peak_millisecond_q16 < peak_second_q16 || burst_q16 > 2 * 65536 ||
      peak_millisecond_q16 > 255 * 65536)
    return SD_E_ARGUMENT;
  memset(s, 0, sizeof *s);
  s->until = malloc((SD_SESSION_SECONDS + 1) * sizeof *s->until);
  if (!s->until) return SD_E_NO_MEMORY;
  s->messages = messages;
  s->peak_second_q16 = peak(peak_second_q16, burst_q16);
  s->peak_millisecond_q16 = peak(peak_millisecond_q16, burst_q16);
  s->burst_q16 = burst_q16;
  sd_exp2_table_init(&s->exp2);
  sd_prng_seed(&s->random, seed, 1);
  uint64_t *weights = s->until + 1;
  for (uint32_t i = 0; i < SD_SESSION_SECONDS; i++) {
    int64_t exponent = day_profile[i / 1800] + (draw(&s->random) * SPREAD_SECOND >> 16);
    weights[i] = sd_exp2_q16(&s->exp2, (INT64_C(12) << 16) + tempered(s, exponent));
  }
  hold(weights, SD_SESSION_SECONDS, s->peak_second_q16);
  s->until[0] = 0;
  for (uint32_t i = 1; i <= SD_SESSION_SECONDS; i++) s->until[i] += s->until[i - 1];
  s->second = UINT32_MAX; /* the first advance enters second 0 */
  s->millisecond = 999;
  return SD_OK;
}

void sd_session_destroy(sd_session *s) {
  free(s->until);
  s->until = NULL;
}

/* Deals a second's messages to its milliseconds. */
static void deal_second(sd_session *s, uint32_t count) {
  if (!count) {
    memset(s->dealt, 0, sizeof s->dealt);
    return;
  }
  if (count <
      1 << CLUSTER_BITS) { /* fewer than a cluster come together, in the last millisecond, whatever the weights */
    memset(s->dealt, 0, sizeof s->dealt);
    s->dealt[1000] = count;
    for (uint32_t i = 0; i < 1000; i++) (void)sd_prng_next(&s->random);
    return;
  }
  uint64_t weights[1000], all = s->until[SD_SESSION_SECONDS];
  uint64_t own = s->until[s->second + 1] - s->until[s->second];
  /* this second over the mean second; the millisecond's bound is over the day's mean, so relative to this second's */
  uint64_t busy_q16 = (uint64_t)(((unsigned __int128)own * SD_SESSION_SECONDS << 16) / all) | 1;
  uint64_t ratio_q16 = ((uint64_t)s->peak_millisecond_q16 << 16) / busy_q16;
  for (uint32_t i = 0; i < 1000; i++) {
    int64_t exponent = draw(&s->random) * SPREAD_MILLISECOND >> 16;
    weights[i] = sd_exp2_q16(&s->exp2, (INT64_C(10) << 16) + tempered(s, exponent));
  }
  uint64_t sum = sum_of(weights, 1000), maximum = 0;
  for (uint32_t i = 0; i < 1000; i++) maximum = weights[i] > maximum ? weights[i] : maximum;
  if ((unsigned __int128)maximum * 1000 << 16 > (unsigned __int128)sum * ratio_q16) {
    hold(weights, 1000, ratio_q16);
    sum = sum_of(weights, 1000);
  }
  uint32_t cluster_bits = count < QUIET_SECOND ? CLUSTER_BITS : 0;
  uint64_t share = (uint64_t)(((unsigned __int128)count << 48) / sum), before = 0; /* messages per weight, times 2^48 */
  for (uint32_t i = 0; i < 1000; i++) {
    s->dealt[i] = (uint32_t)(((unsigned __int128)before * share) >> 48) >> cluster_bits << cluster_bits;
    before += weights[i];
  }
  s->dealt[1000] = count;
}

void sd_session_advance(sd_session *s) {
  do {
    while (++s->millisecond == 1000) {
      s->millisecond = UINT32_MAX;
      s->second++;
      unsigned __int128 all = s->until[SD_SESSION_SECONDS];
      uint64_t after = (uint64_t)((unsigned __int128)s->messages * s->until[s->second + 1] / all);
      deal_second(s, (uint32_t)(after - s->done));
      s->done = after;
    }
    s->crowd = s->left = s->dealt[s->millisecond + 1] - s->dealt[s->millisecond];
  } while (!s->left);
  /* There is one gap more than messages, so that the last message is not pressed against the end. */
  sd_prng_seed(&s->gaps, sd_prng_next(&s->random), 2);
  sd_prng ahead = s->gaps;
  uint64_t sum = 0;
  for (uint32_t i = 0; i <= s->left; i++) sum += sd_session_gap(&ahead);
  s->run = 0;
  s->scale = (UINT64_C(1000000) << 32) / sum;
}
