/* Blocks of a DBN file, as codec/blocks.h has them. Records of unknown instruments, symbol mappings, and names that go over to another
 * instrument are taken in turn. */
#pragma once

#include "codec/blocks.h"

/* cffi: begin */
sd_open_blocks sd_dbn_open_blocks;
/* cffi: end */
