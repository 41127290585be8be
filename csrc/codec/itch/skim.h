/* Skips what a selection does not want. For the decoder's own files. */
#pragma once

#include "codec/itch/state.h"

/* Walks over frames of a stream of true lengths, while much is left and little of it is wanted. Makes a selection's ticks and skips the
 * others. Returns the frame before which it stopped: one that it does not take, or any other. Needs itch->selective and itch->prefixed. */
const uint8_t *sd_itch_skim(sd_itch *itch, const uint8_t *p, const uint8_t *end, sd_tick **next, const sd_tick *full);
