/* A space: one stretch of addresses that gets memory part by part. All memory that threads share lies in one space.
 *
 * The addresses are reserved at once, which costs next to nothing, and they never move. A caller first takes a range, which decides where
 * it lies, and then fills it with memory, all at once or part by part. Parts of the space refer to each other by offset or index, so that
 * another process may map the space at another address.
 *
 * An attachable space is a mapped memfd. Filling a range allocates its pages, because a page that the system could not provide at first
 * touch would kill the process with SIGBUS. In a private space, filling a range only makes it accessible, and the space asks the system
 * for huge pages. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"

#if defined(SD_MODEL_SCHEDULER) || defined(SD_STRESS)
#define SD_SPACE_BYTES (UINT64_C(1) << 32)
#else
#define SD_SPACE_BYTES (UINT64_C(1) << 36)
#endif
enum { SD_SPACE_PAGE = 4096, SD_HUGE_PAGE = 2 << 20 };

#if defined(__SANITIZE_ADDRESS__)
#define SD_ASAN
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SD_ASAN
#endif
#endif

#define SD_MAGIC UINT64_C(0x3144304e41525453) /* "STRAN0D1" */
/* cffi: begin */
/* The version of all layouts in a space. Each change of a structure there adds one. Whoever attaches, or reads a saved state, checks it. */
enum { SD_ABI_VERSION = 22 };
/* cffi: end */

/* At offset 0 of the space. */
typedef struct sd_space_head {
  uint64_t magic;
  uint32_t abi_version, head_bytes;
  uint64_t reserved; /* bytes of addresses */
  uint32_t attachable;
  sd_a32 lock;
  SD_PLAIN(uint64_t) end; /* all ranges lie below this offset */
  sd_a64 root;            /* offset of the arena, once others may attach; 0: they may not */
} sd_space_head;

/* cffi: begin */
/* One process's access to a space. */
typedef struct sd_space {
  unsigned char *base;
  uint64_t reserved;
  int fd; /* -1: the space is private */
  /* The offsets between which memory may be poisoned, under AddressSanitizer. */
  uint64_t poison_from, poison_to;
} sd_space;

/* Creates a space with SD_SPACE_BYTES and `more` bytes of addresses. Returns an error code. */
int sd_space_create(int attachable, uint64_t more, sd_space **space);
/* Destroys a space with everything in it. */
void sd_space_destroy(sd_space *space);
/* cffi: end */

static inline sd_space_head *sd_space_head_of(const sd_space *space) { return (sd_space_head *)space->base; }
static inline void *sd_space_at(const sd_space *space, uint64_t offset) { return space->base + offset; }
static inline uint64_t sd_space_offset(const sd_space *space, const void *at) {
  return (uint64_t)((const unsigned char *)at - space->base);
}
static inline int sd_space_is_attachable(const sd_space *space) { return space->fd >= 0; }

/* cffi: begin */
/* Takes a range of addresses and returns its offset; 0: too few addresses are left. `align` is a power of two. From any thread. */
uint64_t sd_space_take(sd_space *space, uint64_t bytes, uint64_t align);
/* Fills a part of a range with memory. Memory that is new is zeros. SD_E_NO_MEMORY: some of it may have been filled. */
int sd_space_fill(sd_space *space, uint64_t offset, uint64_t bytes);
/* Takes a range and fills it with zeros; NULL: out of memory. */
void *sd_space_get(sd_space *space, uint64_t bytes, uint64_t align);
/* cffi: end */
/* Gives the memory of the whole pages in a part back to the system. They must be filled before their next use, and are zeros then.
 * Nonzero: the system did not take them. */
int sd_space_empty(sd_space *space, uint64_t offset, uint64_t bytes);
/* cffi: begin */
/* Unpoisons memory that is not handed out, so that a saver of the space may read it under AddressSanitizer too. */
void sd_space_open(sd_space *space, uint64_t offset, uint64_t bytes);
/* cffi: end */
/* Poisons memory, under AddressSanitizer, until it is handed out. */
#if defined(SD_ASAN)
void sd_space_poison(sd_space *space, uint64_t offset, uint64_t bytes);
#else
static inline void sd_space_poison(sd_space *space, uint64_t offset, uint64_t bytes) {}
#endif
/* cffi: begin */
const void *sd_space_base(const sd_space *space);
/* Returns how many bytes were taken. Pages that nobody has touched use no memory, unless the space is attachable. */
uint64_t sd_space_bytes(const sd_space *space);
/* cffi: end */
