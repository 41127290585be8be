/* The caller's driver: the thread that publishes runs the native handlers itself, over the records as they lie, and each record is handled
 * when the call returns. There are no workers, and nothing is ever pending. Each handler has one strand, of the handler's number.
 *
 * One thread uses it, and nobody else uses the dispatcher meanwhile. Records of handlers that Python runs are left to Python, which numbers
 * the records of a publish first. */
#pragma once

#include "emit/writer.h"
#include "state/state.h"

/* cffi: begin */
enum { SD_CALLER_SLICE = 1024 };

typedef struct sd_caller {
  sd_dispatcher *d;
  uint32_t participant;
  int32_t passes;     /* sd_caller_run leaves out the records of Python's handlers; else it stops at the first one */
  int32_t failed;     /* a handler failed, as follows */
  int32_t at_timer;   /* not on a record, but at a timer: *failure says at which */
  int32_t error_code; /* of a failure on a record */
  char message[104];
  sd_failure failure;
  sd_py_batch batch; /* what Python has in hand: for sd_py_emit and for chains that end in Python */
  sd_position positions[SD_CALLER_SLICE];
} sd_caller;

/* Takes the dispatcher over, after its handlers are set. */
void sd_caller_open(sd_caller *c, sd_dispatcher *d);
/* Numbers n records of native handlers and runs them. Returns n, or the index at which it stopped: the record's key is out of range, its
 * handler failed, or a timer before it failed. */
int64_t sd_caller_publish(sd_caller *c, const void *records, int64_t n);
/* Numbers n records and writes their positions. Returns n, or the index of the first one whose key is out of range: those before it are
 * numbered. */
int64_t sd_caller_number(sd_caller *c, const void *records, int64_t n, sd_position *positions);
/* Runs numbered records. Returns n, or the index at which it stopped: at a failure, or at a record of a handler that Python runs. */
int64_t sd_caller_run(sd_caller *c, const void *records, const sd_position *positions, int64_t n);
/* Fires the timers of native handlers that are due at a time of the feed. Nonzero: one failed, and others may be due still. */
int sd_caller_wake(sd_caller *c, uint64_t time);
/* What Python's handler emitted since the last call of this is the merger's. What it emitted for numbers from `below` on is void. */
void sd_caller_emitted(sd_caller *c, uint32_t handler, uint64_t below);
/* The run is over at record `number`: nothing from there on, and no timer after `time`, is handed out by the merger. */
void sd_caller_end_at(sd_caller *c, uint64_t number, uint64_t time);
/* Sets the feed's time to that of the records that were handled before an interrupt. */
void sd_caller_take_back(sd_caller *c, uint64_t time);
/* Whether a handler has tried to publish, for which there is nobody: it got SD_E_STOPPED. */
int sd_caller_refused(const sd_caller *c);
/* Records that native handlers have handled. */
uint64_t sd_caller_handled(const sd_caller *c);
/* cffi: end */
