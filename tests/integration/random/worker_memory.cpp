// See worker.hpp. Here: memory of every kind, got, touched, checked and given back in every way.
#include <algorithm>

#include "tests/integration/random/worker.hpp"

namespace random_program {

void worker::note_use(block& b, CUstream on) {
  CUevent event = nullptr;
  CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  CHECK(cuEventRecord(event, on));
  b.uses.push_back(event);
}

void worker::order_after_uses(block const& b, CUstream stream) {
  for (CUevent const e : b.uses) CHECK(cuStreamWaitEvent(stream, e, 0));
}

// The same from another context. When threads of two contexts wait for each other's events on their streams a
// driver (580.159) crashes there or hangs (tests/programs/foreign_waits.cpp), so on a device the host waits.
void worker::order_from_elsewhere(block const& b, CUstream stream) {
  if (!device_work::on_a_gpu()) return order_after_uses(b, stream);
  for (CUevent const e : b.uses) CHECK(cuEventSynchronize(e));
}

void worker::touch(block& b, CUstream on, bool writes) {
  order_after_uses(b, on);
  unsigned const nanoseconds = below(60'000);
  CHECK(writes ? here().work.stamp(b, on, nanoseconds) : here().work.look(b, on, nanoseconds));
  note_use(b, on);
}

bool worker::obtain(block& b, CUstream on) {
  CUresult code = CUDA_ERROR_UNKNOWN;
  void* host = nullptr;
  unsigned long long const waits = device_work::waits();
  switch (b.kind) {
    case memory::plain:
      code = cuMemAlloc(&b.address, b.bytes);
      break;
    case memory::ordered:
      code = cuMemAllocAsync(&b.address, b.bytes, on);
      break;
    case memory::pooled:
      code = cuMemAllocFromPoolAsync(&b.address, b.bytes, here().pool, on);
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
    case memory::pitched: {
      std::size_t const rows = 1 + below(8), width = std::max<std::size_t>(1, b.bytes / rows);
      std::size_t pitch = 0;
      code = cuMemAllocPitch(&b.address, &pitch, width, rows, 4);
      if (code == CUDA_SUCCESS && pitch < width) fault("a pitch of %zu for rows of %zu", pitch, width);
      b.bytes = pitch * rows;
      break;
    }
  }
  // Natively no request does. Managed and page-locked memory that has to go back first can do so by no other
  // call than one that waits, also where a device without memory is short of it.
  bool const goes_in_order = b.kind != memory::managed && !b.on_host();
  if (device_work::waits() != waits && goes_in_order && !requests_wait && !crowded)
    fault("a request for %zu bytes of kind %d waited for the device", b.bytes, static_cast<int>(b.kind));
  if (host != nullptr) b.address = reinterpret_cast<CUdeviceptr>(host);
  // A limit of the chain holds for these as well, which no fallback serves.
  bool const of_driver = b.kind == memory::pitched || b.kind == memory::pooled;
  if (code == CUDA_ERROR_OUT_OF_MEMORY && of_driver) return false;
  static char const* const names[] = {"plain",  "stream-ordered", "of a pool", "managed",
                                      "pinned", "pinned (old)",   "pitched"};
  if (!got(code, names[static_cast<std::size_t>(b.kind)])) return false;
  if (b.address % 256 != 0) fault("a block at %llx is not aligned", b.address);
  ++allocations;
  bool const ordered = b.is_ordered();
  b.stamp = next_stamp();
  device_work::took(b, ordered ? on : nullptr);
  if (ordered) note_use(b, on);
  return true;
}

void worker::allocate() {
  block b;
  b.kind = some_kind();
  b.bytes = some_size();
  if (!obtain(b, some_stream())) return;
  touch(b, some_stream(), true);
  if (below(3) == 0) touch(b, some_stream(), false);
  if (below(40) == 0) touch_from_elsewhere(b);
  here().keep(std::move(b));
}

void worker::allocate_on(CUstream on) {
  block b;
  b.kind = memory::ordered;
  b.bytes = 1 + below(65536);
  if (!obtain(b, on)) return;
  touch(b, on, true);
  here().keep(std::move(b));
}

// Another context's work is no part of what a free waits for, so the host waits for it. Peer access covers no
// stream-ordered memory.
void worker::touch_from_elsewhere(block& b) {
  std::size_t const back = now_;
  std::size_t const to =
      (now_ + 1 + below(static_cast<unsigned>(all_.places.size()) - 1)) % all_.places.size();
  if (b.is_ordered() && all_.places[to].device != here().device) return;
  go(to);
  CUstream const on = own()[below(4)];
  order_from_elsewhere(b, on);
  CHECK(here().work.look(b, on, below(10'000)));
  CHECK(cuStreamSynchronize(on));
  go(back);
}

void worker::verify(block& b) {
  if (!b.is_checked()) return;
  std::vector<std::uint32_t> seen(b.bytes / 4);
  CUstream const on = own()[below(4)];
  order_after_uses(b, on);
  CHECK(cuMemcpyDtoHAsync(seen.data(), b.address, seen.size() * 4, on));
  CHECK(cuStreamSynchronize(on));
  for (std::size_t i = 0; i < seen.size(); ++i) {
    if (seen[i] == b.stamp) continue;
    return fault("word %zu of a block of %zu bytes is %08x, not %08x", i, b.bytes, seen[i], b.stamp);
  }
}

void worker::free_one() {
  std::optional<block> b = here().take(random_);
  if (!b) return;
  if (below(8) == 0) verify(*b);
  if (below(3) == 0) touch(*b, some_stream(), below(2) == 0);
  give_back(*b);
  for (CUevent const e : b->uses) CHECK(cuEventDestroy(e));
}

void worker::give_back(block& b) {
  if (b.on_host()) {
    device_work::gives(b, nullptr);
    return CHECK(cuMemFreeHost(reinterpret_cast<void*>(b.address)));
  }
  if (b.kind != memory::managed && below(2) == 0) {
    // Rarely by a stream of the other context of this device: it waits for the uses like any other.
    std::size_t const back = now_;
    std::size_t const beside = below(static_cast<unsigned>(all_.places.size()));
    if (all_.places[beside].device == here().device && below(8) == 0) go(beside);
    CUstream const on = now_ == back ? some_stream() : own()[below(4)];
    now_ == back ? order_after_uses(b, on) : order_from_elsewhere(b, on);
    device_work::gives(b, on);
    unsigned long long const waits = device_work::waits();
    CHECK(cuMemFreeAsync(b.address, on));
    // Natively it never does, whatever stream it is.
    if (device_work::waits() != waits && !frees_wait)
      fault("cuMemFreeAsync of %zu bytes waited for the device", b.bytes);
    return go(back);
  }
  // A driver takes it that all work on stream-ordered memory is over when it is freed so.
  if (b.is_ordered()) {
    for (CUevent const e : b.uses) CHECK(cuEventSynchronize(e));
  }
  // Whatever context is current: the block knows its own.
  std::size_t const back = now_;
  if (below(8) == 0) go(below(static_cast<unsigned>(all_.places.size())));
  device_work::gives(b, nullptr);
  CHECK(cuMemFree(b.address));
  go(back);
}

// Shared with nobody, and gone as soon as it was offered: what a library does with its temporaries.
void worker::export_one() {
  block b;
  b.bytes = some_size();
  if (!obtain(b, nullptr)) return;
  touch(b, some_stream(), true);
  CUipcMemHandle handle{};
  CUresult const code = cuIpcGetMemHandle(&handle, b.address);
  if (code != CUDA_SUCCESS) ++refused_exports;
  touch(b, some_stream(), false);
  device_work::gives(b, nullptr);
  CHECK(cuMemFree(b.address));
  for (CUevent const e : b.uses) CHECK(cuEventDestroy(e));
}

// Blocking streams and the legacy one wait for each other by themselves: no event says what is before the
// free.
void worker::free_without_events() {
  block b;
  b.kind = memory::ordered;
  b.bytes = some_size();
  CUstream const blocking = below(2) == 0 ? here().shared[0] : CU_STREAM_PER_THREAD;
  bool const by_legacy = below(4) == 0;
  CUstream const uses = by_legacy ? blocking : CU_STREAM_LEGACY;
  CUstream const frees = by_legacy ? CU_STREAM_LEGACY : blocking;
  if (!obtain(b, frees)) return;
  CHECK(here().work.stamp(b, uses, below(60'000)));
  device_work::gives(b, frees);
  CHECK(cuMemFreeAsync(b.address, frees));
  for (CUevent const e : b.uses) CHECK(cuEventDestroy(e));
}

// A driver may refuse calls of a host function; then the block lives on.
void worker::free_in_host_function() {
  std::optional<block> taken = here().take(random_);
  if (!taken) return;
  struct parcel {
    place& home;
    block b;
  };
  auto* const sent = new parcel{here(), std::move(*taken)};
  auto const run = [](void* argument) {
    auto* const mine = static_cast<parcel*>(argument);
    device_work::gives(mine->b, nullptr);
    CUresult const code = mine->b.on_host() ? cuMemFreeHost(reinterpret_cast<void*>(mine->b.address))
                                            : cuMemFree(mine->b.address);
    if (code == CUDA_ERROR_NOT_PERMITTED) {
      device_work::gave_not(mine->b);
      mine->home.keep(std::move(mine->b));
    } else {
      check(code, "a free by a host function");
    }
    delete mine;
  };
  CHECK(cuLaunchHostFunc(own()[below(4)], run, sent));
}

}  // namespace random_program
