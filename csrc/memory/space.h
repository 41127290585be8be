/* A space: one stretch of addresses, with memory where somebody asked for it. All that is shared lies in one.
 *
 * Its addresses are reserved at once, which costs next to nothing, and never move. Memory comes in ranges: a range is taken, which
 * says where it lies, and filled, all of it or piece by piece. What lies in a space refers to other parts of it by offset or index,
 * so that another process may map it at another address.
 *
 * A space that may be attached to lies over a memfd. Its pages are allocated when a range is filled: a page that cannot be had at first
 * touch would kill the process with SIGBUS. A private one is filled by leave to touch it, and asks for huge pages.
 */
#ifndef SD_MEMORY_SPACE_H
#define SD_MEMORY_SPACE_H

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
/* Of all that lies in a space: one more for each change of a structure there. Who attaches, and who reads a saved state, asks for it. */
enum { SD_ABI_VERSION = 5 };

/* First in the space. */
typedef struct sd_space_head {
  uint64_t magic;
  uint32_t abi_version, head_bytes;
  uint64_t reserved; /* bytes of addresses */
  uint32_t attachable;
  sd_a32 lock;
  SD_PLAIN(uint64_t) end; /* ranges have been taken up to here */
  sd_a64 root;            /* where the dispatcher's state is; 0: it is not there yet */
} sd_space_head;

/* One process's way to it. */
typedef struct sd_space {
  unsigned char *base;
  uint64_t reserved;
  int fd; /* -1: it is private */
  /* Offsets between which there may be poisoned memory, under AddressSanitizer. */
  uint64_t poison_from, poison_to;
} sd_space;

/* A space with `more` bytes of addresses beside SD_SPACE_BYTES. Returns an error code. */
int sd_space_create(int attachable, uint64_t more, sd_space **space);
/* What was taken from it goes too. */
void sd_space_destroy(sd_space *space);

static inline sd_space_head *sd_space_head_of(const sd_space *space) { return (sd_space_head *)space->base; }
static inline void *sd_space_at(const sd_space *space, uint64_t offset) { return space->base + offset; }
static inline uint64_t sd_space_offset(const sd_space *space, const void *at) {
  return (uint64_t)((const unsigned char *)at - space->base);
}
static inline int sd_space_is_attachable(const sd_space *space) { return space->fd >= 0; }

/* Addresses for so many bytes, as an offset; 0: there are none left. `align` is a power of two. From any thread. */
uint64_t sd_space_take(sd_space *space, uint64_t bytes, uint64_t align);
/* Memory for part of a range: zeros where there was none. SD_E_NO_MEMORY: some of it may be there. */
int sd_space_fill(sd_space *space, uint64_t offset, uint64_t bytes);
/* A range that is filled, all zeros; NULL: there is no memory. */
void *sd_space_get(sd_space *space, uint64_t bytes, uint64_t align);
/* Gives the memory of whole pages back. They have to be filled before they are used again, and are zeros then. Nonzero: the system
 * did not take it. */
int sd_space_empty(sd_space *space, uint64_t offset, uint64_t bytes);
/* Lets whoever saves the memory read what is not handed out, under AddressSanitizer too. */
void sd_space_open(sd_space *space, uint64_t offset, uint64_t bytes);
/* Under AddressSanitizer nobody may use this memory until it is handed out. */
#if defined(SD_ASAN)
void sd_space_poison(sd_space *space, uint64_t offset, uint64_t bytes);
#else
static inline void sd_space_poison(sd_space *space, uint64_t offset, uint64_t bytes) {}
#endif
const void *sd_space_base(const sd_space *space);
/* Bytes that were taken. Pages that nobody has touched take no memory, unless the space is attachable. */
uint64_t sd_space_bytes(const sd_space *space);

#endif
