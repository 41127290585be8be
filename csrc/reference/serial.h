/* A plain loop: a handler over records, a run of them a call, on the caller's thread. No queues, no strands, no workers:
 * what runs through the dispatcher is compared with this.
 *
 * Keys are checked by the caller. Records of one call have one handler. Timers come before their symbol's first record at or
 * after their time; those that are due and that no record has met are the caller's to fire. */
#ifndef SD_REFERENCE_SERIAL_H
#define SD_REFERENCE_SERIAL_H

#include "sd_handler.h"

/* What is emitted to one output, in the order it is: entries as sd_emit makes them, until they are taken (at = begin). */
typedef struct sd_serial_output {
  sd_output_writer writer; /* first: sd_emit's `more` leads back here */
  unsigned char *begin;
} sd_serial_output;

typedef struct sd_serial {
  sd_handler_fn fn;
  sd_wake_fn wake;     /* NULL: it has no timers */
  sd_finish_fn finish; /* may be NULL */
  const void *params;
  void *rows; /* zeroed by the caller, a whole line apart */
  uint64_t row_stride;
  uint64_t n_rows;
  uint64_t record_size;
  uint64_t key_offset;
  sd_sequence_at sequence;
  sd_output_writer **writers; /* two an output of the handler, the same ones */
  uint32_t n_outputs;
  uint64_t
      *alarms; /* a symbol: when its timer is due; 0: never. NULL: who calls fires timers by sd_serial_wake alone */
  /* out */
  uint32_t at_timer; /* what failed was not the record, but the timer before it: of symbol `key` at `time` */
  uint32_t key;
  uint64_t time;
  uint32_t tried_to_publish; /* a handler did: it got SD_E_STOPPED, for there is nothing to publish to */
  int32_t error_code;        /* of the handler that failed */
  char message[104];
} sd_serial;

/* Returns n, or the index of the record the handler failed on, or before which a timer did. `positions` are the records'. */
int64_t sd_serial_run(sd_serial *s, const void *records, const sd_position *positions, int64_t n);
/* A symbol's timer, and its end. Nonzero: it failed, and *s says why. */
int sd_serial_wake(sd_serial *s, uint32_t key, uint64_t time);
int sd_serial_finish(sd_serial *s, uint32_t key, uint64_t time);

/* For records of so many bytes; NULL where there is no memory. */
sd_serial_output *sd_serial_output_create(uint32_t record_bytes);
void sd_serial_output_destroy(sd_serial_output *o);

#endif
