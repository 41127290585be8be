/* Finding the frames again after a fault. For the decoder's own files. */
#ifndef SD_CODEC_ITCH_SYNC_H
#define SD_CODEC_ITCH_SYNC_H

#include "codec/itch/state.h"

/* The first place in p[0 .. left) from which the rules in itch.h make frames plausible, or from which more bytes are
 * needed to tell. *found says which; with `last` it is never the latter: `left` means that there is none. */
uint64_t sd_itch_find_sync(const sd_itch *itch, const uint8_t *p, uint64_t left, int last, int *found);

#endif
