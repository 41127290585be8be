#include <stddef.h>
#include <string.h>

#include "schedule/policy.h"

#define POLICY(name, number) [number] = &sd_policy_##name,
static const sd_policy *const POLICIES[SD_POLICY_COUNT] = {SD_POLICIES(POLICY)};

/* Whether a policy has all that the engine calls unasked. */
static int is_whole(const sd_policy *p) {
  return p->state_bytes && p->start && p->ready && p->peek && p->count && (p->next || (p->pick && p->pick_if));
}

const sd_policy *sd_policy_of(int32_t number) {
  const sd_policy *p = number >= 0 && number < SD_POLICY_COUNT ? POLICIES[number] : NULL;
  return p && is_whole(p) ? p : NULL;
}

int32_t sd_policy_number(const char *name) {
  int32_t number = 0;
  while (number < SD_POLICY_COUNT && !(POLICIES[number] && !strcmp(POLICIES[number]->name, name))) number++;
  return number;
}
