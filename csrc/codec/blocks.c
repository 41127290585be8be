#include "codec/blocks.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"

/* If the file is cut short meanwhile, the bytes from its new end on may be zeros; its size, which is asked for afterwards, tells. Decoding
 * in turn finds out why there are fewer. */
uint64_t sd_read_at(int fd, uint8_t *p, uint64_t size, uint64_t at) {
  uint64_t filled = 0;
  while (filled < size) {
    ssize_t got = pread(fd, p + filled, size - filled, (off_t)(at + filled));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    filled += (uint64_t)got;
  }
  struct stat now;
  if (fstat(fd, &now) != 0 || (uint64_t)now.st_size <= at) return 0;
  const uint64_t there = (uint64_t)now.st_size - at;
  return filled < there ? filled : there;
}

static void make(void *self, uint64_t number, sd_block *b, int exactly, const uint8_t *home_of) {
  const sd_file_part *part = (const sd_file_part *)self;
  const sd_block_format *format = part->format;
  const uint64_t bytes = format->bytes, all = bytes + format->behind;
  b->start = part->begin + number * bytes;
  if (number == 0) b->begin = b->start;
  b->odd = 1;
  b->numbers = part->numbered ? (uint16_t *)(void *)(b->bytes + part->numbers_at) : NULL;
  const uint64_t start = sd_now();
  const uint64_t got = sd_read_at(part->fd, b->bytes, all, part->base + b->start);
  b->reading += sd_now() - start;
  if (got != all) {
    b->begin = UINT64_MAX;
    return;
  }
  if (!exactly) {
    const uint64_t at = format->find(part, b->bytes, format->search);
    if (at == format->search) {
      b->begin = UINT64_MAX;
      return;
    }
    b->begin = b->start + at;
  }
  format->walk(part, b, b->bytes + (b->begin - b->start), b->bytes + bytes, home_of);
}

static int adopt(void *self, uint64_t number, sd_block *b, const uint8_t *home_of) {
  sd_file_part *part = (sd_file_part *)self;
  sd_seen *seen = part->seen;
  if (b->begin != *part->offset) {
    b->begin = *part->offset;
    memset(b->n, 0, sizeof b->n);
    memset(b->notes, 0, sizeof b->notes);
    make(self, number, b, 1, home_of);
  }
  const uint32_t ticks = b->notes[SD_NOTE_TICKS];
  /* In turn, what makes no tick is not read behind the last tick of the limit. */
  if (b->odd || b->begin != *part->offset || ticks >= part->limit - part->ticks ||
      (ticks && ((int64_t)b->first_time < seen->latest || (int64_t)b->last_time > part->until)) ||
      (part->format->check && !part->format->check(part, b)))
    return 0;
  part->format->accept(part, b);
  *part->offset = b->end;
  part->ticks += ticks;
  part->blocks++;
  seen->ticks += ticks;
  seen->orders += b->notes[SD_NOTE_ORDERS];
  seen->trades += b->notes[SD_NOTE_TRADES];
  seen->quotes += b->notes[SD_NOTE_QUOTES];
  seen->zero_sizes += b->notes[SD_NOTE_ZERO_SIZES];
  if (ticks) seen->latest = (int64_t)b->last_time;
  b->latest = seen->latest;
  return 1;
}

int sd_open_file_blocks(sd_file_part *part, const sd_block_format *format, uint64_t *offset, uint64_t keys,
                        sd_block_source *source) {
  const uint64_t at = part->base + *offset, all = format->bytes + format->behind;
  struct stat now;
  if (!keys || fstat(part->fd, &now) != 0 || (uint64_t)now.st_size < at + all) return 0;
  part->format = format;
  part->offset = offset;
  part->begin = *offset;
  part->keys = keys < part->n_counts ? keys : part->n_counts;
  part->numbers_at = (format->bytes + format->behind + format->room + SD_LINE - 1) / SD_LINE * SD_LINE;
  const uint64_t numbers = part->numbered ? sizeof(uint16_t) * format->records : 0;
  *source = (sd_block_source){.n_blocks = ((uint64_t)now.st_size - at - format->behind) / format->bytes,
                              .keys = (uint32_t)part->keys,
                              .most = format->most,
                              .slot_bytes = (uint32_t)(part->numbers_at + numbers),
                              .numbered_at = format->record_at,
                              .added_bits = format->tick_bits,
                              .make = make,
                              .adopt = adopt,
                              .gather = format->gather};
  return 1;
}
