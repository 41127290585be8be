/* Inspecting a dispatcher: counters, histograms, single strands, and the check of the engine's invariants. From any thread. Unless the
 * dispatcher is quiescent, the values read are of slightly different moments. */
#include "engine/inspect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "blocks/blocks.h"
#include "blocks/choice.h"
#include "sd_error.h"
#include "worker/free_task.h"
#include "worker/worker.h"

/* Converts with the clock of the process that created the arena. */
static uint64_t ns_of(const sd_dispatcher *d, uint64_t counts) {
  return (uint64_t)((double)counts * d->arena->clock.ns_per_count);
}

static uint64_t visits_of(sd_dispatcher *d, uint32_t participant) {
  uint64_t visits = 0;
  for (uint32_t level = 0; level < d->n_levels; level++)
    visits += sd_peek(&sd_counts_at(d, participant, level)->visits);
  return visits;
}

void sd_participant_counters(sd_dispatcher *d, uint32_t participant, uint64_t *out) {
  sd_counters *c = &d->participants[participant].counters;
  sd_a64 *fields[SD_COUNTER_FIELDS] = {
      &c->accepted,   &c->handled,    &c->failed, &c->dropped[0], &c->dropped[1],     &c->dropped[2],
      &c->dropped[3], &c->dropped[4], &c->lost,   NULL,           &c->handled_inline, &c->handled_in_blocks,
      &c->stolen,     &c->cut,        &c->busy,   &c->parks,      &c->wakes,          &c->waited};
  for (int i = 0; i < SD_COUNTER_FIELDS; i++) out[i] = fields[i] ? sd_peek(fields[i]) : visits_of(d, participant);
  out[SD_COUNTER_BUSY] = ns_of(d, out[SD_COUNTER_BUSY]);
  out[SD_COUNTER_WAITED] = ns_of(d, out[SD_COUNTER_WAITED]);
}

uint64_t sd_dispatcher_ready(sd_dispatcher *d) {
  if (sd_held_back(d)) return 0;
  uint64_t n = 0;
  for (uint32_t list = 0; list < d->ready.n_lists; list++) n += sd_list_length(&d->ready.lists[list]);
  return n;
}

void sd_dispatcher_totals(sd_dispatcher *d, sd_totals *t) {
  memset(t, 0, sizeof *t);
  const uint64_t base = d->config.sizes.counters_start;
  /* Reads the counts of finished records before those of accepted ones, so that pending is rarely too low. */
  for (int pass = 0; pass < 2; pass++) {
    for (uint32_t i = 0; i < d->n_participants; i++) {
      sd_counters *c = &d->participants[i].counters;
      if (pass) {
        t->accepted += sd_peek(&c->accepted) - base;
        continue;
      }
      t->handled += sd_peek(&c->handled) - base;
      t->failed += sd_peek(&c->failed);
      t->lost += sd_peek(&c->lost);
      for (int level = 0; level < SD_LEVEL_COUNT; level++) t->dropped_at[level] += sd_peek(&c->dropped_at[level]);
      for (int why = 0; why < SD_DROP_REASONS; why++) t->dropped[why] += sd_peek(&c->dropped[why]);
      t->visits += visits_of(d, i);
      t->handled_inline += sd_peek(&c->handled_inline);
      t->handled_ungrouped += sd_peek(&c->handled_ungrouped);
      t->handled_in_blocks += sd_peek(&c->handled_in_blocks);
      t->stolen += sd_peek(&c->stolen);
      t->cut += sd_peek(&c->cut);
      t->parks += sd_peek(&c->parks);
      t->wakes += sd_peek(&c->wakes);
    }
  }
  t->pending = t->accepted - t->handled - t->failed - t->lost;
  for (int why = 0; why < SD_DROP_REASONS; why++) t->pending -= t->dropped[why];
  /* A reader without locks may see that a record is finished before it sees that the record was accepted. What is finished must have been
   * accepted. */
  if ((int64_t)t->pending < 0) {
    t->accepted -= t->pending;
    t->pending = 0;
  }
  t->failures = sd_load(&d->arena->failures, acquire, F2);
  t->watermark_sequence = sd_load(&d->arena->next_sequence, acquire, M5);
}

void sd_dispatcher_blocks(sd_dispatcher *d, sd_blocks_told *out) {
  sd_block_counts *c = &d->arena->blocks;
  *out = (sd_blocks_told){
      .ingest = d->config.ingest,
      .reason = (int32_t)sd_peek(&c->reason) - 1,
      .runs = sd_peek(&c->runs),
      .refused = sd_peek(&c->refused),
      .slots = sd_peek(&c->slots),
      .homes = sd_peek(&c->homes),
      .used = sd_peek(&c->used),
      .behind = sd_peek(&c->behind),
      .adopted = sd_peek(&c->adopted),
      .elapsed = ns_of(d, sd_peek(&c->elapsed)),
      .threads = ns_of(d, sd_peek(&c->threads)),
      .reading = ns_of(d, sd_peek(&c->reading)),
      .listing = ns_of(d, sd_peek(&c->listing)),
      .handling = ns_of(d, sd_peek(&c->handling)),
      .busiest = ns_of(d, sd_peek(&c->busiest)),
      .tried_after = sd_choice_tried_after(d->arena->n_symbols),
  };
  for (int i = 0; i < 2; i++) out->cost[i] = (double)sd_peek(&c->cost[i]) / 1024 * d->arena->clock.ns_per_count;
}

int sd_dispatcher_policy_counts(sd_dispatcher *d, sd_policy_counts *out) {
  memset(out, 0, sizeof *out);
  if (!d->policy->counts) return SD_FIFO;
  d->policy->counts(&d->ready, out);
  return d->config.policy.number;
}

int sd_dispatcher_group_counts(sd_dispatcher *d, uint32_t n, sd_group_counts *groups, sd_fair_counts *all) {
  if (!d->policy->group_counts) return SD_E_ARGUMENT;
  d->policy->group_counts(&d->ready, n, groups, all);
  return SD_OK;
}

uint32_t sd_groups_returned(sd_dispatcher *d, uint32_t n, int all, uint32_t *groups, sd_group_counts *counts) {
  return d->policy->returned ? d->policy->returned(&d->ready, n, all, groups, counts) : 0;
}

int sd_group_close(sd_dispatcher *d, uint32_t group) {
  return d->policy->close && d->policy->close(&d->ready, group) ? SD_OK : SD_E_ARGUMENT;
}

uint32_t sd_dispatcher_levels(sd_dispatcher *d) { return d->n_levels; }

void sd_histogram_sum(sd_dispatcher *d, int which, uint32_t level, uint64_t *counts) {
  memset(counts, 0, SD_BUCKETS * sizeof *counts);
  for (uint32_t i = 0; i < d->n_participants; i++) {
    sd_level_counts *at = sd_counts_at(d, i, level);
    sd_histogram *h = which == SD_WAIT ? &at->wait : which == SD_HANDLER_TIME ? &at->handler : &at->end_to_end;
    for (int b = 0; b < SD_BUCKETS; b++) counts[b] += sd_peek(&h->bucket[b]);
  }
}

void sd_dispatcher_at_level(sd_dispatcher *d, uint32_t level, sd_at_level *out) {
  uint64_t listed[SD_MOST_LEVELS] = {0};
  memset(out, 0, sizeof *out);
  for (uint32_t i = 0; i < d->n_participants; i++) {
    sd_level_counts *at = sd_counts_at(d, i, level);
    out->visits += sd_peek(&at->visits);
    out->failed += sd_peek(&at->failed);
  }
  if (d->policy->listed) d->policy->listed(&d->ready, listed);
  else
    for (uint32_t list = 0; list < d->ready.n_lists; list++) listed[0] += sd_list_length(&d->ready.lists[list]);
  out->listed = listed[level];
}

void sd_bucket_floors(double ns_per_count, double *ns) {
  for (unsigned b = 0; b < SD_BUCKETS; b++) ns[b] = (double)sd_bucket_floor(b) * ns_per_count;
}

double sd_ns_per_count(void) {
  sd_clock_init();
  return sd_the_clock.ns_per_count;
}

void sd_strand_counts(sd_dispatcher *d, uint32_t strand, sd_inspection *out) {
  sd_strand *s = &d->strands[strand];
  out->pending = sd_load(&s->pending, acquire, A1);
  out->owner = sd_owner_in(sd_load(&s->owner, relaxed, C2));
  /* M6: acquire; pairs with M7: what was shed is in `handled` as well, and is taken off there. */
  const uint64_t shed = d->admissions ? sd_load(&d->admissions[strand].shed, acquire, M6) : 0;
  out->handled = sd_peek(&s->handled) - shed - d->config.sizes.counters_start;
  out->failed = sd_load(&s->failed, relaxed, C2);
  out->lost = sd_load(&s->lost, relaxed, C2);
  for (int why = 0; why < SD_PUBLISH_REASONS; why++) out->dropped[why] = sd_peek(&s->dropped[why]);
  out->dropped[SD_DROPPED_SHED] = shed;
  out->accepted = sd_peek(&s->accepted) - d->config.sizes.counters_start;
  out->control = sd_load(&s->control, relaxed, C2);
  out->capacity = s->capacity;
  out->tasks = 0;
}

int sd_strand_inspect(sd_dispatcher *d, uint32_t strand, sd_inspection *out) {
  if (strand >= d->arena->n_strands) return SD_E_ARGUMENT;
  sd_strand *s = &d->strands[strand];
  sd_strand_counts(d, strand, out);
  if (sd_strand_tasks(s)) {
    sd_lock(&s->publish_lock);
    out->tasks = sd_task_count(d->tasks.tasks, s);
    /* A1 */
    out->pending = sd_load(&s->pending, acquire, A1) - out->tasks;
    sd_unlock(&s->publish_lock);
  }
  return SD_OK;
}

int sd_dispatcher_time_strands(sd_dispatcher *d) {
  sd_arena *a = d->arena;
  if (!d->strand_time) d->strand_time = sd_arena_get(d->space, a->n_strands, sizeof *d->strand_time, &a->strand_times);
  if (!d->strand_time) return SD_E_NO_MEMORY;
  return d->handlers ? sd_blocks_decide(d) : SD_OK;
}

void sd_strand_times(sd_dispatcher *d, uint64_t *ns, uint64_t *records) {
  for (uint32_t i = 0; i < d->arena->n_strands; i++) {
    ns[i] = d->strand_time ? ns_of(d, sd_peek(&d->strand_time[i].counts)) : 0;
    records[i] = d->strand_time ? sd_peek(&d->strand_time[i].records) : 0;
  }
}

/* Whether the strand's token is with a task that is away, or was when a stop ended it. */
static int is_with_task(sd_dispatcher *d, uint32_t strand, uint32_t listed) {
  sd_strand *s = &d->strands[strand];
  int away = 0;
  sd_lock(&s->publish_lock);
  if (sd_strand_tasks(s)) {
    sd_task *first = &d->tasks.tasks[sd_first_task(d->tasks.tasks, s) - 1];
    const uint32_t state = sd_task_state(sd_task_word(first));
    /* S2: relaxed; nothing runs. */
    const int elsewhere = listed || (sd_load(&s->control, relaxed, S2) & SD_SET_ASIDE);
    away = state == SD_TASK_AWAY || (state == SD_TASK_FREE && !elsewhere);
  }
  sd_unlock(&s->publish_lock);
  return away;
}

/* `elsewhere`: in how many other places its token is. */
static const char *wrong_with(const sd_inspection *k, uint32_t elsewhere) {
  uint64_t dropped = k->dropped[0] + k->dropped[1] + k->dropped[2] + k->dropped[3] + k->dropped[4];
  if (k->owner) return "owned although nothing runs";
  if (k->pending < 0) return "pending is negative";
  if (k->accepted != k->handled + k->failed + k->lost + dropped + (uint64_t)k->pending)
    return "accepted is not handled + failed + lost + dropped + pending";
  uint32_t places = elsewhere + ((k->control & SD_SET_ASIDE) != 0);
  if (k->pending + k->tasks && places != 1) return places ? "its token is in more than one place" : "its token is lost";
  if (!(k->pending + k->tasks) && places) return "listed although nothing is pending";
  return NULL;
}

/* A stop ends tasks where they stand: all of them. */
static const char *wrong_after_stop(sd_dispatcher *d) {
  for (uint32_t i = 0; i < d->tasks.list->unused; i++)
    if (sd_task_state(sd_task_word(&d->tasks.tasks[i])) != SD_TASK_FREE) return "a task is not over after the stop";
  for (int on_strands = 0; on_strands < SD_TASK_KINDS; on_strands++) {
    sd_task_totals all;
    sd_tasks_total(d, on_strands, &all);
    if (all.submitted != all.ended) return "not all tasks are counted as ended after the stop";
  }
  return NULL;
}

/* Tasks of each kind are where they should be: free ones listed once each, and those on strands as many as were found there. */
static const char *wrong_with_tasks(sd_dispatcher *d, const uint32_t *listed, uint64_t on_strands) {
  sd_task_totals free_tasks, others;
  uint64_t there = 0;
  int64_t overdue = 0;
  for (uint32_t i = 0; i < d->tasks.list->unused; i++) {
    if (listed[i] > 1) return "a task is listed twice";
    if (listed[i] && sd_task_state(sd_task_word(&d->tasks.tasks[i])) == SD_TASK_FREE)
      return "a task is listed that is over";
    const uint64_t word = sd_task_word(&d->tasks.tasks[i]);
    const int away = !(word & SD_TASK_ON_STRAND) && sd_task_state(word) == SD_TASK_AWAY;
    if (listed[i] && away) return "a task is listed that is away";
    there += listed[i] + (uint32_t)away;
    overdue += (word & SD_TASK_OVERDUE) != 0;
  }
  if (d->tasks.list->kept + overdue != d->arena->n_strands) return "not each strand has an entry for its overdue alarm";
  sd_tasks_total(d, 0, &free_tasks);
  sd_tasks_total(d, 1, &others);
  if (free_tasks.submitted - free_tasks.ended != there)
    return "free tasks that have not ended are neither listed nor away";
  return others.submitted - others.ended == on_strands ? NULL : "tasks that have not ended are not those on strands";
}

int sd_dispatcher_verify(sd_dispatcher *d, uint32_t *strand, char *what) {
  uint32_t *listed = calloc(d->ready.n_entries, sizeof *listed);
  uint64_t tasks = 0;
  if (!listed) return SD_E_NO_MEMORY;
  *strand = SD_NONE;
  int code = SD_OK;
  for (uint32_t list = 0; list < d->ready.n_lists; list++)
    if (!d->policy->count(&d->ready, list, listed)) code = SD_E_CORRUPT;
  if (code) snprintf(what, 128, "a list of ready strands is damaged");
  for (uint32_t i = 0; !code && i < d->arena->n_strands; i++) {
    sd_inspection look;
    sd_strand_inspect(d, i, &look);
    tasks += look.tasks;
    const char *wrong = wrong_with(&look, listed[i] + (uint32_t)is_with_task(d, i, listed[i]));
    if (!wrong) continue;
    snprintf(what, 128, "%s", wrong);
    *strand = i;
    code = SD_E_CORRUPT;
  }
  const char *wrong = code                                  ? NULL
                      : sd_permits_held(&d->arena->permits) ? "a permit is held although nothing runs"
                      : d->tasks.list->closed               ? wrong_after_stop(d)
                                                            : wrong_with_tasks(d, listed + d->arena->n_strands, tasks);
  if (wrong) {
    snprintf(what, 128, "%s", wrong);
    code = SD_E_CORRUPT;
  }
  free(listed);
  return code;
}
