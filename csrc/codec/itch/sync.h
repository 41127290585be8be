/* Finds the frames again after a fault. For the decoder's own files. */
#pragma once

#include "codec/itch/state.h"

/* The first place in p[0 .. left) from which frames are plausible by the rules in itch.h, or from which more bytes are needed to tell.
 * *found says which. With `last` it is never the latter: then `left` means that there is no such place. */
uint64_t sd_itch_find_sync(const sd_itch *itch, const uint8_t *p, uint64_t left, int last, int *found);
