/* Self-relative offsets. Shared memory holds them in place of pointers, so that each process may map it at another address, and so that a
 * file may store it.
 *
 * An offset is the distance in bytes from its own field to the object that the field refers to; 0 refers to nothing. A copy of the whole
 * memory is valid as it is. A field that is copied alone refers to something else. So a struct with such a field is never assigned or
 * copied by memcpy alone; a function copies it and sets its offsets again.
 *
 * The type is a struct, so that nobody assigns a pointer to it, and so that compilers know that a store to an integer does not change it.
 * Fields lie in allocated memory, not in local variables: a compiler may assume that what is reached from the address of a local variable
 * is that variable. */
#pragma once

#include <stdint.h>

typedef struct sd_relative {
  int64_t distance;
} sd_relative;

/* Returns what a field refers to, which must be something. The sum is one of integers, because in C a pointer must not leave its object. */
static inline void *sd_relative_get(const sd_relative *field) {
  return (void *)((uintptr_t)field + (uintptr_t)field->distance);
}

/* Returns NULL if the field refers to nothing. */
static inline void *sd_relative_or_null(const sd_relative *field) {
  return field->distance ? sd_relative_get(field) : (void *)0;
}

/* `named` may be NULL. */
static inline void sd_relative_set(sd_relative *field, const void *named) {
  field->distance = named ? (int64_t)((uintptr_t)named - (uintptr_t)field) : 0;
}
