/* A plain loop: a handler over records, a run of them a call, on the caller's thread. No queues, no strands, no workers:
 * what runs through the dispatcher is compared with this.
 *
 * Keys are checked by the caller. Records of one call have one handler. */
#ifndef SD_SERIAL_H
#define SD_SERIAL_H

#include "sd_handler.h"

typedef struct sd_serial {
  sd_handler_fn fn;
  const void *params;
  void *rows; /* zeroed by the caller, a whole line apart */
  uint64_t row_stride;
  uint64_t n_rows;
  uint64_t record_size;
  /* out */
  uint32_t tried_to_publish; /* a handler did: it got SD_E_STOPPED, for there is nothing to publish to */
  int32_t error_code;        /* of the handler that failed */
  char message[104];
} sd_serial;

/* Returns n, or the index of the record the handler failed on. */
int64_t sd_serial_run(sd_serial *s, const void *records, int64_t n);

#endif
