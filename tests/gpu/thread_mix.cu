// Many threads that mix cudaMalloc, cudaMallocAsync and both frees, with kernels, and hand a part of their
// blocks to the next thread, which checks them on its own stream after an event and frees them there. Every
// word is checked on the device. Arguments: threads, rounds.
#include <mutex>
#include <thread>

#include "tests/gpu/kernels.cuh"

namespace {

using namespace programs;

struct parcel {
  void* block = nullptr;
  std::size_t bytes = 0;
  std::uint32_t value = 0;
  cudaEvent_t written = nullptr;
};

struct mailbox {
  std::mutex mutex;
  std::vector<parcel> parcels;

  void put(const parcel& what) {
    std::lock_guard lock(mutex);
    parcels.push_back(what);
  }
  std::vector<parcel> take() {
    std::lock_guard lock(mutex);
    return std::move(parcels);
  }
};

void check_and_free(mailbox& from, cudaStream_t stream, bool ordered, gpu::wrong_counter& wrong) {
  for (const parcel& each : from.take()) {
    REQUIRE(cudaStreamWaitEvent(stream, each.written));
    gpu::launch_count(each.block, each.bytes, each.value, 0, wrong.device(), stream);
    REQUIRE(ordered ? counted_free_async(each.block, stream) : cudaStreamSynchronize(stream));
    if (!ordered) REQUIRE(counted_free(each.block));
    REQUIRE(cudaEventDestroy(each.written));
  }
}

void work(int own, int rounds, mailbox& mine, mailbox& next, gpu::wrong_counter& wrong) {
  cudaStream_t stream;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  sequence random(static_cast<std::uint64_t>(own) + 17);
  for (int round = 0; round < rounds; ++round) {
    parcel made{nullptr, 4 * (1 + random.next(1 << random.next(20))),
                static_cast<std::uint32_t>(own * 100003 + round), nullptr};
    const bool ordered = random.next(2) == 1;
    REQUIRE(ordered ? counted_malloc_async(&made.block, made.bytes, stream)
                    : counted_malloc(&made.block, made.bytes));
    gpu::launch_fill(made.block, made.bytes, made.value, stream);
    gpu::launch_count(made.block, made.bytes, made.value, round % 32 == 0 ? 50'000 : 0, wrong.device(),
                      stream);
    if (random.next(4) == 0) {
      REQUIRE(cudaEventCreateWithFlags(&made.written, cudaEventDisableTiming));
      REQUIRE(cudaEventRecord(made.written, stream));
      next.put(made);
    } else if (random.next(2) == 0) {
      REQUIRE(counted_free_async(made.block, stream));
    } else {
      REQUIRE(ordered ? cudaStreamSynchronize(stream) : cudaSuccess);  // cudaFree of these does not wait
      REQUIRE(counted_free(made.block));
    }
    check_and_free(mine, stream, random.next(2) == 0, wrong);
  }
  REQUIRE(cudaStreamSynchronize(stream));
  REQUIRE(cudaStreamDestroy(stream));
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 24;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 300;
  gpu::wrong_counter wrong;
  std::vector<mailbox> boxes(static_cast<std::size_t>(threads));
  std::vector<std::thread> workers;
  for (int own = 0; own < threads; ++own) {
    workers.emplace_back([&, own] {
      work(own, rounds, boxes[static_cast<std::size_t>(own)],
           boxes[static_cast<std::size_t>((own + 1) % threads)], wrong);
    });
  }
  for (std::thread& worker : workers) worker.join();
  for (mailbox& left : boxes) check_and_free(left, nullptr, false, wrong);
  const unsigned long long all = wrong.read();
  wrong.release();
  std::printf("%d threads, %d rounds each, %llu wrong words\n", threads, rounds, all);
  // How frees divide over the two calls depends on which thread comes first; their sum does not.
  std::printf("allocations %llu\n",
              static_cast<unsigned long long>(counts.allocations + counts.async_allocations));
  std::printf("frees %llu\n", static_cast<unsigned long long>(counts.frees + counts.async_frees));
  return all == 0 ? 0 : 1;
}
