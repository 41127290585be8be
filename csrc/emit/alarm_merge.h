/* Records that timers emitted and that wait to be handed out: by time, then by key, then as they came. The merger's alone. */
#ifndef SD_EMIT_ALARM_MERGE_H
#define SD_EMIT_ALARM_MERGE_H

#include <stdint.h>

/* The time of what the end of the run emitted: it comes after all timers, by key. */
#define SD_ALARM_AT_END UINT64_MAX

typedef struct sd_alarm_record {
  uint64_t time;
  uint32_t key, ref;
} sd_alarm_record;

typedef struct sd_alarm_records {
  sd_alarm_record *due, *spare; /* of `capacity`; the second one to sort in */
  uint64_t at;                  /* the next one to be handed out */
  uint64_t sorted;              /* from `at` to here they are in order, from here to `n` as they came */
  uint64_t n, capacity;
  /* by key, of `keys`: whether it is there, and which record is its; for a sort */
  uint64_t *there;
  uint32_t *place;
  uint64_t keys;
} sd_alarm_records;

/* Adds one behind the others. SD_E_NO_MEMORY. */
int sd_alarm_records_add(sd_alarm_records *list, uint64_t time, uint32_t key, uint32_t ref);
/* Puts what was added since the last time in its place. */
void sd_alarm_records_sort(sd_alarm_records *list);
void sd_alarm_records_free(sd_alarm_records *list);

/* The time of the next one; SD_ALARM_AT_END where there is none. */
static inline uint64_t sd_alarm_records_time(const sd_alarm_records *list) {
  return list->at < list->n ? list->due[list->at].time : SD_ALARM_AT_END;
}

#endif
