/* The messages that are rare in a day. For the decoder's own files. */
#pragma once

#include "codec/itch/state.h"

/* Whether a rare type has 64 bits of shares that do not fit into a size. */
static inline int sd_itch_size_beyond(const uint8_t *m) { return (m[0] == 'Q' || m[0] == 'I') && m[11] & 0x80; }

/* Makes the tick of a rare type at m, which holds the whole message. 0: the type makes no tick. */
int sd_itch_decode_rare(uint64_t midnight_ns, uint64_t sequence, const uint8_t *m, sd_tick *tick);

/* R: the locate's name and attributes. Returns a fault, and the offending byte in *value. */
uint32_t sd_itch_name_locate(sd_itch *itch, const uint8_t *m, uint8_t *value);

/* S, V, W: kept while there is space. */
void sd_itch_keep_market_event(sd_itch *itch, const uint8_t *m, uint32_t length);
