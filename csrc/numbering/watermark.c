/* The watermark: every number below it has been handled or dropped. This file also finds the values that it is computed from, for the
 * merger and for timers. From any thread.
 *
 * The work stays off the hot path. A round takes T, the lowest number that may still be unpublished. For every strand that has something
 * pending it notes a goal: how far the strand's count of finished records has to go. The round ends when all strands are there; then all
 * below T has been handled. It reads pending before the count, so a goal can be too far but never too near. A strand that is seen empty
 * has reached its goal in any case. */
#include "numbering/watermark.h"

#include "sd_error.h"

uint64_t sd_records_finished(sd_strand *s) {
  /* M6: acquire; pairs with M7: the caller may read what the handlers of the counted records emitted. */
  return sd_load(&s->handled, acquire, M6) + sd_load(&s->failed, acquire, M6) + sd_load(&s->lost, acquire, M6);
}

int sd_records_left(sd_dispatcher *d, sd_strand *s, int64_t *left) {
  if (SD_LIKELY(!sd_strand_tasks(s))) {
    *left = sd_load(&s->pending, acquire, A1);
    return SD_OK;
  }
  if (!sd_try_lock(&s->publish_lock)) return SD_AGAIN;
  /* Nobody enqueues meanwhile, so this counts no task. Its loads show what the handlers of those finished emitted (M6). */
  uint64_t in = sd_strand_in(s);
  if (s->lossy) in -= sd_peek(&s->dropped[SD_DROPPED_OLDEST]) + sd_peek(&s->dropped[SD_DROPPED_CONFLATED]);
  *left = (int64_t)(in - sd_records_finished(s));
  sd_unlock(&s->publish_lock);
  return SD_OK;
}

/* The lowest of the next number, and of the participants' bounds; *given_back is read together with the next number. */
static uint64_t lowest_bound(sd_dispatcher *d, uint64_t *time, uint64_t *given_back) {
  sd_arena *a = d->arena;
  if (d->config.sizes.has_positions) sd_lock(&a->number_lock);
  /* M5: acquire; pairs with M4: a publisher that took a number below this one is seen publishing (M1), or has finished. */
  uint64_t low = sd_load(&a->next_sequence, acquire, M5);
  *time = sd_load(&a->feed_time, relaxed, N1);
  *given_back = sd_load(&a->given_back, relaxed, N3);
  if (d->config.sizes.has_positions) sd_unlock(&a->number_lock);
  for (uint32_t i = 0; i < d->n_participants; i++) {
    /* M2: acquire; pairs with M1. */
    uint64_t at = sd_load(&d->participants[i].publishing, acquire, M2), its;
    do {
      /* N2: acquire; if this time were later than the number just read, the load would also make the later number visible. */
      its = sd_load(&d->participants[i].published_time, acquire, N2);
      uint64_t again = sd_load(&d->participants[i].publishing, acquire, M2);
      if (again == at) break;
      at = again;
    } while (1);
    if (at == sd_not_publishing(d) || (int64_t)(at - low) >= 0) continue;
    low = at;
    *time = its;
  }
  return low;
}

uint64_t sd_lowest_unpublished(sd_dispatcher *d, uint64_t *time) {
  for (;;) {
    uint64_t given_back;
    const uint64_t low = lowest_bound(d, time, &given_back);
    /* N3: relaxed. A publisher gives numbers back while its bound is not above them. So this look found that bound, and none of these
     * numbers is below `low`; or it found the bound gone or moved on (M2), and then it finds here that numbers were given back. */
    if (SD_LIKELY(sd_load(&d->arena->given_back, relaxed, N3) == given_back)) return low;
  }
}

uint64_t sd_feed_time(sd_dispatcher *d) { return sd_load(&d->arena->feed_time, relaxed, N1); }

/* Begins a round, unless a publisher holds the lock of a strand with tasks. A handler may run under that lock, and every other thread
 * that asks for the watermark would wait for it too. */
static void watermark_round(sd_dispatcher *d) {
  sd_watermark_round *w = &d->arena->watermark;
  uint64_t time, low = sd_lowest_unpublished(d, &time);
  /* A publisher that took its lower bound long ago may name one that the watermark has already passed. */
  if ((int64_t)(low - w->at) < 0) low = w->at, time = w->time;
  uint32_t n = 0;
  for (uint32_t i = 0; i < d->arena->n_strands; i++) {
    sd_strand *s = &d->strands[i];
    int64_t pending;
    if (sd_records_left(d, s, &pending)) return;
    if (pending <= 0) continue;
    d->watermark_strand[n] = i;
    d->watermark_target[n++] = sd_records_finished(s) + (uint64_t)pending;
  }
  w->left = n;
  w->next = low;
  w->next_time = time;
}

/* Marks the strands that have reached the round's goal. The round ends when all of them have. */
static int watermark_reached(sd_dispatcher *d) {
  sd_watermark_round *w = &d->arena->watermark;
  for (uint32_t i = 0; i < w->left;) {
    sd_strand *s = &d->strands[d->watermark_strand[i]];
    int64_t left;
    if ((!sd_records_left(d, s, &left) && left <= 0) ||
        (int64_t)(sd_records_finished(s) - d->watermark_target[i]) >= 0) {
      uint32_t last = --w->left;
      d->watermark_strand[i] = d->watermark_strand[last];
      d->watermark_target[i] = d->watermark_target[last];
    } else {
      i++;
    }
  }
  if (w->left) return 0;
  w->at = w->next;
  w->time = w->next_time;
  return 1;
}

uint64_t sd_watermark(sd_dispatcher *d) {
  uint64_t time;
  return sd_watermark_time(d, &time);
}

uint64_t sd_watermark_time(sd_dispatcher *d, uint64_t *time) {
  sd_watermark_round *w = &d->arena->watermark;
  sd_lock(&w->lock);
  /* A round that began long ago has just ended, and its result is old: begin another one. */
  if (watermark_reached(d)) {
    watermark_round(d);
    watermark_reached(d);
  }
  uint64_t position = w->at;
  *time = w->time;
  sd_unlock(&w->lock);
  return position;
}

uint64_t sd_in_flight(sd_dispatcher *d) {
  uint64_t accepted = 0, gone = 0;
  for (uint32_t i = 0; i < d->n_participants; i++) {
    sd_counters *c = &d->participants[i].counters;
    gone += sd_peek(&c->handled) + sd_peek(&c->failed) + sd_peek(&c->lost);
    for (int why = 0; why < SD_DROP_REASONS; why++) gone += sd_peek(&c->dropped[why]);
  }
  for (uint32_t i = 0; i < d->n_participants; i++) accepted += sd_peek(&d->participants[i].counters.accepted);
  /* All counters start at the same number. They are read one after another, so the difference may be below 0 for a moment. */
  return (int64_t)(accepted - gone) < 0 ? 0 : accepted - gone;
}
