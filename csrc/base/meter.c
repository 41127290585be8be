#include "base/meter.h"

#include "base/clock.h"

static void correct(sd_cpu_meter *meter, uint64_t now, uint64_t on_cpu_ns) {
  meter->since = now;
  meter->on_cpu_ns = on_cpu_ns;
  meter->given_ns = 0;
}

static inline int is_old(const sd_cpu_meter *meter, uint64_t now) {
  return !meter->since || now - meter->since > sd_clock_counts(SD_CORRECTED_NS);
}

void sd_meter_begin(sd_cpu_meter *meter, uint64_t now, int exact) {
  meter->began = now;
  meter->exact = exact;
  /* What the thread did between two stretches must not cover for a core that it loses in the second one. */
  if (exact || is_old(meter, now)) correct(meter, now, sd_thread_cpu_ns());
}

uint64_t sd_meter_end(sd_cpu_meter *meter, uint64_t now) {
  uint64_t took = now > meter->began ? sd_clock_ns(now - meter->began) : 0;
  meter->began = now;
  if (!meter->exact && !is_old(meter, now)) {
    meter->given_ns += took;
    return took;
  }
  const uint64_t on_cpu_ns = sd_thread_cpu_ns(), ran = on_cpu_ns - meter->on_cpu_ns;
  const uint64_t left = ran > meter->given_ns ? ran - meter->given_ns : 0;
  if (meter->exact || took > left) took = left;
  correct(meter, now, on_cpu_ns);
  return took;
}
