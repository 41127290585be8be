/* When symbols' timers fire: the alarms, and which of them are due. */
#include "worker/alarm.h"

#include "sd_error.h"

void sd_lower_next_alarm(sd_dispatcher *d, uint64_t ns) {
  sd_a64 *next = &d->arena->next_alarm;
  uint64_t seen = sd_load(next, relaxed, K5);
  /* K5: acq_rel, and a read-modify-write even where it changes nothing: see worker/alarm.h. */
  while (!sd_cas(next, &seen, ns < seen ? ns : seen, acq_rel, K5)) {
  }
}

void sd_arm_leaf(sd_dispatcher *d, const sd_alarm_tree *t, uint32_t leaf, uint64_t ns) {
  if (!sd_alarm_set(t, leaf, ns ? ns : SD_NEVER)) return;
  uint64_t next = sd_alarm_next(t);
  if (next != SD_NEVER) sd_lower_next_alarm(d, next);
}

void sd_arm(sd_dispatcher *d, uint32_t key, uint64_t ns) {
  const sd_alarm_place place = d->alarms.place[key];
  const sd_alarm_tree t = sd_alarm_tree_of(&d->alarms, place.strand);
  sd_arm_leaf(d, &t, place.leaf, ns);
}

void sd_wake_at(sd_context *ctx, uint32_t key, int64_t at) {
  sd_dispatcher *d = ctx->engine;
  if (key >= d->arena->n_symbols) return;
  const uint64_t ns = sd_alarm_after(at, (int64_t)ctx->call_start);
  if (!ctx->positions) {
    ctx->alarm = ns;
    return;
  }
  if (ns && ns <= ctx->call_end) {
    ctx->yield = 1;
    ctx->wake_key = key;
  }
  sd_arm(d, key, ns);
}

void sd_timer_context(sd_context *ctx, uint32_t key, uint64_t time) {
  ctx->positions = NULL;
  ctx->keys = NULL;
  ctx->wake_key = key;
  ctx->wake_time = (int64_t)time;
  ctx->call_start = ctx->call_end = time;
  ctx->alarm = 0;
}

/* ---- what is due */

/* When the next timer of an owned strand is due. */
static inline uint64_t next_alarm(const sd_dispatcher *d, uint32_t strand) {
  const sd_alarm_tree t = sd_alarm_tree_of(&d->alarms, strand);
  return sd_alarm_next(&t);
}

int64_t sd_timer_cut(const sd_dispatcher *d, uint32_t strand, const unsigned char *records,
                     const sd_position *positions, int64_t n) {
  const size_t size = d->arena->record_size;
  uint64_t next = strand != SD_NONE ? next_alarm(d, strand) : 0;
  for (int64_t i = 0; i < n; i++) {
    if (strand == SD_NONE) next = next_alarm(d, d->map[sd_key_of(d, records + (size_t)i * size)]);
    if (SD_UNLIKELY(sd_alarm_precedes(next, positions[i].time))) return i;
  }
  return n;
}

uint32_t sd_timer_due(sd_dispatcher *d, uint32_t strand, uint64_t time, uint64_t *alarm) {
  const sd_alarm_tree t = sd_alarm_tree_of(&d->alarms, strand);
  *alarm = sd_alarm_next(&t);
  return sd_alarm_precedes(*alarm, time) ? t.symbol[sd_alarm_first(&t) - t.n] : SD_NONE;
}

void sd_overdue_done(sd_dispatcher *d, uint32_t strand) {
  /* K6: release; a sweep does not take for covered what the strand's owner arms from here on. */
  sd_store(&d->overdue_until[strand], 0, release, K6);
  /* A sweep may have found this one under way, and taken next_alarm away. K5: it sees the end, or this thread its alarm afterwards. */
  sd_lower_next_alarm(d, next_alarm(d, strand));
}

uint64_t sd_earliest_alarm(sd_dispatcher *d) {
  uint64_t earliest = SD_NEVER;
  if (!sd_timed(d)) return earliest;
  for (uint32_t strand = 0; strand < d->arena->n_strands; strand++) {
    /* K4: acquire; see sd_alarm_set(). */
    uint64_t alarm = sd_load(&sd_alarm_tree_of(&d->alarms, strand).node[1], acquire, K4);
    if (alarm >= earliest) continue;
    /* A1: acquire; pairs with S4: the caller sees what the strand emitted before it was quarantined. */
    if (sd_load(&d->strands[strand].control, acquire, A1) & SD_QUARANTINED) continue;
    earliest = alarm;
  }
  return earliest;
}

/* ---- making and unmaking */

static int make_alarms(sd_dispatcher *d) {
  sd_arena *a = d->arena;
  sd_alarms *w = &d->alarms;
  w->span = sd_arena_get(d->space, a->n_strands, sizeof *w->span, &a->alarm_spans);
  w->place = sd_arena_get(d->space, a->n_symbols, sizeof *w->place, &a->alarm_places);
  w->symbols = sd_arena_get(d->space, a->n_symbols, sizeof *w->symbols, &a->alarm_symbols);
  w->nodes = sd_arena_get(d->space, sd_alarm_nodes(a->n_symbols, a->n_strands), sizeof *w->nodes, &a->alarm_nodes);
  d->overdue_until = sd_arena_get(d->space, a->n_strands, sizeof *d->overdue_until, &a->overdue_until);
  if (!w->span || !w->place || !w->symbols || !w->nodes || !d->overdue_until) return SD_E_NO_MEMORY;
  sd_alarms_start(w, d->map, a->n_symbols, a->n_strands);
  return SD_OK;
}

int sd_timers_connect(sd_dispatcher *d) {
  sd_arena *a = d->arena;
  int finishes = 0, timed = 0;
  for (uint32_t i = 0; i < d->n_handlers; i++) {
    const sd_handler *h = &d->handlers[i];
    if (h->fn ? h->wake != NULL : h->wakes) timed = 1;
    finishes |= h->fn ? h->finish != NULL : h->finishes;
  }
  if (finishes && !(d->seen = sd_arena_get(d->space, a->n_symbols, 1, &a->seen))) return SD_E_NO_MEMORY;
  if (!timed) return SD_OK;
  if (!d->config.sizes.has_positions) return SD_E_ARGUMENT;
  const int code = make_alarms(d);
  /* K7: release; see sd_timed(). */
  if (!code) sd_store(&a->timed, 1u, release, K7);
  return code;
}
