/* Workers: take a ready strand, run its handlers over a quantum, let it go or list it again. */
#include "sd_clock.h"
#include "sd_dispatcher.h"
#include "sd_error.h"
#include "sd_timer.h"

#include <stdio.h>
#include <string.h>

#if defined(SD_MODEL_SCHEDULER)
enum {
  STEAL_MOST = 32,
  STEAL_LENGTH = 2,
  STEAL_TURNS = 2,
  SPIN_TURNS = 2,
  YIELD_TURNS = 1,
  PARK_TURNS = 1,
  EAGER_TURNS = 1,
  PAUSES = 1,
  MORE_PAUSES = 2
};
#else
enum {
  STEAL_MOST = 32,
  STEAL_LENGTH = 8,
  STEAL_TURNS = 4,
  SPIN_TURNS = 4000,
  YIELD_TURNS = 64,
  PARK_TURNS = 64,
  EAGER_TURNS =
      256, /* looks before there are more pauses between them, which a neighbour on the same core has the use of */
  PAUSES = 8,
  MORE_PAUSES = 32
};
#endif

void sd_context_of(sd_dispatcher *d, uint32_t slot, const sd_handler *handler, sd_context *ctx) {
  ctx->params = handler->params;
  ctx->row_stride = d->arena->row_stride;
  ctx->n_rows = d->arena->n_symbols;
  ctx->record_size = d->arena->record_size;
  ctx->slot = slot;
  ctx->error_code = 0;
  ctx->message[0] = 0;
  ctx->engine = d;
  ctx->publish = sd_publish_from_handler;
  ctx->marks = NULL;
  ctx->wake_at = handler->wake ? sd_wake_at : NULL;
  ctx->keys = NULL;
  ctx->n_outputs = handler->n_outputs;
  ctx->sinks = ctx->n_outputs ? sd_sinks_of(d, slot, handler) : NULL;
  ctx->wake_key = 0;
  ctx->wake_time = 0;
  ctx->wake_number = SD_TIMER;
  ctx->yield = ctx->stopped = 0;
}

int64_t sd_run_handler(sd_dispatcher *d, const sd_handler *handler, const unsigned char *records, const sd_mark *marks,
                       int64_t n, sd_context *ctx) {
  int64_t done;
  if (SD_UNLIKELY(handler->finish != NULL)) sd_note_seen(d, records, n);
  if (SD_LIKELY(!handler->wake)) {
    ctx->marks = marks;
    ctx->keys = records + d->arena->key_offset;
    done = handler->fn(d->rows, (const sd_tick *)records, n, ctx);
  } else {
    done = sd_run_timed(d, handler, records, marks, n, ctx);
    if (SD_UNLIKELY(ctx->stopped)) return done;
  }
  if (SD_LIKELY(done == n)) {
    if (ctx->n_outputs) sd_sinks_commit(ctx);
    return n;
  }
  if (done < 0 || done > n) {
    snprintf(ctx->message, sizeof ctx->message, "the handler returned %lld for %lld records", (long long)done,
             (long long)n);
    done = 0;
  }
  if (ctx->n_outputs) sd_sinks_void(ctx, marks[done].number);
  return done;
}

/* Books a visit to strand s that handled n records, and failed on one more if `failed`. By the holder. */
static void book(sd_dispatcher *d, uint32_t slot, sd_strand *s, int64_t n, int failed, uint64_t start, uint64_t end) {
  sd_counters *c = &d->slots[slot].counters;
  uint64_t took = end - start, waited = start > s->oldest ? start - s->oldest : 0, records = (uint64_t)(n + failed);
  sd_bump_finished(&s->handled, (uint64_t)n);
  sd_bump(&c->handled, (uint64_t)n);
  if (failed) {
    sd_store(&s->failed, sd_load(&s->failed, relaxed, C1) + 1, release, M7);
    sd_bump(&c->failed, 1);
  }
  sd_bump(&c->visits, 1);
  sd_bump(&c->busy, took);
  if (SD_UNLIKELY(d->strand_time != NULL)) {
    sd_strand_time *time = &d->strand_time[s - d->strands];
    sd_bump(&time->counts, took);
    sd_bump(&time->records, records);
  }
  if (!records) return;
  sd_record(&c->wait, waited, records);
  sd_record(&c->handler, took / records, records);
  sd_record(&c->end_to_end, waited + took, records);
}

/* A worker comes back to its own list by itself. A publisher that helped may not: somebody has to know of it. */
static void list_again(sd_dispatcher *d, uint32_t slot, uint32_t index) {
  sd_make_ready(d, slot, &index, 1);
  if (slot >= d->n_workers && sd_idle_wake_one(&d->arena->idle)) sd_bump(&d->slots[slot].counters.wakes, 1);
}

/* Ends a visit to a strand that is not lossy: n records are off its queue. */
static void finish(sd_dispatcher *d, uint32_t slot, uint32_t index, int64_t n, int64_t pending, uint64_t start) {
  sd_strand *s = &d->strands[index];
  s->last = slot;
  /* What is left was published after `start`, if all that was there then is done. */
  if (n == pending) s->oldest = start;
  else sd_bump(&d->slots[slot].counters.cut, 1);
  if (d->shed && n == pending) sd_strand_shed(s, &d->pool, &d->slots[slot].cache);
  if (sd_strand_release(s, n)) list_again(d, slot, index);
}

/* Copies what waits on a lossy strand, under its lock, up to a quantum. */
static int64_t copy_out(sd_dispatcher *d, uint32_t slot, sd_strand *s) {
  sd_lock(&s->publish_lock);
  int64_t n = sd_strand_pending(s);
  if (n > s->queued) n = s->queued;
  if (SD_UNLIKELY(sd_strand_tasks(s)) && (uint64_t)n > sd_task_ahead(&d->tasks, s))
    n = (int64_t)sd_task_ahead(&d->tasks, s);
  if (n > d->config.quantum_records) n = d->config.quantum_records;
  /* What is copied out cannot be put back where Python ends its batch at a timer. */
  if (SD_UNLIKELY(d->handlers[s->handler].wakes) && n > 1) n = 1;
  sd_strand_gather(s, &d->pool, (uint32_t)n, d->scratch[slot]);
  sd_strand_gather_marks(s, &d->pool, (uint32_t)n, d->scratch_marks[slot]);
  if (d->handlers[s->handler].wakes) n = sd_timer_cut(d, d->scratch[slot], d->scratch_marks[slot], n);
  sd_strand_advance(s, &d->pool, &d->slots[slot].cache, (uint32_t)n);
  sd_task_pass(&d->tasks, s, (uint32_t)n);
  s->queued = s->queued - (uint32_t)n;
  sd_unlock(&s->publish_lock);
  return n;
}

/* What a lossy strand's holder cannot put back when it stops short. */
static void lose(sd_dispatcher *d, uint32_t slot, sd_strand *s, uint64_t n) {
  sd_store(&s->lost, sd_load(&s->lost, relaxed, C1) + (uint32_t)n, release, M7);
  sd_bump(&d->slots[slot].counters.lost, n);
}

/* Ends a visit to a lossy strand: n records were copied out. */
static void finish_lossy(sd_dispatcher *d, uint32_t slot, uint32_t index, int64_t n, uint64_t start) {
  sd_strand *s = &d->strands[index];
  s->last = slot;
  s->oldest = start;
  if (d->shed) sd_strand_shed(s, &d->pool, &d->slots[slot].cache);
  if (sd_strand_release(s, n)) list_again(d, slot, index);
}

static uint64_t visit_lossy(sd_dispatcher *d, uint32_t slot, uint32_t index, uint64_t start) {
  sd_strand *s = &d->strands[index];
  const sd_handler *handler = &d->handlers[s->handler];
  sd_context ctx;
  sd_context_of(d, slot, handler, &ctx);
  int64_t n = copy_out(d, slot, s),
          done = n ? sd_run_handler(d, handler, d->scratch[slot], d->scratch_marks[slot], n, &ctx) : 0;
  int failed = done < n && !ctx.stopped;
  uint64_t end = sd_now();
  if (failed)
    sd_fail(d, slot, index, d->scratch[slot] + (size_t)done * d->arena->record_size, done, ctx.error_code, ctx.message);
  book(d, slot, s, done, failed, start, end);
  if (n > done + failed) lose(d, slot, s, (uint64_t)(n - done - failed));
  finish_lossy(d, slot, index, n, start);
  return end;
}

/* How many records of a strand in hand may be handled: those before its first task, where it has one. */
static inline int64_t records_pending(sd_dispatcher *d, sd_strand *s) {
  int64_t pending = sd_strand_pending(s);
  if (SD_LIKELY(!sd_strand_tasks(s))) return pending;
  sd_lock(&s->publish_lock);
  pending = (int64_t)sd_task_ahead(&d->tasks, s);
  sd_unlock(&s->publish_lock);
  return pending;
}

/* One visit with a native handler. Returns the clock at its end. */
static uint64_t visit(sd_dispatcher *d, uint32_t slot, uint32_t index, uint64_t start) {
  sd_strand *s = &d->strands[index];
  if (s->lossy) return visit_lossy(d, slot, index, start);
  const sd_handler *handler = &d->handlers[s->handler];
  sd_block_cache *cache = &d->slots[slot].cache;
  const uint32_t records_a_block = d->pool.records;
  int64_t pending = records_pending(d, s), n = pending, done = 0;
  int failed = 0;
  uint64_t end;
  /* Time is looked at between calls, so calls have to be shorter where handlers are slow. */
  uint32_t *most = &d->slots[slot].most_a_call;
  if (n > d->config.quantum_records) n = d->config.quantum_records;
  sd_context ctx;
  sd_context_of(d, slot, handler, &ctx);
  while (done < n) {
    unsigned char *records;
    uint32_t run = sd_strand_front(s, &d->pool, cache, (uint32_t)(n - done), &records);
    if (SD_UNLIKELY(run > *most)) run = *most;
    uint32_t head = sd_load(&s->head, relaxed, Q1), next = sd_load(&sd_block_at(&d->pool, head)->next, relaxed, Q3);
    if (next != SD_NONE) {
      sd_prefetch(sd_block_record(&d->pool, next, 0));
      sd_prefetch(sd_block_at(&d->pool, next));
    }
    const sd_mark *marks = sd_block_mark(&d->pool, head, sd_load(&s->at, relaxed, Q2));
    int64_t ran = sd_run_handler(d, handler, records, marks, run, &ctx);
    failed = ran < run && !ctx.stopped;
    if (SD_UNLIKELY(failed))
      sd_fail(d, slot, index, records + (size_t)ran * d->arena->record_size, done + ran, ctx.error_code, ctx.message);
    uint32_t at = sd_load(&s->at, relaxed, Q2) + (uint32_t)ran + (uint32_t)failed;
    sd_store(&s->at, at, relaxed, Q2);
    done += ran;
    if (failed || ctx.stopped) break;
    if (done < n && (at == records_a_block || run == *most)) {
      end = sd_now();
      if (end - start > d->quantum_counts) break;
    }
  }
  end = sd_now();
  if (SD_UNLIKELY(end - start > d->quantum_counts)) *most = *most > 1 ? *most / 2 : 1;
  else if (SD_UNLIKELY(*most < records_a_block)) *most = 2 * *most;
  book(d, slot, s, done, failed, start, end);
  finish(d, slot, index, done + failed, pending, start);
  return end;
}

/* The next entries of the own list, while the strand before them is drained: header two on, first records one on. */
static inline void prefetch_next(sd_dispatcher *d, uint32_t slot, uint32_t length) {
  sd_list *list = &d->lists[slot];
  sd_strand *next = &d->strands[sd_list_peek(list, sd_ring(d, slot), 0)];
  uint32_t head = sd_load(&next->head, relaxed, Q1), at = sd_load(&next->at, relaxed, Q2);
  if (head != SD_NONE) sd_prefetch(sd_block_record(&d->pool, head, at < d->pool.records ? at : 0));
  if (length > 1) sd_prefetch_write(&d->strands[sd_list_peek(list, sd_ring(d, slot), 1)]);
}

/* A strand off slot's own list. SD_NONE: it is empty. */
static uint32_t next_own(sd_dispatcher *d, uint32_t slot) {
  uint32_t got;
  if (!d->policy->pick(d, slot, &got, 1, 4)) return SD_NONE;
  uint32_t length = sd_list_length(&d->lists[slot]);
  if (length) {
    /* Others may want what stays behind while this worker is busy. */
    if (sd_idle_wake_one(&d->arena->idle)) sd_bump(&d->slots[slot].counters.wakes, 1);
    prefetch_next(d, slot, length);
  }
  return got;
}

/* To steal from a worker that gets through a short list by itself would cost both more than it gives: the strands' lines
 * move over, and back with the next batch. */
static int worth_stealing(sd_dispatcher *d, uint32_t victim, sd_watch *w) {
  uint32_t length = sd_list_length(&d->lists[victim]);
  if (length == 0) {
    w->turns = 0;
    return 0;
  }
  if (length >= STEAL_LENGTH || victim >= d->n_workers) return 1;
  uint64_t visits = sd_peek(&d->slots[victim].counters.visits);
  if (visits != w->visits) {
    w->visits = visits;
    w->turns = 0;
    return 0;
  }
  return ++w->turns >= STEAL_TURNS;
}

/* Half of what is ready elsewhere, one to drain and the others for the own list. SD_NONE: there is nothing to be had. */
static uint32_t next_stolen(sd_dispatcher *d, uint32_t slot, sd_watch *watches) {
  uint32_t got[STEAL_MOST];
  for (uint32_t i = 1; i < d->n_slots; i++) {
    uint32_t victim = slot + i < d->n_slots ? slot + i : slot + i - d->n_slots;
    if (!worth_stealing(d, victim, &watches[victim])) continue;
    uint32_t n = d->policy->pick(d, victim, got, STEAL_MOST, 2);
    if (!n) continue;
    watches[victim].turns = 0;
    sd_bump(&d->slots[slot].counters.stolen, n);
    if (n > 1) {
      sd_make_ready(d, slot, got + 1, n - 1);
      if (sd_idle_wake_one(&d->arena->idle)) sd_bump(&d->slots[slot].counters.wakes, 1);
    }
    return got[0];
  }
  return SD_NONE;
}

/* Makes the caller the owner of a strand it took off a list. Zero: it is held back, or the protocol is broken. */
static int own(sd_dispatcher *d, uint32_t slot, uint32_t index) {
  sd_strand *s = &d->strands[index];
  if (SD_UNLIKELY(sd_load(&s->control, relaxed, S2)) && sd_strand_set_aside(s)) return 0;
  if (SD_LIKELY(sd_strand_take(s, slot))) return 1;
  sd_fail(d, slot, index, NULL, 0, SD_E_CORRUPT,
          "a strand was taken while another worker owned it: please report this");
  sd_dispatcher_stop(d);
  return 0;
}

/* ---- tasks */

enum { TASK_LATER = 0, TASK_TAKEN, TASK_WAKES, TASK_GONE, TASK_LEFT };

/* Ends the first task of a strand in hand, and the visit with it. */
static void end_task(sd_dispatcher *d, uint32_t slot, uint32_t index) {
  sd_strand *s = &d->strands[index];
  sd_lock(&s->publish_lock);
  uint32_t task = sd_task_unlink(&d->tasks, s);
  sd_unlock(&s->publish_lock);
  sd_task_free(&d->tasks, task);
  s->last = slot;
  if (sd_strand_release(s, 1)) list_again(d, slot, index);
}

/* The clock's task has its turn: fires timers, or leaves the next one to Python. */
static int run_clock(sd_dispatcher *d, uint32_t slot, uint32_t index, uint64_t time, sd_claim *claim) {
  sd_strand *s = &d->strands[index];
  sd_clock_begins(d, index);
  if (d->handlers[s->handler].fn) {
    if (!sd_timer_fire_all(d, slot, index, time)) {
      end_task(d, slot, index);
    } else if (sd_strand_release(s, 0)) {
      /* One failed: the others come when the strand is let go on. */
      list_again(d, slot, index);
    }
    return TASK_GONE;
  }
  *claim = (sd_claim){.strand = index, .handler = s->handler, .start = sd_now()};
  claim->wake_key = sd_timer_due(d, index, time, &claim->wake_time);
  if (claim->wake_key != SD_NONE) return TASK_WAKES;
  end_task(d, slot, index);
  return TASK_GONE;
}

/* Whose turn it is on a strand in hand that has tasks: TASK_LATER: records come first; TASK_TAKEN: a task, and *claim is it;
 * TASK_WAKES: the clock's, and *claim is a timer of Python's; TASK_GONE: one that was given up, or the clock's, which is over now. Without a claim the caller can run none: then TASK_LEFT says that the
 * strand is a worker's again. */
static int take_task(sd_dispatcher *d, uint32_t slot, uint32_t index, sd_claim *claim) {
  sd_strand *s = &d->strands[index];
  sd_lock(&s->publish_lock);
  sd_task *t = &d->tasks.tasks[sd_strand_tasks(s) - 1];
  int found = TASK_LATER;
  uint64_t tag = t->tag;
  if (sd_task_ahead(&d->tasks, s) == 0) {
    found = t->state == SD_TASK_CANCELLED ? TASK_GONE : claim ? TASK_TAKEN : TASK_LEFT;
    /* From here on it can neither be given up nor be used again. */
    if (found == TASK_TAKEN || found == TASK_GONE) t->state = SD_TASK_RUNS;
  }
  sd_unlock(&s->publish_lock);
  if ((tag & SD_TASK_CLOCK) && (found == TASK_TAKEN || (found == TASK_LEFT && d->handlers[s->handler].fn)))
    return run_clock(d, slot, index, tag & ~SD_TASK_CLOCK, claim);
  if (found == TASK_TAKEN) {
    *claim = (sd_claim){.strand = index, .handler = s->handler, .start = sd_now(), .task = tag};
  } else if (found == TASK_GONE) {
    end_task(d, slot, index);
  } else if (found == TASK_LEFT) {
    /* Listed with a worker: from a publisher's own list it would come back to the publisher first. */
    uint32_t list = s->last < d->n_workers ? (uint32_t)s->last : index % d->n_workers;
    s->last = list;
    if (sd_strand_release(s, 0)) sd_make_ready(d, list, &index, 1);
    if (sd_idle_wake_one(&d->arena->idle)) sd_bump(&d->slots[slot].counters.wakes, 1);
  }
  return found;
}

int sd_worker_wake_done(sd_dispatcher *d, uint32_t slot, const sd_claim *claim, uint64_t wish, int32_t code,
                        const char *message) {
  const uint32_t index = claim->strand, key = claim->wake_key;
  const sd_handler *handler = &d->handlers[claim->handler];
  if (!handler->wakes || key >= d->arena->n_symbols) return SD_E_ARGUMENT;
  if (handler->n_outputs) {
    sd_context ctx;
    sd_context_of(d, slot, handler, &ctx);
    if (code) sd_sinks_void(&ctx, 0);
    else sd_sinks_commit(&ctx);
  }
  sd_timer_over(d, key, wish && wish <= claim->wake_time ? claim->wake_time + 1 : wish);
  if (code) sd_fail_symbol(d, slot, index, key, claim->wake_time, 0, code, message);
  d->strands[index].last = slot;
  if (sd_strand_release(&d->strands[index], 0)) list_again(d, slot, index);
  return SD_OK;
}

int sd_claim_wake_at(sd_dispatcher *d, const sd_claim *claim, int64_t handled, uint64_t ns) {
  uint32_t key;
  if (!d->handlers[claim->handler].wakes || handled < 1 || handled > claim->n) return SD_E_ARGUMENT;
  const unsigned char *record = (const unsigned char *)claim->records + (size_t)(handled - 1) * d->arena->record_size;
  if (ns && ns <= claim->marks[handled - 1].time) return SD_E_ARGUMENT;
  memcpy(&key, record + d->arena->key_offset, sizeof key);
  sd_timer_over(d, key, ns);
  return SD_OK;
}

void sd_worker_task_done(sd_dispatcher *d, uint32_t slot, const sd_claim *claim) { end_task(d, slot, claim->strand); }

int sd_task_queue(sd_dispatcher *d, uint32_t strand, uint64_t tag) {
  if (strand >= d->arena->n_strands) return SD_E_ARGUMENT;
  sd_strand *s = &d->strands[strand];
  uint32_t task = sd_task_new(&d->tasks), list = 0;
  sd_lock(&s->publish_lock);
  int revived = sd_task_revive(&d->tasks, s, tag), ready = 0;
  if (!revived && task) {
    sd_task_link(&d->tasks, s, task, tag);
    ready = sd_strand_add(s, 1);
    /* The token is ours: so are `last` and `oldest`. */
    if (ready) {
      list = s->last;
      s->oldest = sd_now();
    }
  }
  sd_unlock(&s->publish_lock);
  if (revived && task) sd_task_free(&d->tasks, task);
  if (!revived && !task) return SD_AGAIN;
  if (ready) {
    sd_make_ready(d, list, &strand, 1);
    sd_idle_wake_one(&d->arena->idle);
  }
  return SD_OK;
}

int sd_task_give_up(sd_dispatcher *d, uint32_t strand, uint64_t tag) {
  if (strand >= d->arena->n_strands) return SD_E_ARGUMENT;
  sd_strand *s = &d->strands[strand];
  sd_lock(&s->publish_lock);
  int done = sd_task_cancel(&d->tasks, s, tag);
  sd_unlock(&s->publish_lock);
  return done ? SD_OK : SD_AGAIN;
}

int sd_help(sd_dispatcher *d, uint32_t slot) {
  uint32_t index = next_own(d, slot);
  for (uint32_t i = 1; index == SD_NONE && i < d->n_slots; i++)
    if (!d->policy->pick(d, (slot + i) % d->n_slots, &index, 1, 4)) index = SD_NONE;
  if (index == SD_NONE) return 0;
  if (!own(d, slot, index)) return 1;
  if (SD_UNLIKELY(sd_strand_tasks(&d->strands[index]))) {
    int turn_of = take_task(d, slot, index, NULL);
    if (turn_of == TASK_LEFT) return 0;
    if (turn_of == TASK_GONE) return 1;
  }
  visit(d, slot, index, sd_now());
  return 1;
}

static int anything_ready(sd_dispatcher *d) {
  for (uint32_t i = 0; i < d->n_slots; i++)
    if (sd_list_look(&d->lists[i])) return 1;
  return 0;
}

/* Sleeps unless there is something to do. Nonzero: a wake-up may have counted on this worker. */
static int park(sd_dispatcher *d, uint32_t slot) {
  sd_idle *idle = &d->arena->idle;
  uint32_t epoch = sd_idle_enter(idle);
  if (!sd_dispatcher_stopping(d) && !anything_ready(d)) {
    sd_bump(&d->slots[slot].counters.parks, 1);
    sd_idle_sleep(idle, epoch);
  }
  sd_idle_leave(idle);
  return 1;
}

/* One turn of waiting; nonzero as park(). */
static int be_idle(sd_dispatcher *d, uint32_t slot, uint32_t turn) {
  int how = d->config.idle;
  if (how == SD_IDLE_SPIN || (how == SD_IDLE_BACKOFF && turn < SPIN_TURNS) ||
      (how == SD_IDLE_PARK && turn < PARK_TURNS)) {
    const int pauses = turn < EAGER_TURNS ? PAUSES : MORE_PAUSES;
    for (int i = 0; i < pauses; i++) sd_pause();
  } else if (how == SD_IDLE_BACKOFF && turn < SPIN_TURNS + YIELD_TURNS) {
    sd_give_way();
  } else {
    return park(d, slot);
  }
  return 0;
}

/* Of `given` records a Python handler with timers had n before one. The others are copied together once more next time, so it
 * is given about as many as it can use. */
static void learn_claim(sd_dispatcher *d, uint32_t slot, int64_t given, int64_t n) {
  uint32_t *most = &d->slots[slot].most_a_claim;
  if (n < given) *most = n > (int64_t)d->pool.records / 2 ? (uint32_t)(2 * n) : d->pool.records;
  else if (n >= *most && *most < d->config.quantum_records) *most = 2 * *most;
}

/* Python gets a quantum in a row: where it lies, or copied together. */
static void fill_claim(sd_dispatcher *d, uint32_t slot, uint32_t index, sd_claim *claim) {
  sd_strand *s = &d->strands[index];
  claim->strand = index;
  claim->handler = s->handler;
  d->claimed[slot] = claim;
  claim->start = sd_now();
  if (s->lossy) {
    claim->n = claim->pending = copy_out(d, slot, s);
    claim->records = d->scratch[slot];
    claim->marks = d->scratch_marks[slot];
    return;
  }
  claim->pending = claim->n = records_pending(d, s);
  claim->records = NULL;
  if (SD_UNLIKELY(claim->n == 0)) return;
  if (claim->n > d->config.quantum_records) claim->n = d->config.quantum_records;
  if (d->handlers[s->handler].wakes && claim->n > d->slots[slot].most_a_claim) claim->n = d->slots[slot].most_a_claim;
  unsigned char *records;
  uint32_t run = sd_strand_front(s, &d->pool, &d->slots[slot].cache, (uint32_t)claim->n, &records);
  claim->marks = sd_block_mark(&d->pool, sd_load(&s->head, relaxed, Q1), sd_load(&s->at, relaxed, Q2));
  if (run < claim->n) {
    sd_strand_gather(s, &d->pool, (uint32_t)claim->n, d->scratch[slot]);
    records = d->scratch[slot];
    sd_strand_gather_marks(s, &d->pool, (uint32_t)claim->n, d->scratch_marks[slot]);
    claim->marks = d->scratch_marks[slot];
  }
  claim->records = records;
  if (!d->handlers[s->handler].wakes) return;
  int64_t n = sd_timer_cut(d, records, claim->marks, claim->n);
  if (n && n < claim->n) learn_claim(d, slot, claim->n, n);
  claim->n = n;
}

/* Whether a strand in hand whose claim came out empty has a timer before its first record. */
static int timer_first(sd_dispatcher *d, uint32_t index, sd_claim *claim) {
  sd_strand *s = &d->strands[index];
  sd_mark mark;
  int64_t n = 0;
  if (!d->handlers[s->handler].wakes) return 0;
  sd_lock(&s->publish_lock);
  n = s->lossy ? (int64_t)s->queued : sd_strand_pending(s) - sd_task_count(&d->tasks, s);
  if (n > 0 && (!sd_strand_tasks(s) || sd_task_ahead(&d->tasks, s) > 0)) {
    sd_strand_gather_marks(s, &d->pool, 1, &mark);
  } else {
    n = 0;
  }
  sd_unlock(&s->publish_lock);
  if (n == 0) return 0;
  claim->wake_key = sd_timer_due(d, index, mark.time, &claim->wake_time);
  return claim->wake_key != SD_NONE;
}

int sd_worker_next(sd_dispatcher *d, uint32_t slot, sd_claim *claim) {
  uint32_t turn = 0;
  int woken = 0;
  uint64_t now = sd_now();
  for (;;) {
    if (sd_dispatcher_stopping(d)) return SD_E_STOPPED;
    uint32_t index = next_own(d, slot);
    if (index == SD_NONE) index = next_stolen(d, slot, d->watches[slot]);
    if (index == SD_NONE) {
      woken |= be_idle(d, slot, turn++);
      continue;
    }
    if (woken) {
      /* Pushes made while this worker was on its way woke nobody else: what it does not take is for the next one. */
      woken = 0;
      if (anything_ready(d) && sd_idle_wake_one(&d->arena->idle)) sd_bump(&d->slots[slot].counters.wakes, 1);
    }
    if (turn) now = sd_now();
    turn = 0;
    if (!own(d, slot, index)) continue;
    if (SD_UNLIKELY(sd_strand_tasks(&d->strands[index]))) {
      int turn_of = take_task(d, slot, index, claim);
      if (turn_of == TASK_TAKEN) return SD_CLAIM_TASK;
      if (turn_of == TASK_WAKES) return SD_CLAIM_WAKE;
      if (turn_of == TASK_GONE) continue;
    }
    if (d->handlers[d->strands[index].handler].fn) {
      uint64_t start = now;
      now = visit(d, slot, index, now);
      if (d->policy->charge) d->policy->charge(d, index, 0, now - start);
      if (d->policy->promote) d->policy->promote(d, slot, now);
    } else {
      fill_claim(d, slot, index, claim);
      if (claim->n) return SD_CLAIM_RECORDS;
      if (timer_first(d, index, claim)) return SD_CLAIM_WAKE;
      /* A lossy strand whose records were discarded meanwhile; a task that came between two looks. */
      sd_worker_done(d, slot, claim, 0, 0, NULL);
    }
  }
}

int sd_worker_done(sd_dispatcher *d, uint32_t slot, const sd_claim *claim, int64_t n, int32_t code,
                   const char *message) {
  if (n < 0 || n > claim->n || (code && n == claim->n)) return SD_E_ARGUMENT;
  sd_strand *s = &d->strands[claim->strand];
  if (d->handlers[s->handler].finishes && n) sd_note_seen(d, claim->records, n);
  if (d->handlers[s->handler].wakes && n) learn_claim(d, slot, claim->n, n);
  int failed = code != 0;
  sd_claim_emitted(d, slot, claim, n);
  if (failed) {
    const unsigned char *record = (const unsigned char *)claim->records + (size_t)n * d->arena->record_size;
    sd_fail(d, slot, claim->strand, record, n, code, message);
  }
  book(d, slot, s, n, failed, claim->start, sd_now());
  if (s->lossy) {
    if (claim->n > n + failed) lose(d, slot, s, (uint64_t)(claim->n - n - failed));
    finish_lossy(d, slot, claim->strand, claim->n, claim->start);
  } else {
    sd_strand_advance(s, &d->pool, &d->slots[slot].cache, (uint32_t)(n + failed));
    finish(d, slot, claim->strand, n + failed, claim->pending, claim->start);
  }
  return SD_OK;
}

int sd_worker_go_on(sd_dispatcher *d, uint32_t slot, sd_claim *claim) {
  int code = sd_worker_done(d, slot, claim, claim->n, 0, NULL);
  return code == SD_OK ? sd_worker_next(d, slot, claim) : code;
}

const void *sd_claims_memory(const sd_dispatcher *d, uint32_t slot, int copied, uint64_t *bytes) {
  *bytes = copied ? (uint64_t)d->config.quantum_records * d->arena->record_size : d->arena->bytes;
  return copied ? (const void *)d->scratch[slot] : d->arena;
}
