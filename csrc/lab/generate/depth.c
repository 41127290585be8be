#include "lab/generate/depth.h"

#include <stdlib.h>
#include <string.h>

#include "sd_error.h"

enum { FIRST_CAPACITY = 64 };

static int reserve(sd_depth_side *side) {
  if (side->count < side->capacity) return SD_OK;
  uint32_t capacity = side->capacity ? 2 * side->capacity : FIRST_CAPACITY;
  sd_depth_level *levels = realloc(side->levels, capacity * sizeof *levels);
  if (!levels) return SD_E_NO_MEMORY;
  side->levels = levels;
  side->capacity = capacity;
  return SD_OK;
}

int sd_depth_change(sd_depth_side *side, int64_t price, int64_t shares) {
  uint32_t at = side->count; /* levels before `at` have a worse price, or the same */
  while (at && (side->levels[at - 1].price - price) * side->sign > 0) at--;
  sd_depth_level *level = at && side->levels[at - 1].price == price ? &side->levels[at - 1] : NULL;
  if (shares < 0) {
    if (!level || level->shares < (uint64_t)-shares) return SD_E_ARGUMENT;
    level->shares -= (uint64_t)-shares;
    if (level->shares) return SD_OK;
    memmove(level, level + 1, (side->count - at) * sizeof *level);
    side->count--;
    return SD_OK;
  }
  if (level) {
    level->shares += (uint64_t)shares;
    return SD_OK;
  }
  if (reserve(side) != SD_OK) return SD_E_NO_MEMORY;
  memmove(&side->levels[at + 1], &side->levels[at], (side->count - at) * sizeof *level);
  side->levels[at] = (sd_depth_level){price, (uint64_t)shares};
  side->count++;
  return SD_OK;
}

void sd_depth_destroy(sd_depth_side *side) {
  free(side->levels);
  side->levels = NULL;
  side->count = side->capacity = 0;
}
