/* One list of error codes for the whole core. C returns a negative code; strand/binding/gate.py turns codes into the
 * exceptions of strand/errors.py in one place. */
#pragma once

/* cffi: begin */
enum {
  SD_OK = 0,
  SD_AGAIN = -1,            /* not yet: the caller may look for signals and call again */
  SD_E_NO_MEMORY = -2,      /* the mapping could not be made or reserved */
  SD_E_ARGUMENT = -3,       /* a size, a count or an offset out of its range */
  SD_E_KEY = -4,            /* a record's key is not below the number of symbols */
  SD_E_FULL = -5,           /* a strand is at its bound and on_full is raise */
  SD_E_WOULD_DEADLOCK = -6, /* a handler published into a full strand whose bound says block */
  SD_E_HANDLER = -7,        /* a handler failed and on_error is stop */
  SD_E_STOPPED = -8,        /* the dispatcher is stopped */
  SD_E_CORRUPT = -9,        /* an invariant of the engine does not hold */
  SD_E_TRUNCATED = -10,     /* the input ends inside a record */
  SD_E_FORMAT = -11         /* the input is not what the format allows */
};
/* cffi: end */
