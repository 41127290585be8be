/* The benchmark's handler: a fixed number of dependent steps per tick, so that its cost is known and no compiler can remove it. x = x *
 * 6364136223846793005 + 1442695040888963407, `work` times, starting from the row's value plus the price. */
#pragma once

#include "sd_handler.h"

/* cffi: begin */
typedef struct sd_spin_row {
  int64_t ticks;
  uint64_t value;
  int64_t last_sequence;
  int64_t broken; /* ticks whose sequence did not follow the one before: out of order, lost or doubled */
} sd_spin_row;

typedef struct sd_spin_params {
  int64_t work;
  int64_t dear_every; /* symbols whose index is divisible by this cost `dear_times` as much; 0: none */
  int64_t dear_times;
} sd_spin_params;

int64_t sd_handle_spin(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx);
/* cffi: end */
