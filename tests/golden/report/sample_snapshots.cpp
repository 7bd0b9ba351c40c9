// See sample_snapshots.hpp.
#include "tests/golden/report/sample_snapshots.hpp"

#include <signal.h>

namespace gpumem::report {
namespace {

constexpr std::uint64_t kib = 1024, mib = 1024 * kib, gib = 1024 * mib;
constexpr std::uint64_t second = 1'000'000'000;

stats::snapshot process(std::vector<std::string> argv) {
  stats::snapshot made;
  made.tool_version = "0.1.0", made.host = "node17", made.cudart = "static", made.driver_version = 13000;
  made.exe = "/usr/bin/python3.11", made.cwd = "/home/anna/job", made.argv = std::move(argv);
  made.environment = {"GPUMEM_CONFIG=chain.toml", "CUDA_VISIBLE_DEVICES=0"};
  made.config_path = "/home/anna/job/chain.toml", made.config_text = "version = 1\n";
  made.config_sha256 = "9f2c1a7e00000000000000000000000000000000000000000000000000000000";
  made.pid = 48211, made.ppid = 48000, made.opened_wall_ns = 1'700'000'000 * second, made.shards_used = 3;
  return made;
}

void end_by_exit(stats::snapshot& of, int code, std::uint64_t duration) {
  of.closed = true;
  of.end = {stats::end_kind::exit, code, 0, 1, duration};
}

void add_sizes(stats::snapshot& to, std::uint64_t bytes, std::uint64_t count) {
  auto& bucket = to.sizes[stats::bucket_of(bytes)];
  bucket.count += count;
  bucket.bytes += count * bytes;
}

stats::device_totals device(int ordinal, std::uint64_t scale) {
  stats::device_totals made;
  made.ordinal = ordinal;
  made.name = "NVIDIA H100 80GB HBM3";
  made.uuid = "GPU-00000000-0000-0000-0000-00000000000" + std::to_string(ordinal);
  auto& counters = made.counters;
  counters.allocated_blocks = 1'204'919 * scale, counters.freed_blocks = 1'204'882 * scale;
  counters.allocated_requested = 9800 * gib * scale, counters.freed_requested = 9799 * gib * scale;
  counters.allocated_handed = 9960 * gib * scale + 12 * mib, counters.freed_handed = 9959 * gib * scale;
  counters.rung_cached = 1'100'000, counters.rung_same_stream = 104'000, counters.rung_carved = 876,
  counters.rung_grown = 43;
  counters.cross_stream_frees = 18'204, counters.epochs_closed = 9'000;
  auto& gauges = made.gauges;
  gauges.reserved = 67 * gib, gauges.segments = 43, gauges.pending = 300 * mib;
  gauges.first_looked = 1, gauges.first_unseen = 590 * mib, gauges.used_known = 67 * gib;
  gauges.total = 80 * gib - 900 * mib, gauges.used = 69 * gib + 700 * mib, gauges.used_at_ns = 700 * second;
  gauges.peak_at_ns = 251 * second + 902'000'000, gauges.peak_reserved = 67 * gib;
  gauges.peak_requested = 61 * gib + 245 * mib, gauges.peak_handed = 62 * gib + 266 * mib,
  gauges.peak_pending = 317 * mib;
  gauges.peak_unseen = 2 * gib + 700 * mib, gauges.highest_requested = 61 * gib + 300 * mib;
  made.timeline_period_ns = 2'560'000'000;
  for (std::uint64_t i = 0; i < 200; ++i) {
    std::uint64_t const reserved = std::min<std::uint64_t>(i, 70) * gib * 67 / 70;
    std::uint64_t const requested = reserved * (80 + i % 20) / 100;
    made.timeline.push_back({i * 3 * second, requested, reserved, requested * 9 / 10, reserved});
  }
  made.now = stats::ledger_now(counters, gauges);
  made.peak = stats::ledger_at_peak(gauges);
  return made;
}

void add_hooks(stats::snapshot& to) {
  to.hooks = {{"cuMemAlloc_v2", "device", {16'517, 99 * gib, 16'517, 0}},
              {"cuMemAllocAsync", "device", {1'188'402, 9700 * gib, 1'188'402, 0}},
              {"cuMemFree_v2", "free", {16'500, 0, 16'490, 0}},
              {"cuMemFreeAsync_ptsz", "free", {1'188'392, 0, 1'188'392, 0}},
              {"cuMemHostAlloc", "host", {212, 3 * gib, 0, 0}},
              {"cuMemCreate", "observed", {37, 74 * mib, 0, 0}},
              {"cuCtxSynchronize", "observed", {4'000, 0, 0, 0}},
              {"cudaMalloc", "runtime", {16'517, 99 * gib, 0, 0}}};
}

void add_chain(stats::snapshot& to, int ordinal) {
  to.nodes.push_back({"binning",
                      "binning",
                      "device",
                      "",
                      0,
                      ordinal,
                      {1'204'919, 0, 192'659, 0, 9960 * gib, 9959 * gib, 0, 0, 0}});
  to.nodes.push_back({"pool",
                      "pool",
                      "device",
                      "initial_pool_size 1 GiB, maximum_pool_size 70 GiB",
                      1,
                      ordinal,
                      {192'659, 192'616, 43, 0, 9000 * gib, 8999 * gib, 0, 12 * gib, 3 * gib}});
  to.nodes.push_back({"cuda", "cuda", "device", "", 2, ordinal, {43, 0, 0, 0, 67 * gib, 0, 0, 0, 0}});
  to.nodes.push_back({"1 KiB",
                      "fixed_size",
                      "device",
                      "block_size 1 KiB",
                      1,
                      ordinal,
                      {402'118, 402'087, 31, 0, 384 * mib, 384 * mib, 0, 0, 0}});
}

sample clean() {
  sample made{
      "clean", process({"/usr/bin/python3", "train.py", "--epochs", "3"}), {}, "gpumem.python3.48211.json"};
  end_by_exit(made.content, 0, 761 * second + 308'000'000);
  add_hooks(made.content);
  made.content.devices.push_back(device(0, 1));
  add_chain(made.content, 0);
  add_sizes(made.content, 700, 402'118);
  add_sizes(made.content, 9 * kib, 233'910);
  add_sizes(made.content, 200 * kib, 377'467);
  add_sizes(made.content, 3 * mib, 160'250);
  add_sizes(made.content, 48 * mib, 29'118);
  add_sizes(made.content, 700 * mib, 2'017);
  add_sizes(made.content, 3 * gib, 39);
  return made;
}

sample killed() {
  sample made = clean();
  made.name = "killed";
  made.json_path.clear();
  made.content.closed = false;
  made.content.end = {};
  made.content.shards_in_memory = 2;
  made.options.written_by = "gpumem run";
  made.options.end = stats::end_record{stats::end_kind::signal, 0, SIGKILL, 0, 400 * second};
  return made;
}

sample out_of_memory() {
  sample made{"out_of_memory", process({"./solver\033[31m", "big \xff case"}), {}, ""};
  end_by_exit(made.content, 1, 12 * second);
  made.content.hooks = {{"cuMemAllocAsync", "device", {100, 90 * gib, 98, 2}}};
  stats::device_totals small;
  small.ordinal = 0;
  small.counters.allocated_blocks = 98, small.counters.freed_blocks = 98;
  small.counters.allocated_requested = 80 * gib, small.counters.freed_requested = 80 * gib;
  small.counters.allocated_handed = 80 * gib, small.counters.freed_handed = 80 * gib;
  small.counters.rung_cached = 60, small.counters.rung_same_stream = 5, small.counters.rung_carved = 8;
  small.counters.rung_reaped = 2, small.counters.rung_device_wait = 1, small.counters.rung_waited = 3;
  small.counters.rung_grown = 16, small.counters.rung_drained = 1, small.counters.rung_trimmed = 2;
  small.counters.rung_fallback = 4, small.counters.out_of_memory = 2;
  small.now = stats::ledger_now(small.counters, small.gauges);
  small.peak = stats::ledger_at_peak(small.gauges);
  made.content.devices.push_back(small);
  made.content.failures = {
      {11 * second, 4 * gib + 205 * mib, 0x5581c0, 67 * gib, 4 * gib, 2 * gib, 48244, 2, 0, "cuMemAllocAsync",
       "pool \"small\": maximum_pool_size 71.00 GiB, reserved 71.00 GiB, asked 4.20 GiB", 2},
      {11 * second + 5'000'000, 5 * gib, 0, 67 * gib, 6 * gib, 2 * gib, 48244, 2, 0, "cuMemCreate",
       "limiting \"limiting\": limit 80.00 GiB, in use 78.00 GiB, of it seen only 5.00 GiB, asked 5.00 GiB",
       1},
      {12 * second, 5 * gib, 0, 67 * gib, 0, 0, 48244, 201, 0, "cuMemAlloc_v2", ""}};
  made.content.failures[0].held = 66 * gib;
  made.content.failures[0].holders = {{"/opt/torch/lib/libc10_cuda.so", 60 * gib},
                                      {"/opt/app/solver", 6 * gib}};
  made.content.failures[1].held = 66 * gib;
  made.content.failures[1].holders = {{"/opt/app/solver", 66 * gib}};
  made.content.failures[0].asked_at = 3;
  made.content.failures[0].sites = {{3, 59 * gib}, {9, 5 * gib}};
  made.content.sample_every = 32 * mib;
  made.content.sampled_sites = {
      {3,
       0,
       1'900,
       0,
       61 * gib,
       {{0x7f0000001000, "/no/such/folder/libc10_cuda.so", 0x1000},
        {0x7f0000001100, "/no/such/folder/libc10_cuda.so", 0x1100},
        {0x7f0000002000, "/no/such/folder/libtorch_cuda.so", 0x2000}},
       {{"/usr/lib/python3/dist-packages/torch/nn/modules/linear.py", "forward", 125},
        {"/home/u/model.py", "forward", 57},
        {"/usr/lib/python3/dist-packages/torch/nn/modules/container.py", "forward", 250},
        {"/home/u/train.py", "train_step", 132},
        {"/home/u/train.py", "<module>", 0}}},
      {9, 0, 160, 0, 5 * gib, {{0x401234, "/no/such/folder/solver", 0x1234}}}};
  made.content.failures[0].sampled = 65 * gib;
  made.content.failures[0].free_counted = true;
  made.content.failures[0].free[0] = {1'204, 3 * mib};
  made.content.failures[0].free[8] = {700, 900 * mib};
  made.content.failures[0].free[11] = {20, 200 * mib};
  made.content.failures[0].free[12] = {3, 50 * mib};
  made.content.failures[0].free[15] = {2, 300 * mib};
  made.content.failures[0].free[17] = {1, 600 * mib};
  made.content.failures[0].free[19] = {1, 2 * gib};
  made.content.failures[1].free_counted = made.content.failures[1].free_all = true;
  made.content.failures[1].free[0] = {40, 80 * kib};
  made.content.categories = {{"layers", {"model.py"}}, {"solver", {"solver", "libsolver*"}}};
  made.content.failures_total = 3;
  made.content.unbuilt_total = 2;
  made.content.unbuilt = "device 0: pool \"small\": the driver refused 90.00 GiB";
  made.content.config_path.clear();
  made.content.config_warnings = 1;
  return made;
}

sample two_devices() {
  sample made = clean();
  // A fallback whose second chain took what the first had no room for.
  made.content.devices[0].counters.rung_fallback = 14;
  made.content.nodes.push_back(
      {"fallback", "fallback", "device", "", 0, 0, {4'000, 3'986, 14, 0, 90 * gib, 88 * gib, 0, 0, 0}});
  made.content.nodes.push_back(
      {"chain 1", "chain", "device", "", 1, 0, {4'000, 3'986, 0, 14, 80 * gib, 79 * gib, 0, 0, 0}});
  made.content.nodes.push_back(
      {"chain 2", "chain", "device", "", 1, 0, {14, 14, 0, 0, 10 * gib, 9 * gib, 4 * gib, 0, 0}});
  made.name = "two_devices";
  made.content.nodes.push_back(
      {"rule 1: libnccl*", "rule", "rules", "", 0, 0, {37, 0, 0, 0, 74 * mib, 0, 0, 0, 0}});
  made.content.devices.push_back(device(1, 2));
  stats::device_totals& second_device = made.content.devices.back();
  second_device.timeline.clear();
  // Memory of cuMemCreate, most of it gone when the routed memory was at its peak.
  auto& gauges = second_device.gauges;
  gauges.observed = 10 * mib, gauges.peak_observed = 20 * mib, gauges.highest_observed = 66 * mib;
  second_device.libraries = {{"/opt/lib/libnccl.so.2", 0, 10 * mib, 66 * mib, 0, 20 * mib},
                             {"/opt/app/train", 3 * gib, 0, 5 * gib, 4 * gib, 0},
                             {"", 0, 0, 1 * mib, 0, 0}};
  for (int i = 1; i <= 9; ++i)
    second_device.libraries.push_back(
        {"/opt/lib/libsmall_" + std::to_string(i) + ".so", 1 * mib, 0, 2 * mib, 2 * mib, 0});
  // Seven places: five are shown, the rest in one row; of the first device too few to say anything.
  made.content.sample_every = 32 * mib;
  made.content.sampled_sites = {{1, 0, 2, 64 * mib, 64 * mib, {}},
                                {2, 1, 9, 0, 300 * mib, {}, {}, "pt_autograd_0"}};
  for (unsigned i = 3; i <= 8; ++i)
    made.content.sampled_sites.push_back(
        {i,
         1,
         40,
         i * 100 * mib,
         i * 150 * mib,
         {{0x401000 + i, "/no/such/folder/train", 0x1000 + i}, {0x402000, "/no/such/folder/train", 0x2000}}});
  made.content.sampled_sites.back().frames[1] = {0x7f0000003000, "/no/such/folder/libnccl.so.2", 0x3000};
  made.content.categories = {
      {"nccl", {"libnccl*"}}, {"never", {"*/none/*"}}, {"program", {"*/app/train", "train"}}};
  second_device.now = stats::ledger_now(second_device.counters, gauges);
  second_device.peak = stats::ledger_at_peak(gauges);
  // Managed memory, a part of it on the host.
  second_device.now.elsewhere = 100 * mib;
  *second_device.now.in_use -= 100 * mib, *second_device.now.free += 100 * mib;
  second_device.counters.lost_blocks = 7, second_device.counters.lost_requested = 70 * mib;
  add_chain(made.content, 1);
  return made;
}

stats::call_site_totals site(unsigned number, unsigned node, std::uint64_t allocations, std::uint64_t frees,
                             std::uint64_t bytes, std::vector<stats::code_frame> frames) {
  return {number, node, allocations, allocations * bytes, frees, frees * bytes, std::move(frames)};
}

// Debugging resources: exact figures, call sites, leaks, misuses of each kind. The libraries do not exist, so
// that no name depends on the machine.
sample debugging() {
  sample made{"debugging", process({"./solver", "case"}), {}, ""};
  end_by_exit(made.content, 0, 12 * second);
  made.content.hooks = {{"cuMemAlloc_v2", "device", {1'000, 90 * mib, 1'000, 0}}};
  made.content.nodes = {{.name = "tracking",
                         .type = "tracking",
                         .route = "device",
                         .options = {},
                         .counters = {1'000, 0, 1'000, 0, 90 * mib, 80 * mib, 0, 0, 0}},
                        {.name = "statistics",
                         .type = "statistics",
                         .route = "device",
                         .options = "callsites, histogram",
                         .depth = 1,
                         .counters = {1'000, 0, 1'000, 0, 90 * mib, 80 * mib, 0, 0, 0},
                         .exact = true,
                         .gauges = {10 * mib, 37, 24 * mib, 64}},
                        {.name = "pool",
                         .type = "pool",
                         .route = "device",
                         .options = {},
                         .depth = 2,
                         .counters = {1'000, 990, 10, 0, 90 * mib, 80 * mib, 0, 0, 0}}};
  made.content.nodes[1].sizes[10] = {600, 600'000};
  made.content.nodes[1].sizes[20] = {400, 88 * mib};
  std::string const program = "/no/such/folder/solver", library = "/no/such/folder/libmesh.so.2";
  made.content.call_sites = {
      site(1, 0, 600, 580, 1'000, {{0x401234, program, 0x1234}}),
      site(2, 0, 300, 290, 64 * kib, {{0x7f0000001000, library, 0x1000}, {0x401300, program, 0x1300}}),
      site(3, 0, 100, 93, mib, {{0x7f1200000000, "", 0}}),
      site(4, 0, 0, 0, 0, {{0x401400, program, 0x1400}}),
      site(5, 0, 0, 0, 0, {{0x401500, program, 0x1500}}),
      site(6, 1, 1'000, 0, 90 * kib, {{0x401234, program, 0x1234}})};
  using stats::misuse_kind;
  made.content.misuses = {
      {misuse_kind::double_free, 0, second, 0x7f3000000000, 0, 0, 0, 4, 1, 5, 48211},
      {misuse_kind::interior_free, 0, 2 * second, 0x7f3000000400, 5'000, 512, 0, 4, 2, 0, 48211},
      {misuse_kind::interior_free, 0, 2 * second, 0x7f3000000400, 5'000, 0, 0, 4, 2, 0, 48211},
      {misuse_kind::foreign_free, 0, 3 * second, 0x1234000, 0, 0, 0, 4, 0, 0, 48212},
      {misuse_kind::damaged_zone, 0, 4 * second, 0x7f3000000000, 3'000, 3'004, 3, 5, 1, 0, 48211},
      {misuse_kind::damaged_zone, 0, 5 * second, 0x7f3000002000, mib, mib, 1, 0, 2, 0, 48211}};
  made.content.misuses_total = 40;
  made.content.run_id = "20261122-1";
  made.content.recording_path = "/home/anna/job/solver.gpumem";
  made.content.recording_stopped = "no space left on device";
  made.content.call_sites[1].python = {{"/home/anna/job/solve.py", "step", 12}};
  made.content.call_sites[1].thread = "worker";
  made.content.devices.push_back(device(0, 1));
  made.content.devices.back().timeline.clear();
  return made;
}

// Phases of two devices, more than are shown; the program was killed within two of them.
sample phases() {
  sample made = killed();
  made.name = "phases";
  made.content.opened_mono_ns = 1000 * second;
  made.content.devices.push_back(device(1, 1));
  made.content.devices[0].timeline.clear(), made.content.devices[1].timeline.clear();
  made.content.phases = {
      {"libcudf:read_parquet", 12, 90 * second, 0, {}, {{0, 4 * gib, 2 * gib, 1'200, 0, 7}}},
      {"train",
       1,
       0,
       1,
       {1001 * second},
       {{0, 61 * gib, 60 * gib, 1'203'000, 2, 43}, {1, 3 * gib, 3 * gib, 9, 0, 1}}},
      {"step N\033[31m of a name that is so long that it is cut in every table of the report, as such names",
       2'017,
       380 * second,
       1,
       {1390 * second, 1395 * second},
       {{0, 61 * gib, 7 * gib, 1'190'000, 2, 12}}},
      {"no memory", 4, second, 0, {}, {}}};
  for (unsigned i = 0; i < 11; ++i)
    made.content.phases.push_back(
        {"layer" + std::to_string(i), 2'017, i * second, 0, {}, {{0, (40 + i) * gib, i * mib, 2'017, 0, 0}}});
  made.content.phases_unmeasured = 5'000;
  made.content.failures = {
      {300 * second, 5 * gib, 0, 67 * gib, 0, 0, 48244, 2, 0, "cuMemAlloc_v2", "limiting: limit"}};
  made.content.failures[0].phase = "step N";
  made.content.failures_total = 1;
  return made;
}

// A program that takes a few blocks and gives them back, with a library that does as well.
sample small() {
  sample made{"small", process({"./sort", "500"}), {}, ""};
  end_by_exit(made.content, 0, 92'000'000);
  made.content.config_path.clear();
  made.content.hooks = {{"cuMemAlloc_v2", "device", {1'020, 4 * gib, 1'020, 0}},
                        {"cuMemFree_v2", "free", {1'020, 0, 1'020, 0}},
                        {"cuCtxSynchronize", "observed", {500, 0, 0, 0}}};
  stats::device_totals one = device(0, 1);
  one.counters = {};
  one.counters.allocated_blocks = one.counters.freed_blocks = 1'020;
  one.counters.allocated_requested = one.counters.freed_requested = 4 * gib;
  one.counters.allocated_handed = one.counters.freed_handed = 4 * gib + 12 * mib;
  one.counters.rung_carved = 508, one.counters.rung_reaped = 509, one.counters.rung_grown = 3;
  one.timeline = {{0, 8 * mib, 16 * mib, 6 * mib, 16 * mib}, {50'000'000, 8 * mib, 16 * mib, 0, 16 * mib}};
  auto& gauges = one.gauges;
  gauges.reserved = gauges.peak_reserved = gauges.used_known = 16 * mib, gauges.pending = 0;
  gauges.used = 16 * mib + 529 * mib, gauges.first_unseen = 529 * mib, gauges.used_at_ns = 91'000'000;
  gauges.peak_requested = gauges.highest_requested = 8 * mib, gauges.peak_handed = 8 * mib + 4 * kib;
  gauges.peak_pending = 0, gauges.peak_unseen = 529 * mib, gauges.peak_at_ns = 7'000'000;
  one.libraries = {{"/opt/app/sort", 0, 0, 8 * mib, 6 * mib, 0},
                   {"/opt/app/libkeys.so", 0, 0, 2 * mib, 2 * mib, 0}};
  one.now = stats::ledger_now(one.counters, gauges);
  one.peak = stats::ledger_at_peak(gauges);
  made.content.devices.push_back(one);
  made.content.nodes = {{"pool",
                         "pool",
                         "device",
                         "initial_pool_size 0 B",
                         0,
                         0,
                         {1'020, 1'017, 3, 0, 4 * gib, 4 * gib, 0, 0, 0}},
                        {"cuda", "cuda", "device", "", 1, 0, {3, 0, 0, 0, 16 * mib, 0, 0, 0, 0}}};
  add_sizes(made.content, 3 * mib, 73);
  add_sizes(made.content, 4 * mib, 947);
  return made;
}

sample empty() {
  sample made{"empty", process({"probe"}), {}, ""};
  made.content.driver_version = 0;
  made.content.cudart = "unknown";
  end_by_exit(made.content, 0, 5'000'000);
  return made;
}

}  // namespace

std::vector<sample> sample_snapshots() {
  return {clean(), killed(), out_of_memory(), two_devices(), debugging(), phases(), small(), empty()};
}

}  // namespace gpumem::report
