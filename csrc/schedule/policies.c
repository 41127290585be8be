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

/* Whether a policy has all that the engine calls unasked. */
static int is_whole(const sd_policy *p) {
  return p->state_bytes && p->start && p->ready && p->peek && p->count && (p->next || (p->pick && p->pick_if));
}

const sd_policy *sd_policy_of(int32_t number) {
  const sd_policy *p = number >= 0 && (uint32_t)number < sizeof POLICIES / sizeof *POLICIES ? POLICIES[number] : NULL;
  return p && is_whole(p) ? p : NULL;
}
