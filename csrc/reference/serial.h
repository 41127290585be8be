/* A plain loop: runs a handler over records, on the caller's thread. It has no queues, strands or workers; the dispatcher's results are
 * compared with it.
 *
 * The caller checks keys. Records of one call have one handler. A timer fires before its symbol's first record at or after its time; the
 * caller fires those that are due and that no record has met. */
#ifndef SD_REFERENCE_SERIAL_H
#define SD_REFERENCE_SERIAL_H

#include "sd_handler.h"

/* cffi: begin */
/* What is emitted to one output, in order: entries as sd_emit makes them. When they have been taken, the caller sets `at` to `begin`. */
typedef struct sd_serial_output {
  sd_output_writer writer; /* first, because sd_emit's `more` finds the output by it */
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
  sd_output_writer **writers; /* two per output of the handler, both the same */
  uint32_t n_outputs;
  uint64_t
      *alarms; /* per symbol: when its timer is due; 0: never. NULL: the caller fires all timers by sd_serial_wake */
  /* out */
  uint64_t
      handled; /* records that all calls of sd_serial_run have handled; an interrupt may keep its caller from what one returns */
  uint32_t at_timer; /* the timer before the record failed, and not the record: of symbol `key` at `time` */
  uint32_t key;
  uint64_t time;
  uint32_t
      tried_to_publish; /* a handler tried to publish, and got SD_E_STOPPED, because there is nothing to publish to */
  int32_t error_code;   /* of the handler that failed */
  char message[104];
} sd_serial;

/* Returns n, or the index of the record on which the handler failed, or before which a timer failed. `positions` are the records'. */
int64_t sd_serial_run(sd_serial *s, const void *records, const sd_position *positions, int64_t n);
/* The same for a chain, which is asked for its own alarms: copies the first `width` bytes of the row after each record. Returns n, or the
 * index of the record that it failed on, or before which (*failed is 0) an alarm is due. */
int64_t sd_serial_track(sd_serial *s, const void *records, const sd_position *positions, int64_t n, uint64_t width,
                        void *after, int32_t *failed);
/* Runs a symbol's timer, or its end. Nonzero: it failed, and *s says why. */
int sd_serial_wake(sd_serial *s, uint32_t key, uint64_t time);
int sd_serial_finish(sd_serial *s, uint32_t key, uint64_t time);

/* For records of so many bytes; NULL where there is no memory. */
sd_serial_output *sd_serial_output_create(uint32_t record_bytes);
void sd_serial_output_destroy(sd_serial_output *o);
/* cffi: end */

#endif
