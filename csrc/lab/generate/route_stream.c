#include "lab/generate/route_stream.h"

#include <stdlib.h>
#include <string.h>

#include "sd_error.h"

/* Random numbers with the same leading bits fall into one bucket, and a bucket has a rank or two. The search over all ranks runs once per
 * bucket; a draw searches only between the answers of two neighbouring buckets. */
enum { MIN_BUCKET_BITS = 10, MAX_BUCKET_BITS = 20, RANDOM_BITS = 53 };

static uint64_t next(uint64_t *x) {
  *x ^= *x << 13;
  *x ^= *x >> 7;
  *x ^= *x << 17;
  return *x;
}

/* This is rounded exactly as for a tick. It is monotone in `bits`, and therefore the buckets' answers are bounds. */
static double target(uint64_t bits, double sum) { return (double)bits * (1.0 / 9007199254740992.0) * sum; }

/* The first rank in [low, high] whose summed weight is not below u; `high` when there is none. */
static uint32_t search(const double *summed, uint32_t low, uint32_t high, double u) {
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (summed[middle] < u) low = middle + 1;
    else high = middle;
  }
  return low;
}

int sd_route_stream(sd_tick *ticks, int64_t n, const double *weights, uint32_t symbols) {
  if (!symbols || n < 0) return SD_E_ARGUMENT;
  int bucket_bits = MIN_BUCKET_BITS;
  while (bucket_bits < MAX_BUCKET_BITS && UINT32_C(1) << bucket_bits < 2 * (uint64_t)symbols) bucket_bits++;
  uint32_t buckets = UINT32_C(1) << bucket_bits;
  double *summed = malloc(symbols * sizeof *summed);
  uint32_t *order = malloc(symbols * sizeof *order);
  uint32_t *bound = malloc((buckets + 1) * sizeof *bound);
  uint64_t *count = calloc(symbols, sizeof *count);
  int status = summed && order && bound && count ? SD_OK : SD_E_NO_MEMORY;
  double sum = 0;
  for (uint32_t i = 0; status == SD_OK && i < symbols; i++) {
    if (!(weights[i] >= 0)) status = SD_E_ARGUMENT;
    summed[i] = sum += weights[i];
    order[i] = i;
  }
  if (status == SD_OK && !(sum > 0 && sum - sum == 0)) status = SD_E_ARGUMENT;
  if (status == SD_OK) {
    uint64_t x = UINT64_C(88172645463325252);
    for (uint32_t i = symbols - 1; i > 0; i--) {
      uint32_t j = (uint32_t)(next(&x) % (i + 1)), symbol = order[i];
      order[i] = order[j];
      order[j] = symbol;
    }
    for (uint32_t b = 0; b <= buckets; b++)
      bound[b] = search(summed, 0, symbols - 1, target((uint64_t)b << (RANDOM_BITS - bucket_bits), sum));
    for (int64_t i = 0; i < n; i++) {
      uint64_t bits = next(&x) >> (64 - RANDOM_BITS);
      uint32_t b = (uint32_t)(bits >> (RANDOM_BITS - bucket_bits));
      uint32_t symbol = order[search(summed, bound[b], bound[b + 1], target(bits, sum))];
      ticks[i] = (sd_tick){.ts_event = i, .price = i, .size = 1, .instrument_id = symbol};
      sd_set_sequence(&ticks[i], ++count[symbol]);
    }
  }
  free(summed);
  free(order);
  free(bound);
  free(count);
  return status;
}
