/* First in, first out. */
#ifndef SD_SCHEDULE_FIFO_H
#define SD_SCHEDULE_FIFO_H

#include "schedule/policy.h"

extern const sd_policy sd_policy_fifo;

#endif
