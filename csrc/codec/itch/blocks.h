/* Blocks of an ITCH file. Where a block's first frame begins is guessed, as in a stripe, and a block is adopted if the one before it ends
 * exactly there; else it is made again. Blocks have frames that make a tick, or none, and change nothing else: whatever changes the
 * decoder's state (a directory message, a market event, a fault, a time that runs backwards) ends them, and the decoder takes it in turn. */
#ifndef SD_CODEC_ITCH_BLOCKS_H
#define SD_CODEC_ITCH_BLOCKS_H

#include "codec/blocks.h"

/* cffi: begin */
sd_open_blocks sd_itch_open_blocks;
/* cffi: end */

#endif
