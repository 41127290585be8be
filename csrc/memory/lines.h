/* Private memory that one thread writes while others write next to it. It has cache lines of its own, so that there is no false sharing. */
#pragma once

#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"

/* Returns zeros, to be released with free(); NULL: out of memory. The memory consists of pairs of lines, because processors prefetch lines
 * in pairs. */
static inline void *sd_lines(size_t n, size_t size) {
  const size_t pair = 2 * SD_LINE, bytes = (n * size + pair - 1) / pair * pair;
  void *memory = aligned_alloc(pair, bytes);
  return memory ? memset(memory, 0, bytes) : NULL;
}
