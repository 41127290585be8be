#include "engine/saved.h"

#include <stdio.h>
#include <string.h>

#include "engine/dispatcher.h"

/* Where sd_saved_tables collects tables. */
typedef struct sd_saving {
  sd_saved_table *tables;
  uint32_t n, capacity;
} sd_saving;

static void add(sd_saving *s, const char *name, void *at, uint64_t bytes) {
  if (s->n++ >= s->capacity) return;
  sd_saved_table *table = &s->tables[s->n - 1];
  snprintf(table->name, sizeof table->name, "%s", name);
  table->at = at;
  table->bytes = bytes;
}

uint32_t sd_saved_tables(sd_dispatcher *d, sd_saved_table *tables, uint32_t capacity) {
  sd_arena *a = d->arena;
  sd_saving s = {tables, 0, capacity};
  const uint64_t strands = a->n_strands, symbols = a->n_symbols;
  add(&s, "next_sequence", &a->next_sequence, sizeof a->next_sequence);
  add(&s, "feed_time", &a->feed_time, sizeof a->feed_time);
  add(&s, "next_alarm", &a->next_alarm, sizeof a->next_alarm);
  add(&s, "watermark", &a->watermark, sizeof a->watermark);
  add(&s, "map", d->map, symbols * sizeof *d->map);
  add(&s, "strands", d->strands, strands * sizeof *d->strands);
  add(&s, "last_numbers", d->last_number, strands * sizeof *d->last_number);
  add(&s, "rows", d->rows, symbols * a->row_stride);
  if (d->alarms.nodes)
    add(&s, "alarms", d->alarms.nodes, sd_alarm_nodes(a->n_symbols, a->n_strands) * sizeof *d->alarms.nodes);
  if (d->admissions) add(&s, "admissions", d->admissions, strands * sizeof *d->admissions);
  if (d->seen) add(&s, "seen", d->seen, symbols);
  return s.n;
}

/* Makes a strand idle and empty. */
static void rest_strand(const sd_dispatcher *d, sd_strand *s, uint32_t index) {
  sd_init(&s->pending, 0);
  sd_init(&s->owner, 0);
  sd_init(&s->control, 0);
  sd_init(&s->head, SD_NONE);
  sd_init(&s->at, 0);
  sd_init(&s->tasks, 0);
  sd_init(&s->publish_lock, 0);
  s->tail = SD_NONE;
  s->fill = s->queued = s->free_records = 0;
  s->last = index % d->n_workers;
  s->oldest = 0;
}

void sd_saved_restore(sd_dispatcher *d) {
  sd_watermark_round *w = &d->arena->watermark;
  sd_init(&w->lock, 0);
  w->left = 0;
  w->next = w->at;
  w->next_time = w->time;
  for (uint32_t i = 0; i < d->arena->n_strands; i++) rest_strand(d, &d->strands[i], i);
  sd_dispatcher_settle(d);
}
