#include "handlers/book_store.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_ORDERS = 16, FIRST_LEVELS = 8, FIRST_INDEX_BITS = 5 };

void sd_book_init(sd_book *b) {
  memset(b, 0, sizeof *b);
  b->free_order = b->free_level = SD_NO_ORDER;
}

void sd_book_free(sd_book *b) {
  free(b->index);
  free(b->orders);
  free(b->levels);
  free(b->side[0].rungs);
  free(b->side[1].rungs);
  sd_book_init(b);
}

static uint64_t index_length(const sd_book *b) { return b->index ? UINT64_C(1) << (64 - b->index_shift) : 0; }

uint64_t sd_book_bytes(const sd_book *b) {
  return index_length(b) * sizeof *b->index + (uint64_t)b->order_room * sizeof *b->orders +
         (uint64_t)b->level_room * sizeof *b->levels +
         ((uint64_t)b->side[0].room + b->side[1].room) * sizeof *b->side[0].rungs;
}

/* ---- memory */

/* Room for one more in an array that holds n; half as much again each time. */
static void *with_room(void *array, uint32_t n, uint32_t *room, uint32_t first, size_t size) {
  if (n < *room) return array;
  uint64_t more = *room ? (uint64_t)*room + *room / 2 : first;
  if (more >= SD_NO_ORDER) return NULL;
  void *grown = realloc(array, more * size);
  if (grown) *room = (uint32_t)more;
  return grown;
}

static void put_in_index(sd_book *b, uint32_t order) {
  uint32_t mask = (uint32_t)(index_length(b) - 1), at = sd_book_slot(b, b->orders[order].id);
  while (b->index[at]) at = (at + 1) & mask;
  b->index[at] = order + 1;
}

/* At most 3/5 full with one more order. */
static int grow_index(sd_book *b) {
  uint64_t length = index_length(b);
  if (((uint64_t)b->live + 1) * 5 <= length * 3) return 1;
  uint32_t *old = b->index, *grown;
  uint32_t bits = old ? 64 - b->index_shift + 1 : FIRST_INDEX_BITS;
  if (bits > 31 || !(grown = calloc((size_t)1 << bits, sizeof *grown))) return 0;
  b->index = grown;
  b->index_shift = 64 - bits;
  for (uint64_t i = 0; i < length; i++)
    if (old[i]) put_in_index(b, old[i] - 1);
  free(old);
  return 1;
}

/* All that one more order may need, before anything is changed. */
static int make_room(sd_book *b, int side) {
  sd_side *s = &b->side[side];
  if (!grow_index(b)) return 0;
  if (b->free_order == SD_NO_ORDER) {
    void *orders = with_room(b->orders, b->orders_used, &b->order_room, FIRST_ORDERS, sizeof *b->orders);
    if (!orders) return 0;
    b->orders = orders;
  }
  if (b->free_level == SD_NO_ORDER) {
    void *levels = with_room(b->levels, b->levels_used, &b->level_room, FIRST_LEVELS, sizeof *b->levels);
    if (!levels) return 0;
    b->levels = levels;
  }
  void *rungs = with_room(s->rungs, s->n, &s->room, FIRST_LEVELS, sizeof *s->rungs);
  if (!rungs) return 0;
  s->rungs = rungs;
  return 1;
}

/* ---- the index */

/* The slot an order's id is found in. */
static uint32_t slot_of(const sd_book *b, uint32_t order) {
  uint32_t mask = (uint32_t)(index_length(b) - 1), at = sd_book_slot(b, b->orders[order].id);
  while (b->index[at] != order + 1) at = (at + 1) & mask;
  return at;
}

uint32_t sd_book_find(const sd_book *b, uint64_t id) {
  if (!b->live) return SD_NO_ORDER;
  uint32_t mask = (uint32_t)(index_length(b) - 1);
  for (uint32_t at = sd_book_slot(b, id); b->index[at]; at = (at + 1) & mask)
    if (b->orders[b->index[at] - 1].id == id) return b->index[at] - 1;
  return SD_NO_ORDER;
}

/* Later entries of the run move up where that brings them nearer to their first slot: no slot is ever only marked. */
static void take_from_index(sd_book *b, uint32_t order) {
  uint32_t mask = (uint32_t)(index_length(b) - 1), hole = slot_of(b, order);
  for (uint32_t at = (hole + 1) & mask; b->index[at]; at = (at + 1) & mask) {
    uint32_t first = sd_book_slot(b, b->orders[b->index[at] - 1].id);
    if (((at - first) & mask) < ((at - hole) & mask)) continue;
    b->index[hole] = b->index[at];
    hole = at;
  }
  b->index[hole] = 0;
}

/* ---- levels */

static int64_t key_of(int side, int64_t price) { return side == SD_BID ? price : -price; }

/* The first rung that is not worse than key: where its level is, or belongs. From the best one down in growing steps, as most
 * orders come near it. */
static uint32_t rung_of(const sd_side *s, int64_t key) {
  uint32_t high = s->n, step = 1;
  while (step <= high && s->rungs[high - step].key >= key) {
    high -= step;
    step *= 2;
  }
  uint32_t low = step <= high ? high - step + 1 : 0;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (s->rungs[middle].key >= key) high = middle;
    else low = middle + 1;
  }
  return low;
}

static uint32_t new_level(sd_book *b, int side, int64_t price) {
  uint32_t level = b->free_level;
  if (level != SD_NO_ORDER) b->free_level = b->levels[level].head;
  else level = b->levels_used++;
  b->levels[level] = (sd_level){.price = price, .head = SD_NO_ORDER, .tail = SD_NO_ORDER, .side = (uint32_t)side};
  return level;
}

/* The level of a price, made if it is not there. There is room. */
static uint32_t level_at(sd_book *b, int side, int64_t price) {
  sd_side *s = &b->side[side];
  int64_t key = key_of(side, price);
  uint32_t at = rung_of(s, key);
  if (at < s->n && s->rungs[at].key == key) return s->rungs[at].level;
  memmove(&s->rungs[at + 1], &s->rungs[at], (s->n - at) * sizeof *s->rungs);
  s->rungs[at] = (sd_rung){key, new_level(b, side, price)};
  s->n++;
  return s->rungs[at].level;
}

static void drop_level(sd_book *b, uint32_t level) {
  sd_level *l = &b->levels[level];
  sd_side *s = &b->side[l->side];
  uint32_t at = rung_of(s, key_of((int)l->side, l->price));
  memmove(&s->rungs[at], &s->rungs[at + 1], (s->n - at - 1) * sizeof *s->rungs);
  s->n--;
  l->head = b->free_level;
  b->free_level = level;
}

static void enqueue(sd_book *b, uint32_t order, uint32_t level, uint32_t size) {
  sd_order *o = &b->orders[order];
  sd_level *l = &b->levels[level];
  o->size = size;
  o->level = level;
  o->next = SD_NO_ORDER;
  o->prev = l->tail;
  if (l->tail == SD_NO_ORDER) l->head = order;
  else b->orders[l->tail].next = order;
  l->tail = order;
  l->orders++;
  l->size += size;
}

static void dequeue(sd_book *b, uint32_t order) {
  sd_order *o = &b->orders[order];
  sd_level *l = &b->levels[o->level];
  if (o->prev == SD_NO_ORDER) l->head = o->next;
  else b->orders[o->prev].next = o->next;
  if (o->next == SD_NO_ORDER) l->tail = o->prev;
  else b->orders[o->next].prev = o->prev;
  l->size -= o->size;
  if (--l->orders == 0) drop_level(b, o->level);
}

/* ---- orders */

int sd_book_add(sd_book *b, uint64_t id, int side, int64_t price, uint32_t size) {
  if (!make_room(b, side)) return 0;
  uint32_t order = b->free_order;
  if (order != SD_NO_ORDER) b->free_order = b->orders[order].next;
  else order = b->orders_used++;
  b->orders[order].id = id;
  put_in_index(b, order);
  b->live++;
  enqueue(b, order, level_at(b, side, price), size);
  return 1;
}

void sd_book_remove(sd_book *b, uint32_t order) {
  take_from_index(b, order);
  dequeue(b, order);
  b->live--;
  b->orders[order].next = b->free_order;
  b->free_order = order;
}

void sd_book_reduce(sd_book *b, uint32_t order, uint32_t by) {
  sd_order *o = &b->orders[order];
  o->size -= by;
  b->levels[o->level].size -= by;
}

int sd_book_change(sd_book *b, uint32_t order, int64_t price, uint32_t size) {
  sd_order *o = &b->orders[order];
  sd_level *l = &b->levels[o->level];
  if (price == l->price && size <= o->size) {
    l->size -= o->size - size;
    o->size = size;
    return 1;
  }
  int side = (int)l->side;
  if (!make_room(b, side)) return 0;
  dequeue(b, order);
  enqueue(b, order, level_at(b, side, price), size);
  return 1;
}

void sd_book_clear(sd_book *b) {
  if (b->index) memset(b->index, 0, index_length(b) * sizeof *b->index);
  b->live = b->orders_used = b->levels_used = 0;
  b->free_order = b->free_level = SD_NO_ORDER;
  b->side[0].n = b->side[1].n = 0;
}
