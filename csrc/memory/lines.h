/* Private memory that one thread writes and others write beside: on lines of its own, so that they do not take each other's. */
#ifndef SD_MEMORY_LINES_H
#define SD_MEMORY_LINES_H

#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"

/* Zeros, for free(). NULL: there is no memory. In pairs of lines, as processors fetch them. */
static inline void *sd_lines(size_t n, size_t size) {
  const size_t pair = 2 * SD_LINE, bytes = (n * size + pair - 1) / pair * pair;
  void *memory = aligned_alloc(pair, bytes);
  return memory ? memset(memory, 0, bytes) : NULL;
}

#endif
