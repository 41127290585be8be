/* The stream of the routing benchmark: symbols drawn by weight; a tick has nothing else but its symbol.
 *
 * Its recipe is fixed, so that other programs can make the same stream and be compared on it: Marsaglia's xorshift (13, 7, 17) from
 * 88172645463325252; a shuffle of the symbols, from the last down, by remainder; then for each tick the first rank whose summed weight is
 * not below 53 random bits times the sum of all. */
#pragma once

#include "sd_tick.h"

/* cffi: begin */
/* Fills n ticks: ts_event and price are the position from 0, size 1, sequence the symbol's own count from 1, all else
 * 0. `weights` are by rank, finite and not negative, at least one above 0. SD_OK, SD_E_ARGUMENT or SD_E_NO_MEMORY. */
int sd_route_stream(sd_tick *ticks, int64_t n, const double *weights, uint32_t symbols);
/* cffi: end */
