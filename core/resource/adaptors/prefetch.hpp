// `prefetch`: moves managed memory to a device when it is allocated, ahead of its use (RMM's
// prefetch_resource_adaptor). Above a pool it moves each block, on the request's stream; below one each
// segment. Segments, and requests without a stream, use a stream that carries nothing else. While the
// context captures nothing is moved: memory then comes when it is touched. Costs a driver call for each
// allocation.
#pragma once

#include "core/base/threads/mutex.hpp"
#include "core/resource/adaptors/adaptor.hpp"
#include "core/resource/adaptors/source_adaptor.hpp"

namespace gpumem::resource {

// What both forms do.
class prefetcher {
 public:
  // `device`: where memory goes.
  prefetcher(chain_context const& home, std::size_t node, int device) noexcept
      : home_(home), node_(node), device_(device) {}
  // Behind what `ordered` holds; null: on a stream of its own. Not during a capture; the first refusal is
  // said.
  void move(std::uint64_t address, std::uint64_t bytes, CUstream ordered) noexcept;
  // The context is gone and the stream with it.
  void forget() noexcept;

 private:
  CUstream own_stream() noexcept;  // made at its first use; null: the driver refused

  chain_context const& home_;
  std::size_t const node_;
  int const device_;
  base::mutex mutex_;
  CUstream stream_ GPUMEM_GUARDED_BY(mutex_) = nullptr;
  std::atomic<bool> told_{false};
};

// The form above a pool: moves blocks.
class prefetch final : public adaptor {
 public:
  prefetch(chain_context const& home, std::size_t node, int device, resource& below) noexcept
      : adaptor(home, node, below), mover_(home, node, device) {}

  void forget() noexcept override { mover_.forget(); }

 private:
  space::handle serve(allocation_request const& request) override;

  prefetcher mover_;
};

// The form below a pool: moves segments.
class prefetch_source final : public source_adaptor {
 public:
  prefetch_source(chain_context const& home, std::size_t node, int device, source& below) noexcept
      : source_adaptor(node, below), mover_(home, node, device) {}

  void forget() noexcept override { mover_.forget(); }

 private:
  extent serve(allocation_request const& request) override;

  prefetcher mover_;
};

}  // namespace gpumem::resource
