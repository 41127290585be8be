/* Visits: run a native handler over an owned strand, account for it, and let the strand go or list it again.
 *
 * worker/worker.c begins visits. worker/task.c and worker/py_batch.c, which visit in their own ways, end theirs here. */
#include "worker/visit.h"

#include "base/clock.h"
#include "numbering/failure.h"
#include "worker/accounting.h"
#include "worker/alarm.h"
#include "worker/call.h"

void sd_list_again(sd_dispatcher *d, uint32_t participant, uint32_t index, int why) {
  /* The token is this participant's, and `last` with it. */
  sd_make_ready(d, d->strands[index].last, &index, 1, why, sd_now());
  if (participant >= d->n_workers && sd_idle_wake_one(&d->arena->idle))
    sd_bump(&d->participants[participant].counters.wakes, 1);
}

/* Ends a visit to a strand that is not lossy: n records are off its queue. */
static void finish(sd_dispatcher *d, uint32_t participant, uint32_t index, int64_t n, int64_t pending, uint64_t start) {
  sd_strand *s = &d->strands[index];
  sd_strand_drained_by(d, s, participant);
  /* If everything that was there at `start` is done, the rest was published after `start`. */
  if (n == pending) s->oldest = start;
  else sd_bump(&d->participants[participant].counters.cut, 1);
  if (d->shed && n == pending) sd_strand_shed(s, &d->pool, &d->participants[participant].cache);
  if (sd_strand_release(s, n)) sd_list_again(d, participant, index, SD_VISITED);
}

int64_t sd_copy_out(sd_dispatcher *d, uint32_t participant, sd_strand *s) {
  sd_lock(&s->publish_lock);
  int64_t n = sd_strand_pending(s);
  if (n > s->queued) n = s->queued;
  if (SD_UNLIKELY(sd_strand_tasks(s)) && (uint64_t)n > sd_task_ahead(d->tasks.tasks, s))
    n = (int64_t)sd_task_ahead(d->tasks.tasks, s);
  if (n > d->config.budget_records) n = d->config.budget_records;
  /* With timers a batch may end early, and records that were copied out cannot be put back. */
  const int timed = d->handlers[s->handler].wakes || d->handlers[s->handler].wake;
  if (SD_UNLIKELY(timed) && n > 1) n = 1;
  sd_strand_gather(s, &d->pool, (uint32_t)n, d->scratch[participant]);
  sd_strand_gather_positions(s, &d->pool, (uint32_t)n, d->scratch_positions[participant]);
  if (timed) n = sd_timer_cut(d, (uint32_t)(s - d->strands), NULL, d->scratch_positions[participant], n);
  sd_strand_advance(s, &d->pool, &d->participants[participant].cache, (uint32_t)n);
  sd_task_pass(d->tasks.tasks, s, (uint32_t)n);
  s->queued = s->queued - (uint32_t)n;
  sd_unlock(&s->publish_lock);
  return n;
}

int sd_first_position(sd_dispatcher *d, uint32_t index, sd_position *position) {
  sd_strand *s = &d->strands[index];
  sd_lock(&s->publish_lock);
  int64_t n = s->lossy ? (int64_t)s->queued : sd_strand_pending(s);
  if (sd_strand_tasks(s) && sd_task_ahead(d->tasks.tasks, s) == 0) n = 0;
  if (n > 0) sd_strand_gather_positions(s, &d->pool, 1, position);
  sd_unlock(&s->publish_lock);
  return n > 0;
}

/* Counts the records that a lossy strand's owner cannot put back when it stops early. */
static void lose(sd_dispatcher *d, uint32_t participant, sd_strand *s, uint64_t n) {
  sd_store(&s->lost, sd_load(&s->lost, relaxed, C1) + (uint32_t)n, release, M7);
  sd_bump(&d->participants[participant].counters.lost, n);
}

/* Ends a visit to a lossy strand: n records were copied out. */
static void finish_lossy(sd_dispatcher *d, uint32_t participant, uint32_t index, int64_t n, uint64_t start) {
  sd_strand *s = &d->strands[index];
  sd_strand_drained_by(d, s, participant);
  s->oldest = start;
  if (d->shed) sd_strand_shed(s, &d->pool, &d->participants[participant].cache);
  if (sd_strand_release(s, n)) sd_list_again(d, participant, index, SD_VISITED);
}

static uint64_t visit_lossy(sd_dispatcher *d, uint32_t participant, uint32_t index, uint64_t start) {
  sd_strand *s = &d->strands[index];
  const sd_handler *handler = &d->handlers[s->handler];
  sd_context ctx;
  sd_context_of(d, participant, handler, &ctx);
  ctx.until = start + d->budget_counts;
  sd_charge_begin(d, participant, start, 0);
  int64_t out = 0, done = 0;
  int failed = 0;
  uint64_t end;
  do {
    const int64_t n = sd_copy_out(d, participant, s);
    sd_position first;
    if (n) {
      int64_t ran =
          sd_run_handler(d, handler, index, d->scratch[participant], d->scratch_positions[participant], n, &ctx);
      out += n;
      done += ran;
      failed = ran < n && !ctx.stopped;
      if (failed)
        sd_fail(d, participant, index, d->scratch[participant] + (size_t)ran * d->arena->record_size, done,
                ctx.error_code, ctx.message);
    } else if (!handler->wake || !sd_first_position(d, index, &first) ||
               sd_timers_fire(d, handler, &ctx, index, first.time)) {
      end = sd_now();
      break;
    }
    end = sd_now();
    /* With timers, records are copied out one at a time. */
  } while (handler->wake && !failed && out < d->config.budget_records && end <= ctx.until);
  sd_account_visit(d, participant, s, (uint64_t)done, failed, start, end);
  if (out > done + failed) lose(d, participant, s, (uint64_t)(out - done - failed));
  finish_lossy(d, participant, index, out, start);
  return end;
}

/* Asks for the rows of the next records, where they are probably not in the cache. */
static inline void prefetch_rows(const sd_dispatcher *d, const unsigned char *records, uint32_t n) {
  const uint64_t stride = d->arena->row_stride;
  const unsigned char *at = records + d->arena->key_offset;
  for (uint32_t i = 0; i < n; i++, at += d->pool.record_size) sd_prefetch_write(d->rows + sd_key_at(at) * stride);
}

/* Asks for a segment, as far as the visit will get in it. Another core wrote it; its lines arrive in parallel while the handler works on
 * the segment before. */
static inline void prefetch_segment(const sd_dispatcher *d, uint32_t segment, int64_t left) {
  const sd_segment_pool *pool = &d->pool;
  const size_t records = left < (int64_t)pool->records ? (size_t)left : pool->records;
  const unsigned char *at = (const unsigned char *)sd_segment_at(pool, segment);
  for (const unsigned char *end = sd_segment_record(pool, segment, (uint32_t)records); at < end; at += SD_LINE)
    sd_prefetch(at);
  if (!pool->positions_at) return;
  const sd_position *position = sd_segment_position(pool, segment, 0);
  for (const sd_position *end = position + records; position < end; position += SD_LINE / sizeof *position)
    sd_prefetch(position);
}

/* ---- how many records a call takes
 *
 * A visit looks at the time between calls of the handler, so calls have to be shorter where it is slow. Some symbols' records may take a
 * thousand times as long as others', so each strand learns that by itself. It begins with one record a call, and each full call that ends
 * in time doubles that, up to as many as a segment has. */

static uint32_t most_per_call(const sd_dispatcher *d, const sd_strand *s) {
  return SD_LIKELY(!s->calls) ? d->pool.records : 1u << (s->calls - 1);
}

/* After a visit that handled n records in `took`, at most `maximum` a call at its end. */
static inline void learn_calls(const sd_dispatcher *d, sd_strand *s, uint32_t maximum, uint64_t n, uint64_t took) {
  if (SD_UNLIKELY(took > d->budget_counts)) {
    const uint64_t fit = d->budget_counts * n / took;
    s->calls = (uint8_t)(64 - __builtin_clzll(fit | 1));
  } else if (SD_UNLIKELY(s->calls)) {
    s->calls = (uint8_t)(maximum < d->pool.records ? 32 - __builtin_clz(maximum) : 0);
  }
}

uint64_t sd_visit(sd_dispatcher *d, uint32_t participant, uint32_t index, uint64_t start, uint64_t ahead) {
  sd_strand *s = &d->strands[index];
  if (s->lossy) return visit_lossy(d, participant, index, start);
  const sd_handler *handler = &d->handlers[s->handler];
  sd_segment_cache *cache = &d->participants[participant].cache;
  const uint32_t records_per_segment = d->pool.records;
  int64_t pending = sd_records_pending(d, s, ahead), n = pending, done = 0;
  int failed = 0;
  uint64_t end;
  uint32_t maximum = most_per_call(d, s);
  if (n > d->config.budget_records) n = d->config.budget_records;
  sd_context ctx;
  sd_context_of(d, participant, handler, &ctx);
  ctx.until = start + d->budget_counts;
  sd_charge_begin(d, participant, start, 0);
  if (handler->wake) {
    const sd_alarm_tree t = sd_alarm_tree_of(&d->alarms, index);
    sd_alarm_ask(&t);
  }
  while (done < n) {
    unsigned char *records;
    uint32_t run = sd_strand_front(s, &d->pool, cache, (uint32_t)(n - done), &records);
    if (SD_UNLIKELY(run > maximum)) run = maximum;
    uint32_t head = sd_load(&s->head, relaxed, Q1), next = sd_load(&sd_segment_at(&d->pool, head)->next, relaxed, Q3);
    if (next != SD_NONE) prefetch_segment(d, next, n - done - run);
    const sd_position *positions = sd_segment_position(&d->pool, head, sd_load(&s->at, relaxed, Q2));
    if (d->cache_cold) prefetch_rows(d, records, run);
    int64_t ran = sd_run_handler(d, handler, index, records, positions, run, &ctx);
    failed = ran < run && !ctx.stopped;
    if (SD_UNLIKELY(failed))
      sd_fail(d, participant, index, records + (size_t)ran * d->arena->record_size, done + ran, ctx.error_code,
              ctx.message);
    uint32_t at = sd_load(&s->at, relaxed, Q2) + (uint32_t)ran + (uint32_t)failed;
    sd_store(&s->at, at, relaxed, Q2);
    done += ran;
    if (failed || ctx.stopped) break;
    const int full = run == maximum;
    if (full || (done < n && at == records_per_segment)) {
      end = sd_now();
      if (end - start > d->budget_counts) break;
    }
    if (SD_UNLIKELY(full && maximum < records_per_segment)) maximum *= 2;
  }
  end = sd_now();
  learn_calls(d, s, maximum, (uint64_t)done, end - start);
  sd_account_visit(d, participant, s, (uint64_t)done, failed, start, end);
  finish(d, participant, index, done + failed, pending, start);
  return end;
}

void sd_visit_over(sd_dispatcher *d, uint32_t participant, const sd_py_batch *batch, int64_t n, int failed) {
  sd_strand *s = &d->strands[batch->strand];
  sd_account_visit(d, participant, s, (uint64_t)n, failed, batch->start, sd_now());
  if (s->lossy) {
    if (batch->n > n + failed) lose(d, participant, s, (uint64_t)(batch->n - n - failed));
    finish_lossy(d, participant, batch->strand, batch->n, batch->start);
  } else {
    sd_strand_advance(s, &d->pool, &d->participants[participant].cache, (uint32_t)(n + failed));
    finish(d, participant, batch->strand, n + failed, batch->pending, batch->start);
  }
}
