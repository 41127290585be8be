#include "publish/numbers.h"

sd_position sd_numbers_begin(sd_dispatcher *d) {
  sd_arena *a = d->arena;
  sd_lock(&a->numbering);
  return (sd_position){sd_load(&a->next_sequence, relaxed, N1) - d->config.sizes.counters_start,
                       sd_load(&a->feed_time, relaxed, N1)};
}

void sd_numbers_end(sd_dispatcher *d, uint32_t n, uint64_t time) {
  sd_arena *a = d->arena;
  sd_lock(&a->number_lock);
  sd_fetch_add(&a->next_sequence, (uint64_t)n, acq_rel, M4);
  sd_store(&a->feed_time, time, relaxed, N1);
  sd_unlock(&a->number_lock);
  sd_unlock(&a->numbering);
}

void sd_number_records(sd_dispatcher *d, sd_publisher *p, const unsigned char *records, uint32_t n) {
  const size_t size = d->pool.record_size;
  sd_position next = sd_numbers_begin(d), *position = p->positions;
  p->number = next.number;
  for (uint32_t i = 0; i < n; i++, records += size, next.number++) {
    next.time = sd_time_at(d, records, next.time);
    position[i] = next;
  }
  p->end_time = next.time;
  sd_numbers_end(d, n, next.time);
}

void sd_number_again(sd_dispatcher *d, sd_publisher *p, const uint16_t *pick, uint32_t n) {
  sd_position next = sd_numbers_begin(d);
  for (uint32_t i = 0; i < n; i++, next.number++) p->positions[pick[i]] = next;
  sd_numbers_end(d, n, next.time);
}
