/* What a decoder of a stream of bytes is to its callers: a structure, and one function that is given it. */
#ifndef SD_CODEC_DECODER_H
#define SD_CODEC_DECODER_H

#include "sd_error.h"
#include "sd_tick.h"

/* What a call came to. */
typedef struct sd_decoded {
  uint64_t made;     /* ticks */
  uint64_t consumed; /* bytes */
  int32_t code;
  uint32_t sampled; /* samples of what was passed over; the caller takes them before the decoder needs their place */
} sd_decoded;

/* Takes whole records from at[0 .. left) until it holds none, or `out` has no room for the ticks of another record. That is so
 * where fewer ticks are left of `capacity` than a record may make: call again with the rest. The bytes that are not consumed must
 * lead the next call's. `last` says that nothing follows them.
 *
 * SD_OK; SD_AGAIN when the decoder waits for an answer, which its header tells: give it and call again with the rest;
 * SD_E_TRUNCATED when `last` and the bytes end inside a record; SD_E_FORMAT; SD_E_NO_MEMORY. `self` says where the fault is, and
 * what. The ticks of all records before the fault are in `out`, whatever the code.
 *
 * Touches nothing but its arguments and what `self` owns. One thread at a time. */
typedef sd_decoded sd_decode(void *self, const uint8_t *at, uint64_t left, int last, sd_tick *out, uint64_t capacity);

#endif
