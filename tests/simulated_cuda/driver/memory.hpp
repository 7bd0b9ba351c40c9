// Everything that has an address: driver allocations of every kind, the small-block segments, and
// stream-ordered pools. Called by the API functions under the machine's lock. Knows when memory may serve
// again through points in time; who waits is the machine's business. A block is found by any address inside
// it; a freed one is gone at once, even if its bytes are still in use.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <vector>

#include "cuda_api.hpp"
#include "managed_ranges.hpp"
#include "model.hpp"
#include "space.hpp"

namespace simulated {

enum class block_kind : std::uint8_t {
  device,
  managed,
  pooled,
  graph,
  host,
  registered,
  imported,
  mapping,
  array
};

struct pool;
struct graph_memory;

struct block {
  block_kind kind = block_kind::device;
  std::uint64_t base = 0;
  std::uint64_t bytes = 0;  // as asked
  std::uint64_t span = 0;   // as taken
  std::uint64_t id = 0;
  context* owner = nullptr;
  int device = 0;
  unsigned flags = 0;
  bool sync_memops = false;
  bool orphaned = false;      // pooled: its context has ended, and with it what a program had in it
  int access = 0;             // mapping: what its own device may do
  bool apart = false;         // managed: of more than the device has, addresses alone
  std::uint32_t open_to = 0;  // mapping: other devices that may touch it, by bit
  std::uint64_t segment = 0;  // device: the driver block that holds it
  std::uint64_t segment_bytes = 0;
  pool* from = nullptr;
  graph_memory* of_graph = nullptr;
};

// A pool of cuMemAllocAsync. It reuses in stream order, or what is finished, never anything else.
struct pool {
  int device = 0;
  bool is_default = false;
  bool managed = false;
  bool destroyed = false;  // by the program; lives on until its last block is freed
  std::uint64_t threshold = 0;
  std::uint64_t maximum = 0;
  std::uint64_t reserved = 0, reserved_high = 0, used = 0;
  // What the attributes tell: bytes as asked; what cuMemFree takes back stays used (measured).
  std::uint64_t told_used = 0, used_high = 0;
  struct chunk {
    std::uint64_t bytes = 0;
    std::uint64_t segment = 0;
    bool free = false;
    point when;                     // free: end of its last use
    unsigned long long stream = 0;  // free: id of the stream it was freed on; 0: several
  };
  std::map<std::uint64_t, chunk> chunks;
  std::set<std::pair<std::uint64_t, std::uint64_t>> by_size;  // free ones: bytes, address
  std::map<std::uint64_t, std::uint64_t> segments;
  std::set<int> peers;  // devices that cuMemPoolSetAccess gave access
  int reuse_follow = 1, reuse_opportunistic = 1, reuse_internal = 1;

  bool open_to(int which) const { return managed || which == device || peers.contains(which); }
};

// Memory that host and devices share, of cuMemAllocManaged or of a managed pool.
inline bool is_managed(block const& of) {
  return of.kind == block_kind::managed || (of.from != nullptr && of.from->managed);
}

// Memory of a graph: its address is fixed at capture.
struct graph_memory {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  bool live = false;  // allocated by a launch, not yet freed
  ~graph_memory();
};

class memory {
 public:
  void add_device(std::uint64_t capacity);
  space& of(int device) { return *spaces_[static_cast<std::size_t>(device)]; }

  // That contains the address, or null. Of a graph's memory nobody knows but the capture, until a launch has
  // it allocated (measured of one that runs): `captured`.
  block* find(std::uint64_t address, bool captured = false);
  block* at(std::uint64_t base);          // that begins there, or null
  block* last_before(std::uint64_t end);  // the last that begins below it, or null
  // Where what is mapped ends, from a block on: its driver block, or the maps right behind each other.
  std::uint64_t mapped_end(block const& from) const;
  block& insert(block made);
  void erase(std::uint64_t base) { blocks_.erase(base); }
  std::map<std::uint64_t, block>& blocks() { return blocks_; }

  // A file that is there as long as the driver block, for processes that were given its handle; and what it
  // holds.
  std::pair<int, std::uint64_t> share(std::uint64_t of_block);

  // Bytes as they were asked for, of all blocks of a kind.
  std::uint64_t held(int device, block_kind kind) const;

  // cuMemAlloc and its kind. 0: no room.
  std::uint64_t allocate(context* owner, block_kind kind, std::uint64_t bytes);
  void release(block const& gone);  // its bytes may serve at once
  void release_after(block const& gone, point when);

  std::uint64_t allocate(pool& from, stream& on, std::uint64_t bytes, nanoseconds now);
  void release(block const& gone, stream const* on, point when, nanoseconds now);
  void trim(pool& of, std::uint64_t keep, nanoseconds now, vector_clock& host);
  // A destroyed pool whose memory is all free, and whose frees are done.
  bool drop_if_over(pool& of, nanoseconds now, vector_clock& host);
  void drop(pool& of);  // all of it, in use or not

  // Deferred releases whose time has come; the driver has seen them end, so the host clock takes note.
  void collect(nanoseconds now, vector_clock& host);
  void forget(context* owner);

  managed_ranges advised;
  std::set<pool*> pools;
  std::vector<pool*> default_pool, current_pool, managed_pool;  // by device

 private:
  std::uint64_t carve(context* owner, std::uint64_t bytes);
  static bool absorb(pool& home, std::map<std::uint64_t, pool::chunk>::iterator left, nanoseconds now);
  static void coalesce(pool& home, nanoseconds now);
  void cut(pool& home, std::map<std::uint64_t, pool::chunk>::iterator idle, std::uint64_t gone);
  bool grow(pool& from, std::uint64_t bytes);
  void give(int device, std::uint64_t address, std::uint64_t bytes);
  std::uint64_t take_chunk(pool& from, std::map<std::uint64_t, pool::chunk>::iterator it,
                           std::uint64_t bytes);

  struct segment {
    context* owner = nullptr;
    std::map<std::uint64_t, std::uint64_t> holes;
  };
  std::vector<std::unique_ptr<space>> spaces_;
  std::map<std::uint64_t, block> blocks_;
  std::map<std::uint64_t, segment> segments_;                      // of small blocks
  std::map<std::uint64_t, std::pair<int, std::uint64_t>> shared_;  // by driver block
  std::vector<std::pair<block, point>> deferred_;
  std::uint64_t next_id_ = 1;
};

}  // namespace simulated
