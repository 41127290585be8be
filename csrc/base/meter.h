/* Measures stretches of a thread's on-CPU time.
 *
 * Readings of sd_now() are cheap, but that clock goes on while the thread is off its core. The thread's own clock does not, but takes up to
 * 0.6 us to read. So a stretch is measured by sd_now(), and what was measured is corrected by the thread's clock, at most once per
 * SD_CORRECTED_NS. From one correction to the next at most that is given out which the thread ran, except for stretches that were given out
 * before the second one. So a thread that lost its core is charged at most SD_CORRECTED_NS too much each time, and no stretch more than it
 * took. */
#pragma once

#include <stdint.h>

#if defined(SD_MODEL_SCHEDULER)
enum { SD_CORRECTED_NS = 60 };
#else
enum { SD_CORRECTED_NS = 1000000 };
#endif

typedef struct sd_cpu_meter {
  uint64_t since; /* the last correction, in clock counts; 0: none yet */
  uint64_t on_cpu_ns;
  uint64_t given_ns; /* measured since then */
  uint64_t began;    /* the stretch */
  int exact;         /* it is measured by the thread's clock alone */
} sd_cpu_meter;

/* A stretch begins at `now`, by the thread whose meter it is. `exact`: it may wait for others, as for Python's lock. */
void sd_meter_begin(sd_cpu_meter *meter, uint64_t now, int exact);
/* It ends. Returns its on-CPU time, in ns. If the thread goes on with the same, the next stretch has begun: one reading of the
 * thread's clock ends one and begins the other, so that no time falls between them. */
uint64_t sd_meter_end(sd_cpu_meter *meter, uint64_t now);
/* The stretches that follow are another thread's. */
static inline void sd_meter_forget(sd_cpu_meter *meter) { meter->since = 0; }
