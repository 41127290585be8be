/* Levels, with promotion of strands that wait too long. */
#ifndef SD_SCHEDULE_LEVELS_H
#define SD_SCHEDULE_LEVELS_H

#include "schedule/policy.h"

extern const sd_policy sd_policy_levels;

#endif
