/* A receiver with its sockets: it reads in batches, and the kernel stamps and counts packets. */
#pragma once

#include "live/mold_state.h"

/* cffi: begin */
/* NULL: no memory, or no descriptor. first_sequence is at most SD_MOLD_SEQUENCE_MAX. */
sd_mold *sd_mold_new(const sd_mold_options *options);
void sd_mold_free(sd_mold *m);

/* Adds a line, whose missed messages are then listed, and receives it on this socket. The socket becomes non-blocking and timestamped,
 * and stays the caller's. Negative errno. */
int sd_mold_attach(sd_mold *m, int line, int fd, uint32_t receive_bytes);
/* Sends requests from the socket of SD_MOLD_REPLIES to this IPv4 address (both in network order). */
void sd_mold_rerequest(sd_mold *m, uint32_t address, uint16_t port);
/* Receives until something was delivered and nothing more has arrived, the output is full, the session ended or changed, sd_mold_wake()
 * was called, or `timeout_ns` has passed. SD_OK, or a negative errno. */
int sd_mold_poll(sd_mold *m, uint8_t *out, uint64_t out_bytes, sd_mold_run *runs, uint64_t run_capacity,
                 uint64_t timeout_ns);
/* Ends the sd_mold_poll() that runs, or the next one. From any thread. */
void sd_mold_wake(sd_mold *m);
/* cffi: end */
