/* The strands whose visits took longest. */
#pragma once

#include "schedule/policy.h"

/* Notes a stretch beyond its group's slice: of each strand the longest, for as many strands as there are places. Those of tasks have
 * the name of their group alone, as a task runs once. */
void sd_note_stretch(sd_long_stretch *longest, uint32_t strand, uint64_t on_cpu_ns);
