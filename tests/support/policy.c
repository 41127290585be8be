/* A policy by itself: lists and state without a dispatcher, and the clock that a test says. */
#include <stdlib.h>

#include "base/clock.h"
#include "schedule/policy.h"

sd_clock sd_the_clock = {0, 1.0};

typedef struct trial {
  const sd_policy *policy;
  sd_ready ready;
} trial;

/* Behind the lists of n_workers stands the deferred one. */
trial *trial_new(const sd_policy_config *config, uint32_t n_workers, uint32_t n_strands, uint32_t n_tasks) {
  const uint32_t n_lists = n_workers + 1;
  trial *t = calloc(1, sizeof *t);
  t->policy = sd_policy_of(config->number);
  const uint64_t bytes = t->policy->state_bytes(config, n_lists, n_strands, n_strands + n_tasks);
  t->ready = (sd_ready){.lists = aligned_alloc(2 * SD_LINE, n_lists * sizeof(sd_list)),
                        .n_lists = n_lists,
                        .n_workers = n_workers,
                        .n_strands = n_strands,
                        .n_entries = n_strands + n_tasks,
                        .state = aligned_alloc(2 * SD_LINE, (bytes + 2 * SD_LINE - 1) / (2 * SD_LINE) * (2 * SD_LINE))};
  for (uint64_t i = 0; i < bytes; i++) t->ready.state[i] = 0;
  for (uint32_t i = 0; i < n_lists; i++) t->ready.lists[i] = (sd_list){0};
  t->policy->start(&t->ready, config);
  return t;
}

void trial_free(trial *t) {
  free(t->ready.lists);
  free(t->ready.state);
  free(t);
}

void trial_ready(trial *t, uint32_t list, const uint32_t *strands, uint32_t n, int why, uint64_t now) {
  t->policy->ready(&t->ready, list, strands, n, why, now);
}

/* Whoever asks may have any strand. So a wrong variant that finds a strand and cannot take it does not look for ever. */
static int any(const void *who, uint32_t strand) {
  (void)who;
  (void)strand;
  return 1;
}

/* `deferred`: SD_NONE_DEFERRED and so on. */
uint32_t trial_next(trial *t, uint32_t own, int deferred, uint64_t now) {
  const uint32_t n = t->ready.n_workers;
  uint32_t strand = SD_NONE;
  if (t->policy->next) return t->policy->next(&t->ready, own, deferred, now, any, NULL);
  if (deferred == SD_TAKE_DEFERRED && t->policy->pick(&t->ready, n, &strand, 1, 4)) return strand;
  for (uint32_t i = 0; i < n; i++)
    if (t->policy->pick(&t->ready, (own + i) % n, &strand, 1, 4)) return strand;
  return SD_NONE;
}

int trial_prioritise(trial *t, uint32_t strand, uint32_t priority, int for_backlog, uint64_t now) {
  return t->policy->prioritise(&t->ready, strand, priority, for_backlog, now);
}

void trial_mark(trial *t, uint32_t strand, uint32_t marks) { t->policy->mark(&t->ready, strand, marks); }

uint32_t trial_hold(trial *t, uint32_t resources, uint64_t now) { return t->policy->hold(&t->ready, resources, now); }

uint32_t trial_length(trial *t, uint32_t list) { return sd_list_length_locked(&t->ready.lists[list]); }
uint32_t trial_peek(trial *t, uint32_t list, uint32_t i) { return t->policy->peek(&t->ready, list, i); }
int trial_count(trial *t, uint32_t list, uint32_t *times) { return t->policy->count(&t->ready, list, times); }

void trial_counts(trial *t, sd_policy_counts *counts) {
  *counts = (sd_policy_counts){0};
  t->policy->counts(&t->ready, counts);
}

void trial_retime(trial *t, const uint64_t *timeout_ns) { t->policy->retime(&t->ready, timeout_ns); }
int trial_weigh(trial *t, uint32_t group, uint32_t weight) { return t->policy->weigh(&t->ready, group, weight); }
void trial_charge(trial *t, uint32_t strand, uint64_t ns) { t->policy->charge(&t->ready, strand, ns); }
uint64_t trial_due(trial *t, uint64_t now) { return t->policy->due(&t->ready, now); }
void trial_group_counts(trial *t, uint32_t n, sd_group_counts *groups, sd_fair_counts *all) {
  t->policy->group_counts(&t->ready, n, groups, all);
}

void trial_renew(trial *t, uint32_t task, uint32_t priority) { t->policy->renew(&t->ready, task, priority, 0); }
void trial_over(trial *t, uint32_t task) { t->policy->over(&t->ready, task); }
int trial_leave(trial *t, uint32_t strand) { return t->policy->leave(&t->ready, strand); }
uint32_t trial_rose(trial *t, uint32_t task, int taken) { return t->policy->rose(&t->ready, task, taken); }
void trial_risen(trial *t, int64_t *more) { t->policy->risen(&t->ready, more); }
int trial_close_group(trial *t, uint32_t group) { return t->policy->close(&t->ready, group); }
uint32_t trial_returned(trial *t, uint32_t n, int all, uint32_t *groups, sd_group_counts *counts) {
  return t->policy->returned(&t->ready, n, all, groups, counts);
}
