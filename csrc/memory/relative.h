/* Self-relative offsets: what memory holds in place of pointers, so that each process may map it at another address, and a file
 * may keep it.
 *
 * An offset is the distance in bytes from its own field to what the field names; 0 names nothing. A copy of the whole memory is
 * right as it is. A field that is copied alone names something else: so a struct that has one is never assigned or copied by
 * memcpy alone, but by a function that sets its offsets anew.
 * The type is a struct, so that nobody assigns a pointer to it, and so that compilers know a store of a number changes none.
 * Fields lie in memory that was allocated, not in local variables: compilers may assume that what is reached from a local
 * variable's address is that variable.
 */
#ifndef SD_MEMORY_RELATIVE_H
#define SD_MEMORY_RELATIVE_H

#include <stdint.h>

typedef struct sd_relative {
  int64_t distance;
} sd_relative;

/* What a field names. It has to name something. The sum is one of integers, as C lets no pointer leave its object. */
static inline void *sd_relative_get(const sd_relative *field) {
  return (void *)((uintptr_t)field + (uintptr_t)field->distance);
}

/* NULL: the field names nothing. */
static inline void *sd_relative_or_null(const sd_relative *field) {
  return field->distance ? sd_relative_get(field) : (void *)0;
}

/* `named` may be NULL. */
static inline void sd_relative_set(sd_relative *field, const void *named) {
  field->distance = named ? (int64_t)((uintptr_t)named - (uintptr_t)field) : 0;
}

#endif
