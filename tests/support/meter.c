/* A meter by itself, with the clock and the on-CPU time that a test says: built with SD_MODEL_SCHEDULER. */
#include "base/meter.h"

#include "base/clock.h"

sd_clock sd_the_clock = {0, 1.0};

static uint64_t on_cpu;
uint64_t sd_schedule_now(void) { return 0; }
uint64_t sd_schedule_on_cpu(void) { return on_cpu; }

static sd_cpu_meter meter;

void trial_forget(void) { sd_meter_forget(&meter); }

void trial_begin(uint64_t now, uint64_t ran, int exact) {
  on_cpu = ran;
  sd_meter_begin(&meter, now, exact);
}

uint64_t trial_end(uint64_t now, uint64_t ran) {
  on_cpu = ran;
  return sd_meter_end(&meter, now);
}
