/* Blocks of an ITCH file, as codec/blocks.h has them. Directory messages and market events are taken in turn. */
#pragma once

#include "codec/blocks.h"

/* cffi: begin */
sd_open_blocks sd_itch_open_blocks;
/* cffi: end */
