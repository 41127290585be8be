// Boost.Asio: an io_context that SHARDS threads run, a strand a symbol, and the day's events posted in their order.
//
//     asio_side JOB FOLDER SHARD SHARDS OUT WAY    see protocol.py
//     asio_side --version
//
// WAY tick: a handler an event. WAY batch: a handler for what a chunk of the day has of a symbol.
//
// The main thread posts, and helps where it is too far ahead: a queue without bound would be a queue of the whole day.

#include "asio_handlers.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <boost/version.hpp>

#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace asio = boost::asio;
using Strand = asio::strand<asio::io_context::executor_type>;

namespace {

constexpr size_t IN_FLIGHT = 65536; // events posted and not yet handled
constexpr size_t CHUNK = 4096;
constexpr size_t LOOK_EVERY = 256; // events between two looks at how far the threads are
constexpr uint32_t NONE = UINT32_MAX;

std::vector<Event> read_events(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  char head[10];
  if (!file.read(head, sizeof head) || std::memcmp(head, "\x93NUMPY\x01", 7) != 0)
    throw std::runtime_error(path + " is no array of version 1");
  file.seekg(0, std::ios::end);
  size_t begin = 10 + static_cast<uint8_t>(head[8]) + 256 * static_cast<uint8_t>(head[9]);
  size_t bytes = static_cast<size_t>(file.tellg()) - begin;
  std::vector<Event> events(bytes / sizeof(Event));
  file.seekg(static_cast<std::streamoff>(begin));
  if (bytes % sizeof(Event) != 0 || !file.read(reinterpret_cast<char *>(events.data()), bytes))
    throw std::runtime_error(path + " does not hold events");
  return events;
}

// How many events each thread has handled: a line each, summed by the one who posts.
class Handled {
public:
  explicit Handled(size_t threads) : counts_(threads) {}
  void i_am(size_t thread) { mine_ = &counts_[thread].n; }
  static void add(uint64_t n) { mine_->store(mine_->load(std::memory_order_relaxed) + n, std::memory_order_release); }

  uint64_t sum() const {
    uint64_t all = 0;
    for (const Count &count : counts_) all += count.n.load(std::memory_order_acquire);
    return all;
  }

private:
  struct alignas(64) Count {
    std::atomic<uint64_t> n{0};
  };
  std::vector<Count> counts_;
  static thread_local std::atomic<uint64_t> *mine_;
};
thread_local std::atomic<uint64_t> *Handled::mine_ = nullptr;

template <class State> class Run {
public:
  Run(const std::string &folder, const std::string &job, size_t threads)
      : context_(static_cast<int>(threads)), work_(context_.get_executor()), handled_(threads) {
    events_ = read_events(folder + "/" + job + ".npy");
    next_.resize(events_.size());
    uint32_t symbols = 0;
    for (const Event &event : events_) symbols = std::max(symbols, event.symbol + 1);
    states_ = std::vector<State>(symbols);
    for (uint32_t i = 0; i < symbols; i++) strands_.emplace_back(context_.get_executor());
    handled_.i_am(0);
    for (size_t i = 1; i < threads; i++)
      threads_.emplace_back([this, i] {
        handled_.i_am(i);
        context_.run();
      });
  }

  ~Run() {
    work_.reset();
    for (std::thread &thread : threads_) thread.join();
  }

  void by_tick() {
    for (size_t i = 0; i < events_.size(); i++) {
      const Event &event = events_[i];
      State &state = states_[event.symbol];
      asio::post(strands_[event.symbol], [&state, &event] {
        state.on_event(event);
        Handled::add(1);
      });
      if (i % LOOK_EVERY == 0) keep_up(i + 1, IN_FLIGHT);
    }
    keep_up(events_.size(), 0);
  }

  // The events of a chunk are chained by symbol, so that a handler walks along its symbol's.
  void by_batch() {
    std::vector<uint32_t> last(states_.size(), NONE), first(states_.size(), NONE), met;
    for (size_t begin = 0; begin < events_.size(); begin += CHUNK) {
      size_t end = std::min(begin + CHUNK, events_.size());
      for (size_t i = begin; i < end; i++) {
        uint32_t symbol = events_[i].symbol, here = static_cast<uint32_t>(i);
        if (first[symbol] == NONE) {
          first[symbol] = here;
          met.push_back(symbol);
        } else {
          next_[last[symbol]] = here;
        }
        last[symbol] = here;
        next_[i] = NONE;
      }
      for (uint32_t symbol : met) {
        asio::post(strands_[symbol], [this, symbol, at = first[symbol]]() mutable {
          uint64_t n = 0;
          for (; at != NONE; at = next_[at], n++) states_[symbol].on_event(events_[at]);
          Handled::add(n);
        });
        first[symbol] = NONE;
      }
      met.clear();
      keep_up(end, IN_FLIGHT);
    }
    keep_up(events_.size(), 0);
  }

  const std::vector<State> &states() const { return states_; }

private:
  // Handles with the others while more than `ahead` of the `posted` events wait.
  void keep_up(uint64_t posted, uint64_t ahead) {
    while (posted - handled_.sum() > ahead)
      if (context_.poll_one() == 0) std::this_thread::yield();
  }

  asio::io_context context_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  Handled handled_;
  std::vector<Event> events_;
  std::vector<uint32_t> next_;
  std::vector<State> states_;
  std::vector<Strand> strands_;
  std::vector<std::thread> threads_;
};

// ---- results, as protocol.py's VWAP and TOP

template <class... Values> void put(std::string &rows, Values... values) {
  (rows.append(reinterpret_cast<const char *>(&values), sizeof values), ...);
}

uint64_t add_row(std::string &rows, uint32_t symbol, const Average &average) {
  if (average.volume == 0) return 0;
  put(rows, symbol, average.volume, static_cast<double>(average.notional));
  return 1;
}

uint64_t add_row(std::string &rows, uint32_t symbol, const Book &book) {
  if (!book.seen) return 0;
  Levels::Level bid = book.bids.best(), ask = book.asks.best();
  put(rows, symbol, bid.price, bid.size, -ask.price, ask.size);
  return 1;
}

const char *dtype(const Average &) { return "[('symbol','<u4'),('volume','<u8'),('notional','<f8')]"; }

const char *dtype(const Book &) {
  return "[('symbol','<u4'),('bid_price','<i8'),('bid_size','<i8'),('ask_price','<i8'),('ask_size','<i8')]";
}

template <class State> void write_rows(const std::string &path, const std::vector<State> &states) {
  std::string rows;
  uint64_t count = 0;
  for (size_t i = 0; i < states.size(); i++) count += add_row(rows, static_cast<uint32_t>(i), states[i]);
  std::string head =
      std::string("{'descr':") + dtype(State{}) + ",'fortran_order':False,'shape':(" + std::to_string(count) + ",)}";
  head.append(63 - (10 + head.size()) % 64, ' ').append("\n");
  std::ofstream file(path, std::ios::binary);
  file.write("\x93NUMPY\x01\x00", 8);
  file.put(static_cast<char>(head.size() % 256)).put(static_cast<char>(head.size() / 256));
  file << head << rows;
  if (!file.flush()) throw std::runtime_error(path + " cannot be written");
}

double seconds_since(std::chrono::steady_clock::time_point begun) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
}

template <class State> void serve(char **arguments) {
  const std::string job = arguments[1], folder = arguments[2], out = arguments[5], way = arguments[6];
  auto begun = std::chrono::steady_clock::now();
  Run<State> run(folder, job, std::stoul(arguments[4]));
  std::cout << "{\"load_s\": " << seconds_since(begun) << "}" << std::endl;
  std::string go;
  if (!std::getline(std::cin, go)) return; // whoever asked is gone
  begun = std::chrono::steady_clock::now();
  way == "batch" ? run.by_batch() : run.by_tick();
  std::cout << "{\"run_s\": " << seconds_since(begun) << "}" << std::endl;
  write_rows(out, run.states());
  std::cout << "{\"saved\": true}" << std::endl;
}

} // namespace

int main(int count, char **arguments) {
  if (count == 2 && std::string(arguments[1]) == "--version") {
    std::cout << "Boost " << BOOST_VERSION / 100000 << "." << BOOST_VERSION / 100 % 1000 << std::endl;
    return 0;
  }
  if (count != 7) {
    std::cerr << "usage: asio_side JOB FOLDER SHARD SHARDS OUT WAY" << std::endl;
    return 2;
  }
  try {
    if (std::string(arguments[1]) == "book") serve<Book>(arguments);
    else serve<Average>(arguments);
  } catch (const std::exception &error) {
    std::cerr << error.what() << std::endl;
    return 1;
  }
  return 0;
}
