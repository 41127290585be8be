/* Records that timers emitted and that wait for the merger: ordered by time, then by key, then by arrival. Only the merger uses them. */
#pragma once

#include <stdint.h>

/* The time given to what the end of the run emitted: it comes after all timers, by key. */
#define SD_ALARM_AT_END UINT64_MAX

typedef struct sd_alarm_record {
  uint64_t time;
  uint32_t key, ref;
} sd_alarm_record;

typedef struct sd_alarm_records {
  sd_alarm_record *due, *spare; /* of `capacity`; the second one to sort in */
  uint64_t at;                  /* the next one to be taken */
  uint64_t sorted;              /* from `at` to here they are sorted; from here to `n` they lie as they arrived */
  uint64_t n, capacity;
  /* for a sort, by key, of `keys` keys: whether the key occurs, and which record has it */
  uint64_t *there;
  uint32_t *place;
  uint64_t keys;
} sd_alarm_records;

/* Appends one record. SD_E_NO_MEMORY. */
int sd_alarm_records_add(sd_alarm_records *list, uint64_t time, uint32_t key, uint32_t ref);
/* Sorts what was added since the last call into its place. */
void sd_alarm_records_sort(sd_alarm_records *list);
void sd_alarm_records_free(sd_alarm_records *list);

/* The time of the next one; SD_ALARM_AT_END where there is none. */
static inline uint64_t sd_alarm_records_time(const sd_alarm_records *list) {
  return list->at < list->n ? list->due[list->at].time : SD_ALARM_AT_END;
}
