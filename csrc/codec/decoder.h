/* What callers see of a decoder of a byte stream: a structure, and one function that takes it. */
#pragma once

#include "sd_error.h"
#include "sd_tick.h"

/* cffi: begin */
/* The result of a call. */
typedef struct sd_decoded {
  uint64_t made;     /* ticks */
  uint64_t consumed; /* bytes */
  int32_t code;
  uint32_t
      sampled; /* the decoder has samples of what it skipped; the caller takes them before the decoder needs their place */
} sd_decoded;

/* Takes whole records from at[0 .. left) until there are none, or until `out` has no space for the ticks of another record: fewer places
 * are left of `capacity` than a record may need. Then call again with the rest. The bytes that were not consumed must come first in the
 * next call. `last`: nothing follows the bytes.
 *
 * SD_OK; SD_AGAIN when the decoder waits for an answer that its header describes: give it and call again with the rest; SD_E_TRUNCATED
 * when `last` and the bytes end inside a record; SD_E_FORMAT; SD_E_NO_MEMORY. `self` says where the fault is, and what it is. The ticks
 * of all records before the fault are in `out`, whatever the code.
 *
 * It uses only its arguments and what `self` owns. One thread at a time. */
typedef sd_decoded sd_decode(void *self, const uint8_t *at, uint64_t left, int last, sd_tick *out, uint64_t capacity);
/* cffi: end */

/* The way out of one step of a decoder. */
typedef enum sd_way { SD_TAKEN, SD_NEED_MORE, SD_ASKS, SD_NO_MEMORY, SD_FAULT } sd_way;

/* The code of a call whose last step ended so. `truncated`: its fault is that the bytes end inside a record. */
static inline int32_t sd_code_of(sd_way way, int truncated) {
  if (way == SD_ASKS) return SD_AGAIN;
  if (way == SD_NO_MEMORY) return SD_E_NO_MEMORY;
  return way != SD_FAULT ? SD_OK : truncated ? SD_E_TRUNCATED : SD_E_FORMAT;
}
