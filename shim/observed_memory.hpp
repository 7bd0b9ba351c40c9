// Bytes held by calls that are seen but not routed (arrays, pitched and pool memory, cuMemCreate, what a
// chain passed on): kept by address or handle, so that the call that gives them back subtracts what was
// added. Called by hooks on any thread after the real call; sharded, one short lock each. Never called on the
// path of a routed block.
#pragma once

#include <cuda.h>

#include <array>
#include <cstdint>
#include <map>
#include <mutex>

namespace gpumem::shim {

// What a key is: handles of different kinds may have equal values.
enum class observed_kind : std::uint8_t { address, array, mipmapped_array };

class observed_memory {
 public:
  // The one table of this process; never destroyed.
  static observed_memory& instance() noexcept;

  struct item {
    std::uint64_t bytes;
    CUcontext context;
    int device;
  };
  // False when there is no host memory to remember it: then it must not be counted either.
  bool add(observed_kind kind, std::uint64_t key, item const& held) noexcept;
  // Bytes that were held by `key`; 0 when it was never seen.
  std::uint64_t remove(observed_kind kind, std::uint64_t key) noexcept;
  // A destroyed or reset context takes its memory along.
  void forget(CUcontext context) noexcept;
  // A forked child holds nothing; the parent may have held a lock.
  void reset_in_child() noexcept;

 private:
  struct shard {
    std::mutex lock;
    std::array<std::map<std::uint64_t, item>, 3> items;  // by observed_kind
  };
  shard& of(std::uint64_t key) noexcept { return shards_[(key >> 9 ^ key >> 21) % shards_.size()]; }

  std::array<shard, 16> shards_;
};

}  // namespace gpumem::shim
