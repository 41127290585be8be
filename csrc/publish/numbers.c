#include "publish/numbers.h"

#include "numbering/positions.h"

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
