/* Passing over what a selection does not want. For the decoder's own files. */
#ifndef SD_CODEC_ITCH_SKIM_H
#define SD_CODEC_ITCH_SKIM_H

#include "codec/itch/state.h"

/* Frames of a stream of true lengths, a selection's ticks made and the others passed over, while there is much left
 * and little of it is wanted. Returns the frame it stopped before: one it does not take, or any. Wants itch->selective
 * and itch->prefixed. */
const uint8_t *sd_itch_skim(sd_itch *itch, const uint8_t *p, const uint8_t *end, sd_tick **next, const sd_tick *full);

#endif
