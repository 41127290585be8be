#include "schedule/aging_heap.h"

static int comes_before(const sd_aging_strand *a, const sd_aging_strand *b, int heap) {
  if (heap == SD_BY_PRIORITY && a->key != b->key) return a->key > b->key;
  if (a->listed != b->listed) return a->listed < b->listed;
  return a->order != b->order ? a->order < b->order : a < b;
}

static inline sd_heap_node *node_of(sd_aging_strand *strands, uint32_t place, int heap) {
  return &strands[place - 1].nodes[heap];
}

static inline uint32_t rank_of(sd_aging_strand *strands, uint32_t place, int heap) {
  return place ? node_of(strands, place, heap)->rank : 0;
}

/* Puts the branch with the longer path to the left. Zero: the rank is what it was. */
static int settle(sd_aging_strand *strands, uint32_t place, int heap) {
  sd_heap_node *node = node_of(strands, place, heap);
  const uint32_t left = sd_load(&node->left, relaxed, R1), right = node->right, before = node->rank;
  if (rank_of(strands, left, heap) < rank_of(strands, right, heap)) {
    node->right = left;
    sd_store(&node->left, right, relaxed, R1);
  }
  node->rank = rank_of(strands, node->right, heap) + 1;
  return node->rank != before;
}

/* Joins two heaps; returns the head. Goes down both paths to the right, and settles them on the way back. */
static uint32_t join(sd_aging_strand *strands, uint32_t a, uint32_t b, int heap) {
  uint32_t head = 0, end = 0;
  while (a && b) {
    if (comes_before(&strands[b - 1], &strands[a - 1], heap)) {
      const uint32_t other = a;
      a = b;
      b = other;
    }
    sd_heap_node *node = node_of(strands, a, heap);
    node->parent = end;
    if (end) node_of(strands, end, heap)->right = a;
    else head = a;
    end = a;
    a = node->right;
  }
  const uint32_t rest = a ? a : b;
  if (rest) node_of(strands, rest, heap)->parent = end;
  if (!end) return rest;
  node_of(strands, end, heap)->right = rest;
  for (; end; end = node_of(strands, end, heap)->parent) (void)settle(strands, end, heap);
  return head;
}

void sd_heap_add(sd_aging_strand *strands, sd_a32 *head, uint32_t place, int heap) {
  sd_heap_node *node = node_of(strands, place, heap);
  sd_store(&node->left, 0, relaxed, R1);
  node->right = node->parent = 0;
  node->rank = 1;
  sd_store(head, join(strands, sd_load(head, relaxed, R1), place, heap), relaxed, R1);
}

void sd_heap_remove(sd_aging_strand *strands, sd_a32 *head, uint32_t place, int heap) {
  const sd_heap_node *node = node_of(strands, place, heap);
  uint32_t up = node->parent;
  const uint32_t below = join(strands, sd_load(&node->left, relaxed, R1), node->right, heap);
  if (below) node_of(strands, below, heap)->parent = up;
  if (!up) {
    sd_store(head, below, relaxed, R1);
    return;
  }
  sd_heap_node *above = node_of(strands, up, heap);
  if (above->right == place) above->right = below;
  else sd_store(&above->left, below, relaxed, R1);
  while (up && settle(strands, up, heap)) up = node_of(strands, up, heap)->parent;
}

/* The strand after this one in a walk from the head, a parent before its branches. 0: there is none. */
static uint32_t walk(sd_aging_strand *strands, uint32_t place, int heap) {
  sd_heap_node *node = node_of(strands, place, heap);
  const uint32_t left = sd_load(&node->left, relaxed, R1);
  if (left || node->right) return left ? left : node->right;
  for (uint32_t up = node->parent; up; place = up, up = node_of(strands, up, heap)->parent) {
    const uint32_t right = node_of(strands, up, heap)->right;
    if (right && right != place) return right;
  }
  return 0;
}

int sd_heap_count(sd_aging_strand *strands, uint32_t n_strands, sd_a32 *head, uint32_t n, uint32_t *times, int heap) {
  uint32_t found = 0;
  for (uint32_t place = sd_load(head, relaxed, R1); place; place = walk(strands, place, heap)) {
    if (place > n_strands || found++ == n) return 0;
    const uint32_t up = node_of(strands, place, heap)->parent;
    if (up && (up > n_strands || comes_before(&strands[place - 1], &strands[up - 1], heap))) return 0;
    if (times) times[place - 1]++;
  }
  return found == n;
}
