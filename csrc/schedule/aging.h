/* Priorities that grow with the wait, one rate for each class. */
#ifndef SD_SCHEDULE_AGING_H
#define SD_SCHEDULE_AGING_H

#include "schedule/policy.h"

extern const sd_policy sd_policy_aging;

#endif
