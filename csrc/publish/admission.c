/* Bounds over strands. */
#include "publish/admission.h"

#include "base/clock.h"
#include "worker/accounting.h"
#include "worker/free_task.h"
#include "worker/visit.h"
#include "worker/worker.h"

uint32_t sd_settle_level(sd_dispatcher *d, sd_strand *s, uint32_t asked) {
  sd_strand_admission *its = &d->admissions[s - d->strands];
  /* P8: acquire; pairs with W4: 0 means that the last owner is done, and has counted to the old level what ended. */
  if (sd_load(&s->pending, acquire, P8) == 0 || !sd_load(&its->settled, relaxed, P9)) {
    sd_store(&its->level, asked, relaxed, P9);
    sd_store(&its->settled, 1u, relaxed, P9);
  }
  return sd_load(&its->level, relaxed, P9);
}

/* The level to ask for. If others publish to the strand meanwhile it may count to another one, and what was granted is not used. */
static uint32_t level_to_ask(sd_dispatcher *d, uint32_t strand) {
  sd_strand_admission *its = &d->admissions[strand];
  /* P7, P9: relaxed; a hint. */
  if (sd_load(&d->strands[strand].pending, relaxed, P7) == 0 || !sd_load(&its->settled, relaxed, P9))
    return sd_level_now(d, strand);
  return sd_load(&its->level, relaxed, P9);
}

/* How many of n records the strand itself has a place for, so that lower levels make no room for what it drops. */
static uint32_t places_for(const sd_dispatcher *d, uint32_t strand, uint32_t n) {
  sd_strand *s = &d->strands[strand];
  /* P7: relaxed; a hint, as its own bound is kept under the lock. Tasks do not count against the bound: with some, it may have more. */
  const int64_t places = (int64_t)s->capacity - sd_load(&s->pending, relaxed, P7);
  if (sd_strand_tasks(s) || places >= n) return n;
  return places < 0 ? 0 : (uint32_t)places;
}

/* ---- making room */

/* How many free tasks, and strands that have a task first, are passed over. */
enum { MAX_PASSED = 16 };

/* Drops the oldest records of a strand that the caller owns, at most n, and lets the strand go. Returns how many; *left: something is left,
 * and the caller has to list the strand. */
static uint64_t shed_from(sd_dispatcher *d, uint32_t participant, uint32_t index, uint64_t n, int *left) {
  sd_strand *s = &d->strands[index];
  sd_segment_cache *cache = &d->participants[participant].cache;
  sd_counters *c = &d->participants[participant].counters;
  const uint64_t pending = (uint64_t)sd_records_pending(d, s, SD_AHEAD_UNKNOWN);
  if (n > pending) n = pending;
  sd_strand_advance(s, &d->pool, cache, (uint32_t)n);
  sd_bump(&c->dropped[SD_DROPPED_SHED], n);
  sd_bump(&c->dropped_at[sd_level_now(d, index)], n);
  sd_bump_finished(&s->handled, n);
  /* M7: a reader that sees what was shed sees it counted as finished too (M6). */
  sd_bump_finished(&d->admissions[index].shed, n);
  sd_account_ended(d, participant, s, n);
  if (d->shed && n == pending) sd_strand_shed(s, &d->pool, cache);
  *left = sd_strand_release(s, (int64_t)n);
  return n;
}

/* Lists a strand, or a task, that was not visited. A worker that was woken for it may have looked while it was not listed. */
static void list_back(sd_dispatcher *d, uint32_t participant, uint32_t index) {
  const uint32_t list = sd_is_task(d, index) ? participant % d->n_workers : d->strands[index].last;
  sd_make_ready(d, list, &index, 1, SD_NOT_VISITED, sd_now());
  if (sd_idle_wake_one(&d->arena->idle)) sd_bump(&d->participants[participant].counters.wakes, 1);
}

/* Drops up to n pending records of levels lower than `level`. Returns how many. */
static uint64_t shed(sd_dispatcher *d, uint32_t participant, uint32_t level, uint64_t n) {
  uint32_t passed[MAX_PASSED], n_passed = 0;
  uint64_t all = 0;
  while (all < n && n_passed < MAX_PASSED) {
    const uint32_t index = d->policy->take_last(&d->ready, level);
    if (index == SD_NONE) break;
    if (sd_is_task(d, index)) {
      passed[n_passed++] = index;
      continue;
    }
    if (!sd_own(d, participant, index)) continue;
    int left;
    const uint64_t some = shed_from(d, participant, index, n - all, &left);
    all += some;
    /* It has a task first. Listed now, it would come again at once. */
    if (!some) passed[n_passed++] = index;
    else if (left) list_back(d, participant, index);
  }
  while (n_passed) list_back(d, participant, passed[--n_passed]);
  return all;
}

/* ---- admission */

/* How many more records the bounds allow, by level and in all. Under the lock. */
static uint64_t room_left(sd_dispatcher *d, uint64_t *room) {
  uint64_t pending = 0;
  for (uint32_t level = 0; level < SD_LEVEL_COUNT; level++) {
    uint64_t its = 0;
    for (uint32_t i = 0; i < d->n_participants; i++)
      its += sd_peek(&d->admitted[i].admitted[level]) - sd_peek(&d->admitted[i].ended[level]);
    const uint64_t capacity = d->config.level_capacity[level];
    room[level] = capacity ? capacity - its : UINT64_MAX;
    pending += its;
  }
  return d->config.total_capacity ? d->config.total_capacity - pending : UINT64_MAX;
}

/* Grants what there is room for of wanted[], and takes it off. Returns the highest level that could have more if there were room in all;
 * *missing: how many. SD_LEVEL_COUNT: there is none. */
static uint32_t grant(sd_dispatcher *d, uint32_t participant, sd_publisher *p, uint64_t *wanted, uint64_t *missing) {
  uint64_t room[SD_LEVEL_COUNT];
  uint32_t short_of = SD_LEVEL_COUNT;
  sd_lock(&d->arena->admission_lock);
  uint64_t in_all = room_left(d, room);
  for (uint32_t level = 0; level < SD_LEVEL_COUNT; level++) {
    const uint64_t most = wanted[level] < room[level] ? wanted[level] : room[level];
    const uint64_t n = most < in_all ? most : in_all;
    sd_bump(&d->admitted[participant].admitted[level], n);
    p->granted[level] += n;
    wanted[level] -= n;
    in_all -= n;
    if (n == most || short_of != SD_LEVEL_COUNT) continue;
    short_of = level;
    *missing = most - n;
  }
  sd_unlock(&d->arena->admission_lock);
  return short_of;
}

void sd_admit(sd_dispatcher *d, uint32_t participant, sd_publisher *p) {
  uint64_t missing = 0;
  for (uint32_t level = 0; level < SD_LEVEL_COUNT; level++) p->granted[level] = p->denied[level] = 0;
  for (uint32_t i = 0; i < p->n_waiting; i++) {
    waiting_group *w = &p->waiting[i];
    w->level = level_to_ask(d, w->strand);
    w->asked = places_for(d, w->strand, w->to - w->from);
    p->denied[w->level] += w->asked;
  }
  for (;;) {
    const uint32_t level = grant(d, participant, p, p->denied, &missing);
    if (level == SD_LEVEL_COUNT || d->config.on_full != SD_SHED) return;
    if (!shed(d, participant, level, missing)) return;
  }
}

void sd_admit_end(sd_dispatcher *d, uint32_t participant, sd_publisher *p) {
  for (uint32_t level = 0; level < SD_LEVEL_COUNT; level++)
    sd_bump(&d->admitted[participant].admitted[level], 0 - p->granted[level]);
}
