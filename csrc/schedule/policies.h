/* The policies that there are. */
#ifndef SD_SCHEDULE_POLICIES_H
#define SD_SCHEDULE_POLICIES_H

#include "schedule/policy.h"

/* The policy of a number, SD_FIFO and so on; NULL: there is none, or it lacks what it needs. */
const sd_policy *sd_policy_of(int32_t number);

#endif
