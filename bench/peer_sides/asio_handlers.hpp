// What a symbol's strand keeps: an average, or a book of orders by number and levels by price.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

// One of protocol.py's EVENT.
struct Event {
  int64_t ts;
  uint64_t order_id;
  int64_t price;
  uint32_t size;
  uint32_t symbol;
  char op;
  char side;
  uint16_t pad;
  uint32_t more;
};
static_assert(sizeof(Event) == 40, "as numpy packs it");

// Strands of two symbols run side by side: what they write to must not share a cache line.
struct alignas(64) Average {
  uint64_t volume = 0;
  uint64_t notional = 0;

  void on_event(const Event &event) {
    volume += event.size;
    notional += static_cast<uint64_t>(event.price) * event.size;
  }
};

struct Order {
  uint64_t id = 0; // 0: no order
  int64_t price = 0;
  int64_t size = 0;
};

// Open addressing, at most three quarters full; what is erased is closed up, so that nothing is left to step over.
class Orders {
public:
  Order &operator[](uint64_t id) {
    if (4 * (live_ + 1) > 3 * places_.size()) grow();
    size_t at = find(id);
    if (places_[at].id == 0) {
      places_[at].id = id;
      live_++;
    }
    return places_[at];
  }

  void erase(uint64_t id) {
    size_t hole = find(id);
    if (places_[hole].id == 0) return;
    live_--;
    for (size_t at = next(hole); places_[at].id != 0; at = next(at)) {
      // One that stands between its own place and the hole is found without passing the hole.
      size_t own = home(places_[at].id);
      if (((at - own) & mask()) < ((at - hole) & mask())) continue;
      places_[hole] = places_[at];
      hole = at;
    }
    places_[hole] = Order{};
  }

private:
  size_t mask() const { return places_.size() - 1; }
  size_t next(size_t at) const { return (at + 1) & mask(); }
  size_t home(uint64_t id) const { return (id * 11400714819323198485u >> 20) & mask(); }

  size_t find(uint64_t id) const {
    size_t at = home(id);
    while (places_[at].id != 0 && places_[at].id != id) at = next(at);
    return at;
  }

  void grow() {
    std::vector<Order> old(2 * places_.size());
    old.swap(places_);
    for (const Order &order : old)
      if (order.id != 0) places_[find(order.id)] = order;
  }

  std::vector<Order> places_ = std::vector<Order>(16);
  size_t live_ = 0;
};

// The levels of a side, the best one last: that is where nearly everything happens. Prices of asks are negated.
class Levels {
public:
  struct Level {
    int64_t price;
    int64_t size;
  };

  void add(int64_t price, int64_t change) {
    auto at = levels_.end();
    while (at != levels_.begin() && (at - 1)->price >= price) --at;
    if (at == levels_.end() || at->price != price) at = levels_.insert(at, Level{price, 0});
    at->size += change;
    if (at->size == 0) levels_.erase(at);
  }

  Level best() const { return levels_.empty() ? Level{0, 0} : levels_.back(); }

private:
  std::vector<Level> levels_;
};

struct alignas(64) Book {
  Orders orders;
  Levels bids, asks;
  bool seen = false;

  void on_event(const Event &event) {
    seen = true;
    bool buy = event.side == 'B';
    Levels &levels = buy ? bids : asks;
    Order &order = orders[event.order_id];
    if (event.op == 'A') order.price = buy ? event.price : -event.price;
    int64_t left = event.op == 'D' ? 0 : event.size;
    levels.add(order.price, left - order.size);
    order.size = left;
    if (left == 0) orders.erase(event.order_id);
  }
};
