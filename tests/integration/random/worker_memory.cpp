// See worker.hpp. Here: memory of every kind, got, touched, checked and given back in every way.
#include "tests/integration/random/worker.hpp"
#include "tests/simulated_cuda/simulated.h"

namespace random_program {

namespace {

constexpr std::size_t most_checked = 65536;  // bytes of a block that is filled and compared

bool on_host(memory kind) {
  return kind == memory::pinned || kind == memory::pinned_old;
}

}  // namespace

void worker::note_use(block& b, CUstream on) {
  CUevent event = nullptr;
  CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  CHECK(cuEventRecord(event, on));
  b.uses.push_back(event);
}

void worker::order_after_uses(block const& b, CUstream stream) {
  for (CUevent const e : b.uses) CHECK(cuStreamWaitEvent(stream, e, 0));
}

void worker::touch(block& b, CUstream on, bool writes) {
  order_after_uses(b, on);
  simulated_access const access{b.address, b.bytes, writes ? 1 : 0};
  CHECK(simulatedLaunch(on, &access, 1, below(60'000)));
  note_use(b, on);
}

void worker::fill(block& b, CUstream on) {
  order_after_uses(b, on);
  CHECK(cuMemsetD8Async(b.address, b.pattern, b.bytes, on));
  note_use(b, on);
}

bool worker::obtain(block& b, CUstream on) {
  CUresult code = CUDA_ERROR_UNKNOWN;
  void* host = nullptr;
  switch (b.kind) {
    case memory::plain:
      code = cuMemAlloc(&b.address, b.bytes);
      break;
    case memory::ordered:
      code = cuMemAllocAsync(&b.address, b.bytes, on);
      break;
    case memory::managed:
      code = cuMemAllocManaged(&b.address, b.bytes, CU_MEM_ATTACH_GLOBAL);
      break;
    case memory::pinned:
      code = cuMemHostAlloc(&host, b.bytes, CU_MEMHOSTALLOC_PORTABLE);
      break;
    case memory::pinned_old:
      code = cuMemAllocHost(&host, b.bytes);
      break;
  }
  if (host != nullptr) b.address = reinterpret_cast<CUdeviceptr>(host);
  check(code, "an allocation");
  if (code != CUDA_SUCCESS) return false;
  if (b.address % 256 != 0) fault("a block at %llx is not aligned", b.address);
  ++allocations;
  bool const ordered = b.kind == memory::ordered;
  simulatedNoteAllocate(b.address, b.bytes, ordered ? on : nullptr);
  if (ordered) note_use(b, on);
  return true;
}

void worker::allocate() {
  block b;
  b.kind = some_kind();
  b.bytes = some_size();
  b.pattern = static_cast<unsigned char>(random_());
  if (!obtain(b, some_stream())) return;
  if (b.bytes <= most_checked) {
    fill(b, some_stream());
  } else {
    touch(b, some_stream(), true);
  }
  if (below(3) == 0) touch(b, some_stream(), false);
  if (below(40) == 0) touch_from_elsewhere(b);
  here().keep(std::move(b));
}

void worker::allocate_on(CUstream on) {
  block b;
  b.kind = memory::ordered;
  b.bytes = 1 + below(most_checked);
  b.pattern = static_cast<unsigned char>(random_());
  if (!obtain(b, on)) return;
  fill(b, on);
  here().keep(std::move(b));
}

// Another context's work is no part of what a free waits for, so the host waits for it. Peer access covers no
// stream-ordered memory.
void worker::touch_from_elsewhere(block& b) {
  std::size_t const back = now_;
  std::size_t const to = (now_ + 1 + below(2)) % all_.places.size();
  if (b.kind == memory::ordered && all_.places[to].device != here().device) return;
  go(to);
  CUstream const on = own()[below(4)];
  order_after_uses(b, on);
  simulated_access const access{b.address, b.bytes, 0};
  CHECK(simulatedLaunch(on, &access, 1, below(10'000)));
  CHECK(cuStreamSynchronize(on));
  go(back);
}

void worker::verify(block& b) {
  if (b.bytes > most_checked) return;
  std::vector<unsigned char> seen(b.bytes);
  CUstream const on = own()[below(4)];
  order_after_uses(b, on);
  CHECK(cuMemcpyDtoHAsync(seen.data(), b.address, b.bytes, on));
  CHECK(cuStreamSynchronize(on));
  for (std::size_t i = 0; i < b.bytes; ++i) {
    if (seen[i] == b.pattern) continue;
    return fault("byte %zu of a block of %zu is %u, not %u", i, b.bytes, seen[i], b.pattern);
  }
}

void worker::free_one() {
  std::optional<block> b = here().take(random_);
  if (!b) return;
  if (below(8) == 0) verify(*b);
  if (below(3) == 0) touch(*b, some_stream(), below(2) == 0 && b->bytes > most_checked);
  give_back(*b);
  for (CUevent const e : b->uses) CHECK(cuEventDestroy(e));
}

void worker::give_back(block& b) {
  if (on_host(b.kind)) {
    simulatedNoteFree(b.address, nullptr);
    return CHECK(cuMemFreeHost(reinterpret_cast<void*>(b.address)));
  }
  if (b.kind != memory::managed && below(2) == 0) {
    // Rarely by a stream of the other context of this device: it waits for the uses like any other.
    std::size_t const back = now_;
    if (now_ != 1 && below(16) == 0) go(2 - now_);
    CUstream const on = now_ == back ? some_stream() : own()[below(4)];
    order_after_uses(b, on);
    simulatedNoteFree(b.address, on);
    CHECK(cuMemFreeAsync(b.address, on));
    return go(back);
  }
  // Whatever context is current: the block knows its own.
  std::size_t const back = now_;
  if (below(8) == 0) go(below(3));
  simulatedNoteFree(b.address, nullptr);
  CHECK(cuMemFree(b.address));
  go(back);
}

// A driver may refuse calls of a host function; then the block lives on.
void worker::free_in_host_function() {
  std::optional<block> taken = here().take(random_);
  if (!taken) return;
  if (on_host(taken->kind)) return here().keep(std::move(*taken));
  struct parcel {
    place& home;
    block b;
  };
  auto* const sent = new parcel{here(), std::move(*taken)};
  auto const run = [](void* argument) {
    auto* const mine = static_cast<parcel*>(argument);
    simulatedNoteFree(mine->b.address, nullptr);
    CUresult const code = cuMemFree(mine->b.address);
    if (code == CUDA_ERROR_NOT_PERMITTED) {
      simulatedNoteFreeRefused(mine->b.address);
      mine->home.keep(std::move(mine->b));
    } else {
      check(code, "a free by a host function");
    }
    delete mine;
  };
  CHECK(cuLaunchHostFunc(own()[below(4)], run, sent));
}

}  // namespace random_program
