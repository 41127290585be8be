/* What comes in is believed or not, and put in order. How it goes out is mold_deliver.h's. */
#ifndef SD_LIVE_MOLD_TAKE_H
#define SD_LIVE_MOLD_TAKE_H

#include "live/mold_state.h"

/* A receiver without sockets, NULL where there is no memory; first_sequence is at most SD_MOLD_SEQUENCE_MAX. */
sd_mold *sd_mold_make(const sd_mold_options *options);
void sd_mold_unmake(sd_mold *m);

/* A packet of `line`; `now_ns` is a clock that does not jump. */
void sd_mold_take(sd_mold *m, int line, const uint8_t *packet, uint64_t len, uint64_t ts_recv, uint64_t now_ns);
/* Begins with the first packet where that has waited for its time, gives up what is due, and delivers. */
void sd_mold_tick(sd_mold *m, uint64_t now_ns);
/* No more will come: gaps are given up, what is held is delivered as far as there is room. SD_AGAIN: there was not. */
int sd_mold_finish(sd_mold *m);

#endif
