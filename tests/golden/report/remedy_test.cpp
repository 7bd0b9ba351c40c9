// What is advised against a refusal: nothing that the chain does not have, and nothing that could not help. A
// table of refusals, each with words that must stand in its remedy, and words that must not.
#include "core/report/remedy.hpp"

#include <gtest/gtest.h>

#include "core/base/text/bytes.hpp"
#include "core/driver/error.hpp"

namespace gpumem::report {
namespace {

using base::gib;
using base::mib;
using driver::refused_by;

struct refusal {
  char const* what;
  stats::failure_note note;
  std::vector<char const*> said;
  std::vector<char const*> not_said;
  std::vector<char const*> chain = {"pool", "cuda"};
};

stats::failure_note note(char const* symbol, std::uint64_t bytes, refused_by by, char const* reason,
                         std::uint64_t cached = 0, std::uint64_t largest = 0, int code = 2) {
  stats::failure_note made;
  made.symbol = symbol, made.bytes = bytes, made.code = code, made.reason = reason;
  made.refused_by = static_cast<unsigned>(by);
  made.cached = cached, made.largest_free = largest;
  return made;
}

stats::failure_note held(stats::failure_note made, std::vector<stats::failure_note::holder> holders) {
  for (auto const& holder : holders) made.held += holder.bytes;
  made.holders = std::move(holders);
  return made;
}

constexpr char const* spill = "[\"managed\"]]";
constexpr std::uint64_t huge = std::uint64_t{32} << 40;

refusal const refusals[] = {
    {"32 TiB of a device of 80 GiB",
     note("cuMemAlloc_v2", huge, refused_by::largest_block, "pool \"pool\": its largest"),
     {"the device has 80.00 GiB in all"},
     {"block_size", "raise", "maximum_pool_size", spill}},
    {"more than the device, over a limit",
     note("cuMemAlloc_v2", 100 * gib, refused_by::limit, "limiting: limit 1 GiB"),
     {"the device has 80.00 GiB in all"},
     {"raise allocation_limit"},
     {"limiting", "pool", "cuda"}},
    {"more than the device, of the driver",
     note("cuMemAllocAsync", 100 * gib, refused_by::driver, "driver: the driver refused"),
     {"the device has 80.00 GiB in all"},
     {"lower what others hold"}},
    {"a block too large for fixed_size",
     note("cuMemAlloc_v2", 2 * mib, refused_by::largest_block, "fixed_size \"small\": its"),
     {"raise block_size", "binning"},
     {"maximum_pool_size"},
     {"fixed_size", "cuda"}},
    {"a block too large for a pool of managed memory",
     note("cuMemAllocManaged", huge, refused_by::largest_block, "pool: its largest"),
     {"ask for less"},
     {"block_size", "raise", spill}},
    {"a pool at its maximum",
     note("cuMemAlloc_v2", gib, refused_by::pool_maximum, "pool: maximum_pool_size 2 GiB"),
     {"raise maximum_pool_size", spill},
     {"arena_size", "block_size"}},
    {"an arena at its maximum",
     note("cuMemAlloc_v2", gib, refused_by::pool_maximum, "arena: arena_size 2 GiB"),
     {"raise arena_size"},
     {"maximum_pool_size"},
     {"arena", "cuda"}},
    {"below a fallback",
     note("cuMemAlloc_v2", gib, refused_by::pool_maximum, "pool: maximum_pool_size 2 GiB"),
     {"raise maximum_pool_size"},
     {"fallback"},
     {"fallback", "pool", "cuda", "managed"}},
    {"pinned memory",
     note("cuMemHostAlloc", 100 * gib, refused_by::driver, "driver: the driver refused"),
     {"pinned memory"},
     {spill, "device has", "on the device"},
     {"pool", "pinned_host"}},
    {"managed memory",
     note("cuMemAllocManaged", gib, refused_by::driver, "driver: the driver refused"),
     {"free memory earlier"},
     {spill},
     {"pool", "managed"}},
    {"host memory of system",
     note("cuMemAlloc_v2", gib, refused_by::host_memory, "system: no host memory"),
     {"more host memory"},
     {spill},
     {"system"}},
    {"in pieces",
     note("cuMemAlloc_v2", gib, refused_by::driver, "driver: the driver refused", 2 * gib, mib),
     {"in pieces: bins"},
     {}},
    {"in pieces, with bins",
     note("cuMemAlloc_v2", gib, refused_by::driver, "driver: the driver refused", 2 * gib, mib),
     {"free memory earlier"},
     {"in pieces"},
     {"binning", "pool", "cuda"}},
    {"most is in PyTorch's cache",
     held(note("cuMemAlloc_v2", gib, refused_by::driver, "driver: the driver refused"),
          {{"/opt/lib/libc10_cuda.so", 61 * gib}, {"/opt/train", 39 * gib}}),
     {"61 % (61.00 GiB) is held by PyTorch's cache: torch.cuda.empty_cache()"},
     {"libc10_cuda"}},
    {"most is a library's",
     held(note("cuMemAlloc_v2", gib, refused_by::driver, "driver: the driver refused"),
          {{"/opt/lib/libsolver.so", 3 * gib}, {"/opt/train", gib}}),
     {"75 % (3.00 GiB) is held by libsolver.so"},
     {"cache", "/opt"}},
    {"nobody holds most",
     held(note("cuMemAlloc_v2", gib, refused_by::driver, "driver: the driver refused"),
          {{"/opt/a.so", gib}, {"/opt/b.so", gib}, {"/opt/c.so", gib}}),
     {"free memory earlier"},
     {"held by"}},
    {"the program alone",
     held(note("cuMemAlloc_v2", gib, refused_by::driver, "driver: the driver refused"),
          {{"/opt/train", gib}}),
     {"free memory earlier"},
     {"held by"}},
    {"a free of what is no block",
     note("cuMemFree_v2", 0, refused_by::driver, "", 0, 0, 1),
     {},
     {"raise", "block_size", "free"}},
};

struct holding {
  char const* what;
  std::vector<stats::failure_note::holder> holders;
  std::vector<stats::failure_note::site> sites;
  char const* said;  // the end of the remedy
};

// Of sites 1 to 4; site 9 is not among them.
asking_codes const codes = {{1, {"/opt/lib/libc10_cuda.so", "train.py:132 forward"}},
                            {2, {"/opt/lib/libc10_cuda.so", "train.py:132 forward"}},
                            {3, {"/opt/lib/libc10_cuda.so", "train.py:140 step"}},
                            {4, {"/opt/train", "main.cpp:7 load"}}};

TEST(remedy, names_the_holder_and_its_code) {
  std::vector<stats::failure_note::holder> const cache = {{"/opt/lib/libc10_cuda.so", 61 * gib},
                                                          {"/opt/train", 39 * gib}};
  std::string const text =
      "61 % (61.00 GiB) is held by PyTorch's cache: torch.cuda.empty_cache() frees what is idle in it";
  for (holding const& one : {
           holding{"most of it by two sites of one line",
                   cache,
                   {{1, 20 * gib}, {4, 39 * gib}, {2, 20 * gib}, {3, 21 * gib}},
                   ", most of it by train.py:132 forward"},
           holding{"a part that stands out",
                   cache,
                   {{1, 20 * gib}, {3, 41 * gib}, {9, 90 * gib}},
                   ", most of it by train.py:140 step"},
           holding{"a third of it",
                   cache,
                   {{1, 20 * gib}, {3, 15 * gib}, {9, 15 * gib}},
                   ", 32 % of that by train.py:132 forward"},
           holding{"none stands out", cache, {{1, 14 * gib}, {3, 13 * gib}}, ""},
           holding{"none is told apart", cache, {{9, 90 * gib}}, ""},
           holding{"no samples", cache, {}, ""},
       }) {
    stats::failure_note refused =
        held(note("cuMemAlloc_v2", gib, refused_by::driver, "driver: refused"), one.holders);
    refused.sites = one.sites;
    EXPECT_TRUE(remedy_for(refused, {}, codes).ends_with(text + one.said))
        << one.what << ": " << remedy_for(refused, {}, codes);
  }
  stats::failure_note alone =
      held(note("cuMemAlloc_v2", gib, refused_by::driver, "driver: refused"), {{"/opt/train", 8 * gib}});
  alone.sites = {{4, 7 * gib}};
  EXPECT_TRUE(remedy_for(alone, {}, codes)
                  .ends_with("100 % (8.00 GiB) is held by train, most of it by main.cpp:7 load"))
      << remedy_for(alone, {}, codes);
}

TEST(remedy, the_fallback_names_the_resources_of_the_chain_that_there_is) {
  stats::snapshot in;
  auto const add = [&in](char const* name, char const* type, unsigned depth, char const* route = "device",
                         int device = 0) {
    in.nodes.push_back(
        {.name = name, .type = type, .route = route, .options = {}, .depth = depth, .device = device});
  };
  auto const refused = note("cuMemAlloc_v2", gib, refused_by::limit, "limiting \"cap\": limit 1 GiB");
  EXPECT_NE(remedy_for(refused, in).find("[[\"pool\", \"cuda\"], [\"managed\"]]"), std::string::npos);
  add("other", "pool", 0, "device", 1);
  add("for managed", "managed", 0, "managed");
  add("cap", "limiting", 0);
  add("bins", "binning", 1);
  add("mine", "arena", 2);
  add("superblocks", "superblocks", 3);
  add("cuda", "cuda", 3);
  add("direct", "direct", 4);
  add("bin 1 KiB", "fixed_size", 2);
  add("a rule's", "pool", 0, "rule 1");
  std::string const text = remedy_for(refused, in);
  EXPECT_NE(text.find("chains = [[\"cap\", \"bins\", \"mine\", \"cuda\"], [\"managed\"]]"), text.npos)
      << text;
}

TEST(remedy, is_never_nonsense) {
  for (auto const& one : refusals) {
    stats::snapshot in;
    in.devices.resize(1);
    in.devices[0].gauges.total = 80 * gib;
    for (char const* type : one.chain)
      in.nodes.push_back({.name = type,
                          .type = type,
                          .route = "device",
                          .options = {},
                          .depth = static_cast<unsigned>(in.nodes.size())});
    std::string const text = remedy_for(one.note, in);
    for (char const* words : one.said)
      EXPECT_NE(text.find(words), text.npos) << one.what << ": " << words << ": " << text;
    for (char const* words : one.not_said)
      EXPECT_EQ(text.find(words), text.npos) << one.what << ": " << words << ": " << text;
    EXPECT_TRUE(!one.said.empty() || text.empty()) << one.what << ": " << text;
  }
}

}  // namespace
}  // namespace gpumem::report
