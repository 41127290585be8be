/* Gives merged records out, in order. */
#pragma once

#include "emit/buffer.h"

/* cffi: begin */
/* Gives out up to `capacity` merged records of an output, in order. Each has number, sequence, time, key, and then the declared bytes,
 * without padding. `to` has 8 bytes more than they take. Returns how many; fewer than `capacity`: there are no more before the next
 * round. */
int64_t sd_outputs_take(struct sd_dispatcher *d, uint32_t output, unsigned char *to, int64_t capacity);
/* cffi: end */
