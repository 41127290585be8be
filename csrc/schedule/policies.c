#include "schedule/policies.h"

#include <stddef.h>

#include "schedule/aging.h"
#include "schedule/fair.h"
#include "schedule/fifo.h"
#include "schedule/levels.h"

static const sd_policy *const POLICIES[] = {[SD_FIFO] = &sd_policy_fifo,
                                            [SD_LEVELS] = &sd_policy_levels,
                                            [SD_AGING] = &sd_policy_aging,
                                            [SD_FAIR] = &sd_policy_fair};

const sd_policy *sd_policy_of(int32_t number) {
  return number >= 0 && (uint32_t)number < sizeof POLICIES / sizeof *POLICIES ? POLICIES[number] : NULL;
}
