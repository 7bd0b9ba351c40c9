// Samples of requests: which code holds a device's memory, always on. On average one byte in `sample_every`
// is drawn, and the request that it lies in stands for as many bytes as its chance makes it: sums over sites
// are right on average, and nearly exact for blocks that are larger than that. Asked by the hot path with one
// comparison (must_sample); a sampled request walks its stack at most 200 times a second, else it counts for
// the site that its caller and stack pointer had last. Any thread, no lock of ours held. No heap.
#pragma once

#include <cstdint>

#include "core/stats/callers/call_sites.hpp"

namespace gpumem::stats {

inline constexpr std::uint64_t usual_sample_every = std::uint64_t{32} << 20;

// Once, before the first request; 0: no samples.
void use_samples(std::uint64_t every) noexcept;
// Where the first context is, what the first request that is sampled would wait for, 110 to 190 us: the first
// walk of a process reads tables of its files that nothing has read, and the kernel makes room for the sites.
// False where there are no samples, and nothing is done.
bool prepare_samples() noexcept;
// In a forked child: numbers of sites are its parent's.
void forget_sampled_sites() noexcept;

// What is kept of a sampled block, and what an unsampled one has not.
struct sample {
  std::uint64_t bytes : 48 = 0;  // that it stands for
  std::uint64_t site : 16 = no_site;

  bool is_none() const noexcept { return site == no_site; }
};
static_assert(sizeof(sample) == 8);

struct sampled_request {
  std::size_t device_slot = 0;
  std::uint64_t bytes = 0;
  void const* caller = nullptr;
  void const* stack = nullptr;  // the stack pointer of a function of ours that the caller's call led to
};

// Where a request that was refused came from, whatever samples say: the stack is walked, no lock of ours
// held.
call_site site_of_refused(std::size_t device_slot, void const* caller) noexcept;

// Of a request that this thread has just counted in `mine`, of a shard of the page: none, or counted.
sample take_sample(device_counters& mine, sampled_request const& request) noexcept;
// The same where each request is looked at for another reason: must_sample() stays true.
sample take_sample_of_every_request(device_counters& mine, sampled_request const& request) noexcept;
// Of memory that no chain serves; not counted yet.
sample choose_observed(sampled_request const& request) noexcept;

// The block is the program's, or was given back. Nothing for none.
void count_sampled(sample const& of) noexcept;
void count_sampled_free(sample const& of) noexcept;

// --- for tests ---
// How far the next sampled byte lies behind the last, on average `every`.
std::uint64_t sampling_gap(std::uint64_t every, std::uint64_t seed) noexcept;
// What a sampled request of that size stands for: its bytes by the chance that it is sampled.
std::uint64_t sampled_weight(std::uint64_t every, std::uint64_t bytes) noexcept;

}  // namespace gpumem::stats
