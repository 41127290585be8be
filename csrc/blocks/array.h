/* Records in memory as a source of blocks. */
#pragma once

#include "blocks/blocks.h"

enum {
#if defined(SD_MODEL_BLOCK)
  SD_ARRAY_BLOCK = SD_MODEL_BLOCK
#elif defined(SD_MODEL_SCHEDULER)
  SD_ARRAY_BLOCK = 4
#elif defined(SD_STRESS)
  SD_ARRAY_BLOCK = 256
#else
  SD_ARRAY_BLOCK = 8192 /* records */
#endif
};

/* n records, as far as they fill whole blocks or are the last ones. Another thread may change them meanwhile: keys count as they were when
 * a block was made. */
typedef struct sd_block_array {
  const unsigned char *records;
  uint64_t n;
  uint32_t size, key_offset, keys;
  uint32_t time_offset; /* with positions: of a record's time, which may not run backwards; SD_NONE: none */
  uint64_t adopted;     /* records in adopted blocks */
} sd_block_array;

sd_block_source sd_block_array_source(const sd_dispatcher *d, sd_block_array *array);
