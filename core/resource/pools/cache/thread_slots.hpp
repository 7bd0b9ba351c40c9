// This thread's magazines, by their set, and the blocks it was handed last. Found through one
// thread-local pointer, as static TLS is scarce. A magazine belongs to its suballocator; when the thread
// ends the set may give it to the next one.
#pragma once

#include <array>
#include <cstdint>

#include "core/resource/pools/cache/recent_blocks.hpp"

namespace gpumem::resource {

class suballocator;
class cache_set;
class magazine;

struct thread_slots {
  static constexpr std::size_t most = 64;
  // This thread's magazine of one suballocator.
  struct entry {
    cache_set* owner = nullptr;  // an index may be that of a chain that could not be built before
    magazine* own = nullptr;
  };
  // This thread's last stream-less route, from context to magazine, cached to skip dependent loads. `from` is
  // only compared.
  struct way {
    void const* from = nullptr;
    std::size_t number = 0;
    suballocator* to = nullptr;
    magazine* own = nullptr;

    bool begins_at(void const* context, std::size_t chain) const noexcept {
      return from == context && number == chain;
    }
  };

  way last;
  // The smallest that no other thread has: counted up from 0, used again when a thread ends.
  std::uint32_t number = 0;
  recent_blocks recent;
  std::array<entry, most + 1> entries{};  // the last is nobody's: of a suballocator that got no index
};

// Those of nobody, empty, until this thread has its own.
extern thread_slots no_slots;
extern constinit thread_local thread_slots* own_slots;

// This thread's slots, made at the first call and given up when the thread ends. Null when memory is short.
thread_slots* attach_thread() noexcept;
// In a forked child: the parent's magazines are not ours.
void drop_thread() noexcept;

}  // namespace gpumem::resource
