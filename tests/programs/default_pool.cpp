// What a device's default memory pool says of itself while cudaMallocAsync takes from it: used and reserved
// bytes with their highest, resets of these, release at a synchronisation by the threshold, trim; frees with
// and without a stream; which pool a block is of. Programs with their own view of cudaMallocAsync, such as
// PyTorch's backend, read these. Named by its handle it is the same pool; and it goes on counting while
// another pool is the current one. Modes: late | between | refused | shared (two devices) | keep | trim;
// together: two threads choose the current pool at once; captured and crowded: blocks of the legacy stream
// beside a capture, and of more streams than gpumem tells apart, are the pool's. Run plain and preloaded by
// the integration and GPU tests.
#include <cuda.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/programs/support.hpp"

namespace {

using namespace programs;

constexpr std::size_t mib = 1 << 20;
cudaMemPool_t pool = nullptr;

std::uint64_t ask(cudaMemPoolAttr attribute) {
  std::uint64_t value = 0;
  REQUIRE(cudaMemPoolGetAttribute(pool, attribute, &value));
  return value;
}

void show(const char* what) {
  std::printf("%s: used %llu, at most %llu, reserved %llu, at most %llu\n", what,
              (unsigned long long)ask(cudaMemPoolAttrUsedMemCurrent),
              (unsigned long long)ask(cudaMemPoolAttrUsedMemHigh),
              (unsigned long long)ask(cudaMemPoolAttrReservedMemCurrent),
              (unsigned long long)ask(cudaMemPoolAttrReservedMemHigh));
}

void reset_highest() {
  std::uint64_t none = 0;
  REQUIRE(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &none));
  REQUIRE(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReservedMemHigh, &none));
}

void keep(std::uint64_t bytes) {
  REQUIRE(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &bytes));
}

void* take(std::size_t bytes, cudaStream_t stream = nullptr) {
  void* block = nullptr;
  REQUIRE(cudaMallocAsync(&block, bytes, stream));
  return block;
}

void* take_by_handle(std::size_t bytes) {
  void* block = nullptr;
  REQUIRE(cudaMallocFromPoolAsync(&block, bytes, pool, nullptr));
  return block;
}

// The largest value that the threshold can have: nothing goes back by itself, as PyTorch has it.
void kept() {
  keep(~std::uint64_t{0});
  std::vector<void*> blocks;
  for (std::size_t bytes :
       {100 * mib, 20 * mib, 3 * mib, std::size_t{1000}, std::size_t{513}, std::size_t{1}}) {
    blocks.push_back(take(bytes));
    show("one more");
  }
  for (void* block : blocks) {
    REQUIRE(cudaFreeAsync(block, nullptr));
    std::printf("used %llu\n", (unsigned long long)ask(cudaMemPoolAttrUsedMemCurrent));
  }
  REQUIRE(cudaDeviceSynchronize());
  show("all freed");
  REQUIRE(cudaMemPoolTrimTo(pool, 64 * mib));
  show("trimmed to 64 MiB");
  reset_highest();
  show("highest forgotten");
  REQUIRE(cudaMemPoolTrimTo(pool, 0));
  show("trimmed");
}

void released_by_threshold() {
  reset_highest();
  keep(64 * mib);
  void* const large = take(200 * mib);
  void* const small = take(10 * mib);
  show("200 MiB and 10 MiB");
  REQUIRE(cudaFreeAsync(large, nullptr));
  REQUIRE(cudaDeviceSynchronize());
  show("200 MiB freed");
  REQUIRE(cudaFreeAsync(small, nullptr));
  REQUIRE(cudaDeviceSynchronize());
  show("10 MiB freed");
  keep(0);
  REQUIRE(cudaFreeAsync(take(mib), nullptr));
  REQUIRE(cudaDeviceSynchronize());
  show("nothing kept");
}

// A free without a stream is one of the pool's memory as well, which its figures do not hear of.
void freed_otherwise() {
  void* const block = take(mib);
  void* const plain = [] {
    void* made = nullptr;
    REQUIRE(cudaMalloc(&made, 2 * mib));
    return made;
  }();
  REQUIRE(cudaDeviceSynchronize());
  show("beside cudaMalloc");
  REQUIRE(cudaFreeAsync(plain, nullptr));
  show("cudaMalloc's freed on a stream");
  REQUIRE(cudaFree(block));
  REQUIRE(cudaDeviceSynchronize());
  std::printf("the other by cudaFree: used %llu\n", (unsigned long long)ask(cudaMemPoolAttrUsedMemCurrent));
}

CUmemoryPool pool_of(void* block) {
  CUmemoryPool its = nullptr;
  REQUIRE(
      cuPointerGetAttribute(&its, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, reinterpret_cast<CUdeviceptr>(block)));
  return its;
}

bool is_of_pool(void* block) {
  return pool_of(block) == pool;
}

// By cudaMallocAsync, which takes from the current pool, and by cudaMallocFromPoolAsync.
void by_both_calls() {
  keep(~std::uint64_t{0});
  REQUIRE(cudaMemPoolTrimTo(pool, 0));
  reset_highest();
  void* const blocks[] = {take(10 * mib), take_by_handle(10 * mib), take(8 * mib)};
  show("10 and 8 MiB, 10 by the pool's handle");
  void* const large = take_by_handle(40 * mib);
  show("40 MiB by its handle");
  std::printf("of the pool: by its handle %d\n", is_of_pool(large));
  for (void* block : blocks) REQUIRE(cudaFreeAsync(block, nullptr));
  REQUIRE(cudaFreeAsync(large, nullptr));
  REQUIRE(cudaDeviceSynchronize());
  REQUIRE(cudaMemPoolTrimTo(pool, 0));
  show("all freed, trimmed");
}

cudaMemPool_t make_current_pool() {
  cudaMemPool_t made = nullptr;
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  REQUIRE(cudaMemPoolCreate(&made, &properties));
  REQUIRE(cudaDeviceSetMemPool(0, made));
  return made;
}

// Asked for the first time when another pool was the current one for a while.
void another_in_between() {
  void* const before = take(5 * mib);
  cudaMemPool_t const other = make_current_pool();
  void* const of_other = take(7 * mib);
  show("another is current");
  void* const by_handle = take_by_handle(2 * mib);
  show("2 MiB by its handle");
  REQUIRE(cudaDeviceSetMemPool(0, pool));
  show("current again");
  void* const after = take(3 * mib);
  show("3 MiB more");
  std::printf("of the pool: %d %d %d %d\n", is_of_pool(before), is_of_pool(of_other), is_of_pool(by_handle),
              is_of_pool(after));
  for (void* block : {before, of_other, by_handle, after}) REQUIRE(cudaFreeAsync(block, nullptr));
  REQUIRE(cudaDeviceSynchronize());
  show("all freed");
  REQUIRE(cudaMemPoolDestroy(other));
}

// From the moment on when another device may touch the pool.
void shared_since() {
  show("at the start");
  REQUIRE(cudaFreeAsync(take(10 * mib), nullptr));
  REQUIRE(cudaDeviceSynchronize());
  cudaMemAccessDesc access{};
  access.location = {cudaMemLocationTypeDevice, 1};
  access.flags = cudaMemAccessFlagsProtReadWrite;
  REQUIRE(cudaMemPoolSetAccess(pool, &access, 1));
  void* const blocks[] = {take(6 * mib), take_by_handle(mib)};
  show("7 MiB after 10");
  void* const large = take(40 * mib);
  show("47 MiB");
  for (void* block : {blocks[0], blocks[1], large}) REQUIRE(cudaFreeAsync(block, nullptr));
  REQUIRE(cudaDeviceSynchronize());
  reset_highest();
  show("all freed, highest forgotten");
  cudaMemPool_t const other = make_current_pool();
  void* const before = take(5 * mib);
  REQUIRE(cudaMemPoolSetAccess(other, &access, 1));
  std::uint64_t used[2] = {};
  REQUIRE(cudaMemPoolGetAttribute(other, cudaMemPoolAttrUsedMemCurrent, &used[0]));
  REQUIRE(cudaFreeAsync(before, nullptr));
  REQUIRE(cudaDeviceSynchronize());
  REQUIRE(cudaMemPoolGetAttribute(other, cudaMemPoolAttrUsedMemCurrent, &used[1]));
  std::printf("of a pool opened later: used %llu, %llu\n", (unsigned long long)used[0],
              (unsigned long long)used[1]);
  REQUIRE(cudaMemPoolDestroy(other));
}

// The current pool is not destroyed where that is refused, as beside a capture.
void destruction_refused() {
  cudaMemPool_t const other = make_current_pool();
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  const cudaError_t code = cudaMemPoolDestroy(other);
  cudaGraph_t graph = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(stream, &graph);
  std::printf("destroyed beside a capture: code %d, its end %d\n", code, ended);
  if (graph != nullptr) REQUIRE(cudaGraphDestroy(graph));
  cudaGetLastError();
  void* const block = take(5 * mib);
  std::printf("then of the default pool %d, of the other %d\n", is_of_pool(block), pool_of(block) == other);
  show("the default pool");
  REQUIRE(cudaFreeAsync(block, nullptr));
  REQUIRE(cudaDeviceSynchronize());
  if (code != cudaSuccess) REQUIRE(cudaMemPoolDestroy(other));
  void* const last = take(5 * mib);
  std::printf("without it of the default pool %d\n", is_of_pool(last));
  REQUIRE(cudaFreeAsync(last, nullptr));
  REQUIRE(cudaStreamDestroy(stream));
}

// Whoever of two threads was last: a block is of the pool that the device says is its current one.
void chosen_together(int rounds) {
  cudaMemPool_t const other = make_current_pool();
  std::barrier together(3);
  std::atomic<bool> stop{false};
  auto const choose = [&](cudaMemPool_t which) {
    return std::thread([&, which] {
      for (;;) {
        together.arrive_and_wait();
        if (stop) return;
        REQUIRE(cudaDeviceSetMemPool(0, which));
        together.arrive_and_wait();
      }
    });
  };
  std::thread one = choose(pool), two = choose(other);
  // A second or two, but on a machine that is busy with much else.
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  for (int i = 0; i < rounds && std::chrono::steady_clock::now() < until; ++i) {
    together.arrive_and_wait();
    together.arrive_and_wait();
    cudaMemPool_t current = nullptr;
    REQUIRE(cudaDeviceGetMemPool(&current, 0));
    void* const block = take(4096);
    REQUIRE_CODE(pool_of(block) == current, true);
    REQUIRE(cudaFreeAsync(block, nullptr));
  }
  stop = true;
  together.arrive_and_wait();
  one.join();
  two.join();
  std::puts("each block is of the current pool");
}

void tell_of(const char* name, void* block) {
  CUcontext context = nullptr;
  unsigned by_legacy_ipc = 7;
  const auto address = reinterpret_cast<CUdeviceptr>(block);
  REQUIRE(cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, address));
  REQUIRE(cuPointerGetAttribute(&by_legacy_ipc, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, address));
  std::printf("%s: of the pool %d, has a context %d, may be exported %u\n", name, is_of_pool(block),
              context != nullptr, by_legacy_ipc);
}

void beside_a_capture() {
  cudaStream_t captured = nullptr;
  cudaStream_t latest = nullptr;
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&captured, cudaStreamNonBlocking));
  for (const bool asked : {false, true}) {  // until somebody asks for figures nothing is counted
    if (asked) reset_highest();
    REQUIRE(cudaStreamBeginCapture(captured, cudaStreamCaptureModeRelaxed));
    REQUIRE(cudaStreamCreate(&latest));  // whose stream is whose is asked anew
    void* const legacy = take(4096);
    void* const large = take(3 * mib);
    void* const own = take(4096, cudaStreamPerThread);
    REQUIRE(cudaStreamEndCapture(captured, &graph));
    REQUIRE(cudaGraphDestroy(graph));
    tell_of("of the legacy stream", legacy);
    tell_of("a large one", large);
    tell_of("of the thread's stream", own);
    if (asked) show("with them");
    for (void* block : {legacy, large}) REQUIRE(cudaFreeAsync(block, nullptr));
    REQUIRE(cudaFreeAsync(own, cudaStreamPerThread));
    REQUIRE(cudaDeviceSynchronize());
    void* plain = nullptr;
    REQUIRE(cudaMalloc(&plain, 4096));
    tell_of("a plain one after them", plain);
    REQUIRE(cudaFree(plain));
    if (asked) show("without");
    REQUIRE(cudaStreamDestroy(latest));
  }
  REQUIRE(cudaStreamDestroy(captured));
}

void on_many_streams(std::size_t count) {
  std::vector<cudaStream_t> streams(count);
  std::vector<void*> blocks;
  std::size_t of_pool = 0;
  for (cudaStream_t& stream : streams) {
    REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    blocks.push_back(take(512, stream));
  }
  for (void* block : blocks) of_pool += is_of_pool(block);
  std::printf("%zu of %zu are of the pool\n", of_pool, count);
  for (std::size_t i = 0; i < count; ++i) REQUIRE(cudaFreeAsync(blocks[i], streams[i]));
  for (cudaStream_t stream : streams) REQUIRE(cudaStreamDestroy(stream));
}

void codes() {
  std::uint64_t value = 5;
  for (auto attribute : {cudaMemPoolAttrUsedMemHigh, cudaMemPoolAttrReservedMemHigh,
                         cudaMemPoolAttrUsedMemCurrent, cudaMemPoolAttrReservedMemCurrent}) {
    std::printf("set %d to 5: code %d\n", static_cast<int>(attribute),
                cudaMemPoolSetAttribute(pool, attribute, &value));
  }
  std::printf("attribute 15: code %d\n",
              cudaMemPoolGetAttribute(pool, static_cast<cudaMemPoolAttr>(15), &value));
  cudaGetLastError();
}

void on_two_streams() {
  cudaStream_t streams[2] = {};
  for (cudaStream_t& stream : streams) REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  std::uint64_t used = ask(cudaMemPoolAttrUsedMemCurrent);
  reset_highest();
  std::vector<std::pair<void*, std::size_t>> live;
  sequence random(7);
  std::uint64_t now = 0;
  std::uint64_t highest = 0;
  for (int i = 0; i < 2000; ++i) {
    if (live.size() < 20 && random.next(5) < 3) {
      const std::size_t bytes = 1 + random.next(200'000);
      live.emplace_back(take(bytes, streams[random.next(2)]), bytes);
      now += bytes;
    } else if (!live.empty()) {
      REQUIRE(cudaFreeAsync(live.back().first, streams[random.next(2)]));
      now -= live.back().second;
      live.pop_back();
    }
    highest = now > highest ? now : highest;
    REQUIRE_CODE(ask(cudaMemPoolAttrUsedMemCurrent) - used == now, 1);
    REQUIRE_CODE(ask(cudaMemPoolAttrUsedMemHigh) - used == highest, 1);
  }
  for (auto [block, bytes] : live) REQUIRE(cudaFreeAsync(block, streams[0]));
  std::printf("2000 calls on two streams: used %llu, at most %llu\n", (unsigned long long)now,
              (unsigned long long)highest);
  for (cudaStream_t stream : streams) REQUIRE(cudaStreamDestroy(stream));
  REQUIRE(cudaDeviceSynchronize());
}

}  // namespace

int main(int count, char** arguments) {
  REQUIRE(cudaDeviceGetDefaultMemPool(&pool, 0));
  if (count > 1 && std::strcmp(arguments[1], "late") == 0) {  // asked for the first time with blocks live
    void* const before = take(5 * mib);
    show("asked late");
    void* const after = take(3 * mib);
    show("one more");
    REQUIRE(cudaFreeAsync(before, nullptr));
    REQUIRE(cudaFreeAsync(after, nullptr));
    REQUIRE(cudaDeviceSynchronize());
    show("freed");
    return 0;
  }
  if (count > 1 && std::strcmp(arguments[1], "between") == 0) return another_in_between(), 0;
  if (count > 1 && std::strcmp(arguments[1], "refused") == 0) return destruction_refused(), 0;
  if (count > 1 && std::strcmp(arguments[1], "together") == 0) return chosen_together(50'000), 0;
  if (count > 1 && std::strcmp(arguments[1], "captured") == 0) return beside_a_capture(), 0;
  if (count > 1 && std::strcmp(arguments[1], "crowded") == 0) return on_many_streams(2'100), 0;
  if (count > 1 && std::strcmp(arguments[1], "shared") == 0) return shared_since(), 0;
  if (count > 1) {  // "keep", and "trim" what was kept
    keep(~std::uint64_t{0});
    REQUIRE(cudaFreeAsync(take(100 * mib), nullptr));
    REQUIRE(cudaDeviceSynchronize());
    if (std::strcmp(arguments[1], "trim") == 0) REQUIRE(cudaMemPoolTrimTo(pool, 0));
    show(arguments[1]);
    return 0;
  }
  show("at the start");
  kept();
  released_by_threshold();
  void* const ordered = take(mib);
  void* plain = nullptr;
  REQUIRE(cudaMalloc(&plain, mib));
  std::printf("of the pool: ordered %d, plain %d\n", is_of_pool(ordered), is_of_pool(plain));
  REQUIRE(cudaFreeAsync(ordered, nullptr));
  REQUIRE(cudaFree(plain));
  on_two_streams();
  by_both_calls();
  codes();
  freed_otherwise();
}
