/* Sends packets on the lines, with their faults, and answers from the history. Errors are negative: errno - 1000. */
#pragma once

#include "live/serve_state.h"

int sd_serve_flush(sd_serve *s);
int sd_serve_flush_late(sd_serve *s);
int sd_serve_control(sd_serve *s, uint32_t count);
void sd_serve_remember(sd_serve *s, const uint8_t *frame, uint64_t len, uint64_t sequence);
int sd_serve_answer(sd_serve *s, uint64_t now_ns);
