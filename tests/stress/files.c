/* Several files in blocks under ThreadSanitizer: threads make blocks of two ITCH files, adopt them and gather their ticks, as those of a
 * dispatcher do. No tick is missing, comes twice or is before an earlier one of its home: files SEED. */
#define _GNU_SOURCE
#include "codec/files.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/prng.h"
#include "blocks/window.h"
#include "codec/itch/blocks.h"
#include "codec/itch/itch.h"
#include "codec/merge/merge.h"

enum { FILES = 2, THREADS = 3, HOMES = 2, SLOTS = 6, LOCATES = 8, MESSAGES = 80000, ROUNDS = 4, AHEAD = 64 };

/* Of base/clock.c, which is not built in. */
sd_clock sd_the_clock;

static struct {
  sd_itch itch[FILES];
  sd_files_part part;
  sd_block_source source;
  sd_window window;
  sd_home home[HOMES];
  sd_a64 made[SLOTS];
  sd_block slot[SLOTS];
  uint8_t home_of[LOCATES + 1];
  /* per home, by the holder of its token */
  uint64_t gathered[HOMES];
  int64_t latest[HOMES];
} S;

static void fail(const char *why) {
  fprintf(stderr, "files: %s\n", why);
  exit(1);
}

static void visit(uint32_t h) {
  uint64_t from;
  const uint64_t to = sd_home_begin(&S.window, h, &from);
  if (!to) return;
  for (uint64_t number = from; number < to; number++) {
    const sd_block *b = &S.slot[number % SLOTS];
    const sd_block_entry *entry = b->lists + (size_t)h * b->room;
    for (uint32_t at = 0; at < b->n[h];) {
      _Alignas(64) sd_tick ticks[AHEAD];
      const uint32_t n = b->n[h] - at < AHEAD ? b->n[h] - at : AHEAD;
      S.source.gather(&S.part, b, entry + at, n, b->n[h] - at, (unsigned char *)ticks);
      for (uint32_t i = 0; i < n; i++) {
        if (ticks[i].ts_recv < S.latest[h] || ticks[i].instrument_id % HOMES != h) fail("a tick is out of order");
        S.latest[h] = ticks[i].ts_recv;
      }
      S.gathered[h] += n;
      at += n;
    }
    sd_home_passed(&S.window, h, number);
  }
  sd_home_end(&S.window, h);
}

static void *take_part(void *none) {
  while (!sd_window_over(&S.window)) {
    for (uint32_t h = 0; h < HOMES; h++) visit(h);
    for (uint64_t number; (number = sd_window_begin_adopting(&S.window)) != SD_NO_BLOCK;)
      sd_window_end_adopting(&S.window, number, S.source.adopt(&S.part, number, &S.slot[number % SLOTS], S.home_of));
    const uint64_t number = sd_window_take(&S.window);
    if (number == SD_NO_BLOCK) {
      sd_yield();
      continue;
    }
    sd_block *b = &S.slot[number % SLOTS];
    memset(b->n, 0, sizeof b->n);
    b->number = number;
    S.source.make(&S.part, number, b, number == 0, S.home_of);
    sd_window_made(&S.window, number);
  }
  return none;
}

static uint8_t *put(uint8_t *p, uint32_t length, uint8_t type, uint32_t locate, uint64_t time) {
  memset(p, 0, length + 2);
  p[1] = (uint8_t)length;
  p[2] = type;
  p[4] = (uint8_t)locate;
  for (int i = 0; i < 6; i++) p[7 + i] = (uint8_t)(time >> (40 - 8 * i));
  return p + length + 2;
}

/* Files of deletions. Their times and order numbers are random, and some of their bytes look like frames. */
static void write_files(sd_prng *random, sd_merged_file *files) {
  static uint8_t bytes[FILES][LOCATES * 41 + MESSAGES * 21];
  uint8_t *p[FILES];
  for (int f = 0; f < FILES; f++) {
    p[f] = bytes[f];
    for (uint32_t locate = 1; locate <= LOCATES; locate++) {
      uint8_t *name = p[f] + 13;
      p[f] = put(p[f], 39, 'R', locate, 0);
      memset(name, 'N', 28);
      memcpy(name, "S       ", 8);
      name[0] = (uint8_t)('A' + locate);
    }
    sd_tick none;
    sd_itch_decode(&S.itch[f], bytes[f], (uint64_t)(p[f] - bytes[f]), 0, &none, 1);
    if (bytes[f] + S.itch[f].offset != p[f]) fail("the directory was not taken");
  }
  uint64_t time = 1000;
  for (;;) {
    const uint64_t bits = sd_prng_next(random), order = sd_prng_next(random);
    const int f = (int)(bits % FILES);
    if (p[f] + 21 > bytes[f] + sizeof bytes[f]) break;
    time += bits >> 8 & 3;
    uint8_t *at = p[f];
    p[f] = put(at, 19, 'D', 1 + (uint32_t)(bits >> 16) % LOCATES, time);
    memcpy(at + 13, &order, sizeof order);
    if (bits >> 40 & 1)
      memcpy(at + 13,
             "\0\x13"
             "D\0\1\0\0",
             8);
  }
  for (int f = 0; f < FILES; f++) {
    const size_t size = (size_t)(p[f] - bytes[f]);
    files[f].fd = memfd_create("day", MFD_CLOEXEC);
    if (files[f].fd < 0 || write(files[f].fd, bytes[f], size) != (ssize_t)size) fail("a file was not written");
  }
}

int main(int argc, char **argv) {
  sd_prng random;
  uint64_t blocks = 0;
  sd_prng_seed(&random, argc > 1 ? strtoull(argv[1], NULL, 10) : 1, 0);
  for (int round = 0; round < ROUNDS; round++) {
    static int64_t counts[SD_ITCH_LOCATES];
    static const uint32_t ids[LOCATES + 1] = {SD_MERGE_UNMAPPED, 0, 1, 2, 3, 4, 5, 6, 7};
    sd_merged_file file[FILES];
    sd_merged_files files = {.file = file, .n = FILES, .keys = LOCATES};
    sd_seen seen = {.latest = -1};
    for (int f = 0; f < FILES; f++) {
      memset(S.itch[f].symbols, 0, sizeof S.itch[f].symbols);
      sd_itch_init(&S.itch[f], 0, 0);
      file[f] = (sd_merged_file){.decoder = &S.itch[f],
                                 .open_blocks = sd_itch_open_blocks,
                                 .ids = ids,
                                 .n_ids = LOCATES + 1,
                                 .latest = INT64_MIN};
    }
    write_files(&random, file);
    S.part = (sd_files_part){.files = &files,
                             .all = {.n_counts = LOCATES, .limit = UINT64_MAX, .until = INT64_MAX, .seen = &seen}};
    if (!sd_open_files(&S.part, &S.source)) fail("there are no blocks");
    S.source.counts = counts;
    for (uint32_t id = 0; id < LOCATES; id++) S.home_of[id] = (uint8_t)(id % HOMES);
    for (int i = 0; i < SLOTS; i++) {
      S.slot[i].room = S.source.most;
      S.slot[i].lists = calloc((size_t)HOMES * S.source.most, sizeof *S.slot[i].lists);
      S.slot[i].bytes = aligned_alloc(64, (S.source.slot_bytes + 63u) / 64 * 64);
      if (!S.slot[i].lists || !S.slot[i].bytes) fail("there is no memory");
    }
    for (int h = 0; h < HOMES; h++) S.gathered[h] = 0, S.latest[h] = 0;
    S.window.home = S.home;
    S.window.made = S.made;
    S.window.n_blocks = S.source.n_blocks;
    S.window.n_homes = HOMES;
    S.window.n_slots = SLOTS;
    sd_window_open(&S.window);
    pthread_t thread[THREADS];
    for (int i = 0; i < THREADS; i++)
      if (pthread_create(&thread[i], NULL, take_part, NULL)) fail("a thread did not begin");
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    uint64_t gathered = 0, ticks = 0;
    for (int h = 0; h < HOMES; h++) gathered += S.gathered[h];
    for (int f = 0; f < FILES; f++) {
      if (file[f].ticks != S.itch[f].ticks) fail("a file's count is not its decoder's");
      ticks += file[f].ticks;
      close(file[f].fd);
    }
    if (gathered != ticks || ticks != S.part.all.ticks) fail("a tick is missing, or came twice");
    for (int i = 0; i < SLOTS; i++) {
      free(S.slot[i].lists);
      free(S.slot[i].bytes);
    }
    blocks += S.part.all.blocks;
  }
  if (!blocks) fail("no block was adopted");
  printf("files: %llu blocks adopted\n", (unsigned long long)blocks);
  return 0;
}
