#include "handlers/book_store.h"

#include <string.h>

#include "sd_atomic.h"

enum { FIRST_INDEX_BITS = 4, MOST_INDEX_BITS = 31, MOST_ROOM = 1 << 30 };

/* ---- memory */

static uint64_t index_length(const sd_book *b) { return b->index_bits ? UINT64_C(1) << b->index_bits : 0; }

/* Of the index and the orders, which are half as many. */
static uint64_t order_bytes(uint64_t length) { return length * sizeof(uint32_t) + length / 2 * sizeof(sd_order); }

static uint64_t level_bytes(uint32_t room) { return room * sizeof(sd_level); }

/* Of both sides: keys and levels. */
static uint64_t ladder_bytes(uint32_t room) { return 2 * (uint64_t)room * (sizeof(int64_t) + sizeof(uint32_t)); }

uint64_t sd_book_order_bytes(const sd_book *b) { return order_bytes(index_length(b)); }

uint64_t sd_book_level_bytes(const sd_book *b) { return level_bytes(b->level_room) + ladder_bytes(b->rung_room); }

void sd_book_free(sd_book *b, sd_pool *pool) {
  sd_pool_give(pool, b->index, order_bytes(index_length(b)));
  sd_pool_give(pool, b->levels, level_bytes(b->level_room));
  sd_pool_give(pool, b->ladder, ladder_bytes(b->rung_room));
  memset(b, 0, sizeof *b);
}

/* ---- the index
 *
 * An entry is an order's position plus one in its low index_bits bits, which reach as positions are below half the length. Its
 * high bits, the tag, are those of the order's hash around the last bit of its slot: FAR of them above, which tell how far
 * the entry lies from its slot unless that is more (index_far), the others below.
 */

enum { FAR_BITS = 8, FAR_TAG = 10 };

/* How many bits of the slot a tag has; 0: the index is so long that there is no room for them. */
static inline uint32_t far_bits(const sd_book *b) {
  uint32_t tag = 32u - b->index_bits;
  return tag < FAR_TAG ? 0 : b->index_bits < FAR_BITS ? b->index_bits : FAR_BITS;
}

static inline uint32_t tag_of(const sd_book *b, uint64_t hash) {
  uint32_t bits = b->index_bits;
  /* The hash from bit `from` on: its slot's low bits last. */
  uint32_t from = 64 - bits + far_bits(b) - (32 - bits);
  return (uint32_t)(hash >> from) << bits;
}

static inline uint32_t position_mask(const sd_book *b) { return (UINT32_C(1) << b->index_bits) - 1; }

static inline void set_entry(sd_book *b, uint32_t at, uint64_t hash, uint32_t order) {
  b->index[at] = tag_of(b, hash) | (order + 1);
  if (SD_UNLIKELY(((at - sd_book_slot(b, hash)) & position_mask(b)) >> far_bits(b))) b->index_far = 1;
}

/* How far an entry lies from its slot. */
static inline uint32_t distance(const sd_book *b, uint32_t at) {
  uint32_t mask = position_mask(b), entry = b->index[at], bits = far_bits(b);
  if (SD_UNLIKELY(b->index_far || !bits))
    return (at - sd_book_slot(b, sd_book_hash(sd_book_orders(b)[(entry & mask) - 1].id))) & mask;
  return (at - (entry >> (32 - bits))) & ((1u << bits) - 1);
}

uint32_t sd_book_find(const sd_book *b, uint64_t id) {
  if (!b->live) return SD_NO_ORDER;
  uint64_t hash = sd_book_hash(id);
  uint32_t mask = position_mask(b), tag = tag_of(b, hash), entry;
  const sd_order *orders = sd_book_orders(b);
  for (uint32_t at = sd_book_slot(b, hash); (entry = b->index[at]) != 0; at = (at + 1) & mask)
    if ((entry & ~mask) == tag && orders[(entry & mask) - 1].id == id) return (entry & mask) - 1;
  return SD_NO_ORDER;
}

uint32_t sd_book_guess(const sd_book *b, uint64_t id) {
  if (!b->live) return SD_NO_ORDER;
  uint64_t hash = sd_book_hash(id);
  uint32_t mask = position_mask(b), tag = tag_of(b, hash), entry;
  for (uint32_t at = sd_book_slot(b, hash); (entry = b->index[at]) != 0; at = (at + 1) & mask)
    if ((entry & ~mask) == tag) return (entry & mask) - 1;
  return SD_NO_ORDER;
}

/* Later entries of the run move up where that brings them nearer to their slots: no slot is ever only marked. */
static void take_from_index(sd_book *b, uint32_t order) {
  uint64_t hash = sd_book_hash(sd_book_orders(b)[order].id);
  uint32_t mask = position_mask(b), hole = sd_book_slot(b, hash), wanted = tag_of(b, hash) | (order + 1);
  while (b->index[hole] != wanted) hole = (hole + 1) & mask;
  for (uint32_t at = (hole + 1) & mask; b->index[at]; at = (at + 1) & mask) {
    if (distance(b, at) < ((at - hole) & mask)) continue;
    b->index[hole] = b->index[at];
    hole = at;
  }
  b->index[hole] = 0;
}

/* ---- room */

/* For one more order: the index half full at most. */
static int grow_orders(sd_book *b, sd_pool *pool) {
  uint64_t length = index_length(b);
  uint32_t bits = length ? b->index_bits + 1u : FIRST_INDEX_BITS;
  if (bits > MOST_INDEX_BITS) return 0;
  uint32_t *old = b->index, *grown = sd_pool_take(pool, order_bytes(UINT64_C(1) << bits));
  if (!grown) return 0;
  memset(grown, 0, sizeof *grown << bits);
  const sd_order *orders = old ? sd_book_orders(b) : NULL;
  b->index = grown;
  b->index_bits = (uint8_t)bits;
  b->index_far = 0;
  if (old) memcpy(sd_book_orders(b), orders, b->orders_used * sizeof *orders);
  for (uint32_t i = 0; i < b->orders_used; i++) {
    if (!sd_book_orders(b)[i].size) continue;
    uint64_t hash = sd_book_hash(sd_book_orders(b)[i].id);
    uint32_t at = sd_book_slot(b, hash);
    while (grown[at]) at = (at + 1) & position_mask(b);
    set_entry(b, at, hash, i);
  }
  sd_pool_give(pool, old, order_bytes(length));
  return 1;
}

static int grow_levels(sd_book *b, sd_pool *pool) {
  uint32_t room = sd_ladder_room(b->level_room);
  sd_level *grown = room > MOST_ROOM ? NULL : sd_pool_take(pool, level_bytes(room));
  if (!grown) return 0;
  if (b->levels) memcpy(grown, b->levels, b->levels_used * sizeof *grown);
  sd_pool_give(pool, b->levels, level_bytes(b->level_room));
  b->levels = grown;
  b->level_room = room;
  return 1;
}

static int grow_ladder(sd_book *b, sd_pool *pool) {
  sd_book old = *b;
  uint32_t room = sd_ladder_room(b->rung_room);
  int64_t *grown = room > MOST_ROOM ? NULL : sd_pool_take(pool, ladder_bytes(room));
  if (!grown) return 0;
  b->ladder = grown;
  b->rung_room = room;
  for (int side = 0; side < 2 && old.ladder; side++) {
    memcpy(sd_book_keys(b, side), sd_book_keys(&old, side), b->n[side] * sizeof(int64_t));
    memcpy(sd_book_rungs(b, side), sd_book_rungs(&old, side), b->n[side] * sizeof(uint32_t));
  }
  sd_pool_give(pool, old.ladder, ladder_bytes(old.rung_room));
  return 1;
}

/* All that one more order may need, before anything is changed. */
static inline int make_room(sd_book *b, sd_pool *pool, int side) {
  if (!b->free_order && b->orders_used == index_length(b) / 2 && !grow_orders(b, pool)) return 0;
  if (!b->free_level && b->levels_used == b->level_room && !grow_levels(b, pool)) return 0;
  return b->n[side] < b->rung_room || grow_ladder(b, pool);
}

/* ---- levels */

static uint32_t new_level(sd_book *b, int side, int64_t price) {
  uint32_t level;
  if (b->free_level) {
    level = b->free_level - 1;
    b->free_level = b->levels[level].head;
  } else {
    level = b->levels_used++;
  }
  b->levels[level] = (sd_level){.price = price, .head = SD_NO_ORDER, .tail = SD_NO_ORDER, .side = (uint32_t)side};
  return level;
}

static inline int is_rung(const int64_t *keys, uint32_t n, uint32_t at, int64_t key) {
  return at <= n && (at == n || keys[at] >= key) && (at == 0 || keys[at - 1] < key);
}

/* The level of a price, made if it is not there. There is room. */
static uint32_t level_at(sd_book *b, int side, int64_t price, uint32_t at) {
  int64_t *keys = sd_book_keys(b, side), key = sd_ladder_key(side, price);
  uint32_t *rungs = sd_book_rungs(b, side), n = b->n[side];
  if (SD_UNLIKELY(!is_rung(keys, n, at, key))) at = sd_book_rung(b, side, price);
  if (at < n && keys[at] == key) return rungs[at];
  for (uint32_t i = n; i > at; i--) {
    keys[i] = keys[i - 1];
    rungs[i] = rungs[i - 1];
  }
  keys[at] = key;
  b->n[side] = n + 1;
  return rungs[at] = new_level(b, side, price);
}

static void drop_level(sd_book *b, uint32_t level) {
  sd_level *l = &b->levels[level];
  int side = (int)l->side;
  int64_t *keys = sd_book_keys(b, side);
  uint32_t *rungs = sd_book_rungs(b, side), n = b->n[side] - 1;
  for (uint32_t at = sd_book_rung(b, side, l->price); at < n; at++) {
    keys[at] = keys[at + 1];
    rungs[at] = rungs[at + 1];
  }
  b->n[side] = n;
  l->head = b->free_level;
  b->free_level = level + 1;
}

static void enqueue(sd_book *b, uint32_t order, uint32_t level, uint32_t size) {
  sd_order *orders = sd_book_orders(b), *o = &orders[order];
  sd_level *l = &b->levels[level];
  o->size = size;
  o->place = level << 1 | l->side;
  o->next = SD_NO_ORDER;
  o->prev = l->tail;
  if (l->tail == SD_NO_ORDER) l->head = order;
  else orders[l->tail].next = order;
  l->tail = order;
  l->orders++;
  l->size += size;
}

static void dequeue(sd_book *b, uint32_t order) {
  sd_order *orders = sd_book_orders(b), *o = &orders[order];
  sd_level *l = &b->levels[sd_order_level(o)];
  if (o->prev == SD_NO_ORDER) l->head = o->next;
  else orders[o->prev].next = o->next;
  if (o->next == SD_NO_ORDER) l->tail = o->prev;
  else orders[o->next].prev = o->prev;
  l->size -= o->size;
  if (--l->orders == 0) drop_level(b, sd_order_level(o));
}

/* ---- orders */

int sd_book_add(sd_book *b, sd_pool *pool, uint64_t id, int side, int64_t price, uint32_t size, uint32_t rung) {
  if (SD_UNLIKELY(!make_room(b, pool, side))) return SD_BOOK_NO_MEMORY;
  sd_order *orders = sd_book_orders(b);
  uint64_t hash = sd_book_hash(id);
  uint32_t mask = position_mask(b), tag = tag_of(b, hash), at = sd_book_slot(b, hash), entry, order;
  for (; (entry = b->index[at]) != 0; at = (at + 1) & mask)
    if (SD_UNLIKELY((entry & ~mask) == tag) && orders[(entry & mask) - 1].id == id) return SD_BOOK_DUPLICATE;
  if (b->free_order) {
    order = b->free_order - 1;
    b->free_order = orders[order].next;
  } else {
    order = b->orders_used++;
  }
  orders[order].id = id;
  set_entry(b, at, hash, order);
  b->live++;
  enqueue(b, order, level_at(b, side, price, rung), size);
  return SD_BOOK_ADDED;
}

void sd_book_remove(sd_book *b, uint32_t order) {
  sd_order *o = &sd_book_orders(b)[order];
  take_from_index(b, order);
  dequeue(b, order);
  b->live--;
  o->size = 0;
  o->next = b->free_order;
  b->free_order = order + 1;
}

void sd_book_reduce(sd_book *b, uint32_t order, uint32_t by) {
  sd_order *o = &sd_book_orders(b)[order];
  o->size -= by;
  b->levels[sd_order_level(o)].size -= by;
}

int sd_book_change(sd_book *b, sd_pool *pool, uint32_t order, int64_t price, uint32_t size) {
  sd_order *o = &sd_book_orders(b)[order];
  sd_level *l = &b->levels[sd_order_level(o)];
  if (price == l->price && size <= o->size) {
    l->size -= o->size - size;
    o->size = size;
    return 1;
  }
  int side = (int)l->side;
  if (!make_room(b, pool, side)) return 0;
  dequeue(b, order);
  enqueue(b, order, level_at(b, side, price, SD_NO_ORDER), size);
  return 1;
}

void sd_book_clear(sd_book *b) {
  if (b->index) memset(b->index, 0, index_length(b) * sizeof *b->index);
  b->live = b->orders_used = b->levels_used = b->free_order = b->free_level = 0;
  b->n[0] = b->n[1] = 0;
  b->index_far = 0;
}
