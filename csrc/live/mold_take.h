/* Decides whether to believe what comes in, and puts it in order. mold_deliver.h delivers it. */
#pragma once

#include "live/mold_state.h"

/* A receiver without sockets; NULL: no memory. first_sequence is at most SD_MOLD_SEQUENCE_MAX. */
sd_mold *sd_mold_make(const sd_mold_options *options);
void sd_mold_unmake(sd_mold *m);

/* cffi: begin */
/* A packet of `line`; `now_ns` is a clock that does not jump. */
void sd_mold_take(sd_mold *m, int line, const uint8_t *packet, uint64_t len, uint64_t ts_recv, uint64_t now_ns);
/* Begins with the first packet if that has waited long enough, gives up what is due, and delivers. */
void sd_mold_tick(sd_mold *m, uint64_t now_ns);
/* No more packets will come: gives gaps up, and delivers what waits while there is space. SD_AGAIN: there was not enough. */
int sd_mold_finish(sd_mold *m);
/* cffi: end */
