#include "lab/generate/weights.h"

#include <stdlib.h>

#include "lab/generate/fixed.h"
#include "sd_error.h"

int sd_weights_zipf(uint32_t symbols, uint64_t exponent_q32, uint64_t *out) {
  if (!symbols || exponent_q32 > UINT64_C(8) << 32) return SD_E_ARGUMENT;
  for (uint32_t i = 0; i < symbols; i++) {
    unsigned __int128 fall = ((unsigned __int128)exponent_q32 * sd_log2_q32(i + UINT64_C(1))) >> 32;
    uint64_t weight = sd_exp2_q32((INT64_C(24) << 32) - (int64_t)fall);
    out[i] = weight ? weight : 1;
  }
  return SD_OK;
}

int sd_weights_from_counts(const uint64_t *counts, uint32_t n, uint32_t symbols, uint64_t *out) {
  if (!symbols || !n) return SD_E_ARGUMENT;
  for (uint32_t i = 0; i < n; i++)
    if (!counts[i] || counts[i] >> 40) return SD_E_ARGUMENT;
  uint64_t span = sd_log2_q32(n), wide = symbols > n ? sd_log2_q32(symbols) : 0;
  for (uint32_t i = 0; i < symbols; i++) {
    if (symbols <= n) {
      out[i] = counts[i] << 16;
      continue;
    }
    uint64_t along = (uint64_t)((unsigned __int128)sd_log2_q32(i + UINT64_C(1)) * span / wide);
    uint64_t rank = sd_exp2_q32((int64_t)along); /* units of 2^-16, from 1 */
    uint32_t below = (uint32_t)(rank >> 16) - 1;
    if (below >= n - 1) {
      out[i] = counts[n - 1] << 16;
      continue;
    }
    int64_t step = (int64_t)counts[below + 1] - (int64_t)counts[below];
    out[i] = (uint64_t)(((int64_t)counts[below] << 16) + step * (int64_t)(rank & 65535));
  }
  return SD_OK;
}

int sd_interpolate_ranks(const uint32_t *ranks, const uint32_t *values, uint32_t n, uint32_t symbols, uint32_t *out) {
  if (!n || !symbols || ranks[0] != 1) return SD_E_ARGUMENT;
  for (uint32_t i = 0; i < n; i++)
    if (!values[i] || (i && ranks[i] <= ranks[i - 1])) return SD_E_ARGUMENT;
  uint32_t at = 0;
  for (uint32_t i = 0; i < symbols; i++) {
    while (at + 1 < n && ranks[at + 1] <= i + 1) at++;
    if (at + 1 == n || ranks[at] == i + 1) {
      out[i] = values[at];
      continue;
    }
    int64_t x0 = (int64_t)sd_log2_q32(ranks[at]), x1 = (int64_t)sd_log2_q32(ranks[at + 1]);
    int64_t y0 = (int64_t)sd_log2_q32(values[at]), y1 = (int64_t)sd_log2_q32(values[at + 1]);
    int64_t x = (int64_t)sd_log2_q32(i + UINT64_C(1));
    uint64_t value = sd_exp2_q32(y0 + (int64_t)((__int128)(y1 - y0) * (x - x0) / (x1 - x0))) >> 16;
    out[i] = value ? (uint32_t)value : 1;
  }
  return SD_OK;
}

int sd_alias_init(sd_alias *a, const uint64_t *weights, uint32_t count) {
  unsigned __int128 total = 0;
  for (uint32_t i = 0; i < count; i++) total += weights[i];
  if (!total || total >> 64) return SD_E_ARGUMENT;
  sd_alias_slot *slots = malloc(count * sizeof *slots);
  unsigned __int128 *share = malloc(count * sizeof *share); /* weight x count; a slot's fair share is `total` */
  uint32_t *stack = malloc(count * sizeof *stack); /* slots below their share at the left, the others at the right */
  if (!slots || !share || !stack) {
    free(slots);
    free(share);
    free(stack);
    return SD_E_NO_MEMORY;
  }
  uint32_t poor = 0, rich = count;
  for (uint32_t i = 0; i < count; i++) {
    share[i] = (unsigned __int128)weights[i] * count;
    if (share[i] < total) stack[poor++] = i;
    else stack[--rich] = i;
  }
  while (poor && rich < count) {
    uint32_t low = stack[--poor], high = stack[rich];
    slots[low] = (sd_alias_slot){.keep = (uint32_t)((share[low] << 32) / total), .other = high};
    share[high] -= total - share[low];
    if (share[high] < total) {
      rich++;
      stack[poor++] = high;
    }
  }
  while (poor) /* none is left in exact arithmetic; one that is left returns its own number */
    slots[stack[poor - 1]] = (sd_alias_slot){UINT32_MAX, stack[poor - 1]}, poor--;
  for (; rich < count; rich++) slots[stack[rich]] = (sd_alias_slot){UINT32_MAX, stack[rich]};
  free(share);
  free(stack);
  a->slots = slots;
  a->count = count;
  return SD_OK;
}

void sd_alias_destroy(sd_alias *a) {
  free(a->slots);
  a->slots = NULL;
}
