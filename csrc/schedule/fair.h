/* CPU-fair time slices of groups of strands, and a token bucket that caps the pool. */
#ifndef SD_SCHEDULE_FAIR_H
#define SD_SCHEDULE_FAIR_H

#include "schedule/policy.h"

extern const sd_policy sd_policy_fair;

#endif
