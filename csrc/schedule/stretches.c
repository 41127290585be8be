#include "schedule/stretches.h"

#include <stddef.h>

void sd_note_stretch(sd_long_stretch *longest, uint32_t strand, uint64_t on_cpu_ns) {
  sd_long_stretch *at = NULL;
  for (uint32_t i = 0; i < SD_LONG_STRETCHES; i++) {
    sd_long_stretch *other = &longest[i];
    if (other->times && other->strand == strand) {
      at = other;
      break;
    }
    if (!at || other->longest_ns < at->longest_ns) at = other;
  }
  if (at->times && at->strand != strand) {
    if (at->longest_ns >= on_cpu_ns) return;
    at->times = 0;
  }
  if (!at->times) at->longest_ns = 0;
  at->strand = strand;
  at->times++;
  if (at->longest_ns < on_cpu_ns) at->longest_ns = on_cpu_ns;
}
