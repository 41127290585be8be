#define _GNU_SOURCE
#include "memory/space.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sd_error.h"

#if defined(SD_ASAN)
#include <sanitizer/asan_interface.h>
#define UNPOISON(at, bytes) __asan_unpoison_memory_region((at), (bytes))
#else
#define UNPOISON(at, bytes) ((void)0)
#endif

enum { STEP = 4 << 20 }; /* bytes of a file that one call allocates */

static uint64_t rounded_up(uint64_t bytes, uint64_t to) { return (bytes + to - 1) / to * to; }

/* Reserves addresses that begin at a huge page's boundary. NULL: the process may not have that many. */
static unsigned char *reserve(uint64_t bytes) {
  unsigned char *at = mmap(NULL, bytes + SD_HUGE_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return NULL;
  const uint64_t before = (SD_HUGE_PAGE - (uintptr_t)at % SD_HUGE_PAGE) % SD_HUGE_PAGE;
  if (before) munmap(at, before);
  munmap(at + before + bytes, SD_HUGE_PAGE - before);
  return at + before;
}

/* Maps a new memfd over the space's addresses. */
static int map_file(sd_space *space) {
  space->fd = memfd_create("strand", MFD_CLOEXEC);
  if (space->fd < 0 || ftruncate(space->fd, (off_t)space->reserved)) return SD_E_NO_MEMORY;
  void *at =
      mmap(space->base, space->reserved, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, space->fd, 0);
  return at == MAP_FAILED ? SD_E_NO_MEMORY : SD_OK;
}

int sd_space_create(int attachable, uint64_t more, sd_space **out) {
  *out = NULL;
  if (more > UINT64_MAX / 2) return SD_E_NO_MEMORY;
  sd_space *space = calloc(1, sizeof *space);
  if (!space) return SD_E_NO_MEMORY;
  space->fd = -1;
  space->reserved = rounded_up(SD_SPACE_BYTES + more, SD_HUGE_PAGE);
  space->base = reserve(space->reserved);
  if (!space->base || (attachable && map_file(space)) || sd_space_fill(space, 0, sizeof(sd_space_head))) {
    sd_space_destroy(space);
    return SD_E_NO_MEMORY;
  }
  /* Segments, rows and books are accessed at scattered places, and huge pages save TLB misses. The call is only a hint. */
  madvise(space->base, space->reserved, MADV_HUGEPAGE);
  sd_space_head *head = sd_space_head_of(space);
  head->magic = SD_MAGIC;
  head->abi_version = SD_ABI_VERSION;
  head->head_bytes = sizeof *head;
  head->reserved = space->reserved;
  head->attachable = attachable != 0;
  head->end = sizeof *head;
  *out = space;
  return SD_OK;
}

void sd_space_destroy(sd_space *space) {
  if (!space) return;
  UNPOISON(space->base + space->poison_from, space->poison_to - space->poison_from);
  if (space->base) munmap(space->base, space->reserved);
  if (space->fd >= 0) close(space->fd);
  free(space);
}

uint64_t sd_space_take(sd_space *space, uint64_t bytes, uint64_t align) {
  sd_space_head *head = sd_space_head_of(space);
  uint64_t at = 0;
  sd_lock(&head->lock);
  const uint64_t from = rounded_up(head->end, align);
  if (from <= space->reserved && bytes <= space->reserved - from) {
    at = from;
    head->end = from + bytes;
  }
  sd_unlock(&head->lock);
  return at;
}

/* Allocates a part of the file, in steps: a call that a signal interrupts has allocated nothing. */
static int allocate(int fd, uint64_t from, uint64_t to) {
  for (uint64_t step; from < to; from += step) {
    step = to - from < STEP ? to - from : STEP;
    while (fallocate(fd, FALLOC_FL_KEEP_SIZE, (off_t)from, (off_t)step))
      if (errno != EINTR) return SD_E_NO_MEMORY;
  }
  return SD_OK;
}

int sd_space_fill(sd_space *space, uint64_t offset, uint64_t bytes) {
  const uint64_t from = offset / SD_SPACE_PAGE * SD_SPACE_PAGE, end = offset + bytes;
  if (sd_space_is_attachable(space)) return allocate(space->fd, from, rounded_up(end, SD_SPACE_PAGE));
  /* Up to the boundary of a huge page, because the system gives no huge page to a range that ends inside it. */
  const uint64_t to = rounded_up(end, SD_HUGE_PAGE);
  return from < to && mprotect(space->base + from, to - from, PROT_READ | PROT_WRITE) ? SD_E_NO_MEMORY : SD_OK;
}

void *sd_space_get(sd_space *space, uint64_t bytes, uint64_t align) {
  const uint64_t at = sd_space_take(space, bytes, align);
  return at && !sd_space_fill(space, at, bytes) ? sd_space_at(space, at) : NULL;
}

int sd_space_empty(sd_space *space, uint64_t offset, uint64_t bytes) {
  const uint64_t from = rounded_up(offset, SD_SPACE_PAGE), to = (offset + bytes) / SD_SPACE_PAGE * SD_SPACE_PAGE;
  if (from >= to) return 0;
  if (!sd_space_is_attachable(space)) return madvise(space->base + from, to - from, MADV_DONTNEED);
  return fallocate(space->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)from, (off_t)(to - from));
}

void sd_space_open(sd_space *space, uint64_t offset, uint64_t bytes) { UNPOISON(space->base + offset, bytes); }

#if defined(SD_ASAN)
/* After the space is destroyed, others may get its addresses, and unmapping does not clear their shadow memory. So this notes the range
 * that sd_space_destroy has to unpoison. */
void sd_space_poison(sd_space *space, uint64_t offset, uint64_t bytes) {
  sd_lock(&sd_space_head_of(space)->lock);
  if (space->poison_to == 0 || offset < space->poison_from) space->poison_from = offset;
  if (offset + bytes > space->poison_to) space->poison_to = offset + bytes;
  sd_unlock(&sd_space_head_of(space)->lock);
  __asan_poison_memory_region(space->base + offset, bytes);
}
#endif

uint64_t sd_space_bytes(const sd_space *space) {
  sd_space_head *head = sd_space_head_of(space);
  sd_lock(&head->lock);
  const uint64_t end = head->end;
  sd_unlock(&head->lock);
  return end;
}

const void *sd_space_base(const sd_space *space) { return space->base; }
