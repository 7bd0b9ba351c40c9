// What `check` accepts is built and serves: random configurations (GPUMEM_TEST_CONFIGURATIONS of them, from
// GPUMEM_TEST_SEED on) run through the reader, the builder and the router over the scripted driver. Each in a
// process of its own, so that one that crashes or hangs is named, too. The oracle:
// - a configuration that is refused has an error, and every finding stands at a file_position inside of the
// text;
// - one that is accepted has every chain of every device, and each request of up to 3 MiB is served, freed
// and
//   served again; all budgets are whole once everything is freed;
// - where a value may forbid that (is_generous says so), a request may be refused, as out of memory only; so
//   may a chain whose pool begins with a share of the device's memory.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "config/builder/budgets.hpp"
#include "config/builder/builder.hpp"
#include "config/builder/option_reader.hpp"
#include "config/load.hpp"
#include "core/base/log/log.hpp"
#include "core/resource/adaptors/budget.hpp"
#include "core/route/limits.hpp"
#include "core/route/requests/hot_path.hpp"
#include "core/route/router.hpp"
#include "tests/fuzz/config/random_configuration.hpp"
#include "tests/unit/fake_driver/fake_driver.hpp"

namespace gpumem {
namespace {

using driver::memory_kind;

constexpr std::uint64_t mib = 1 << 20;
constexpr std::uint64_t capacity = 16ull << 30;
constexpr std::uint64_t sizes[] = {1, 1000, 65'536, 3 * mib};
constexpr std::string_view calls[] = {"cuMemAlloc_v2", "cuMemAllocManaged", "cuMemHostAlloc"};

std::uint64_t from_environment(char const* name, std::uint64_t preset) {
  char const* const value = std::getenv(name);
  return value == nullptr ? preset : std::strtoull(value, nullptr, 10);
}

// No limit of this resource can be met by requests of `sizes`, and it takes little at its start.
bool is_generous(config::resource_plan const& resource) {
  config::option_reader const options(resource, capacity, capacity);
  std::uint64_t const enough = 512 * mib;
  auto const at_least = [&](char const* key, std::uint64_t wanted) {
    return options.bytes(key, wanted) >= wanted;
  };
  auto const at_most = [&](char const* key, std::uint64_t wanted) { return options.bytes(key, 0) <= wanted; };
  bool good = at_least("allocation_limit", enough) && at_least("maximum_pool_size", enough) &&
              at_least("arena_size", enough) && at_least("block_size", 5 * mib) &&
              at_most("block_size", 8 * mib) && at_most("alignment", mib) && at_most("growth", 64 * mib) &&
              at_most("initial_pool_size", 64 * mib);
  if (auto const* bins = options.value<std::vector<config::bin>>("bins"))
    good = good && bins->back().max <= 4 * mib;
  return good;
}

bool is_generous(config::plan const& plan) {
  auto const good = [](auto const& entry) { return is_generous(entry.second); };
  return std::all_of(plan.resources.begin(), plan.resources.end(), good) &&
         std::all_of(plan.devices.begin(), plan.devices.end(), [&](auto const& device) {
           return std::all_of(device.second.begin(), device.second.end(), good);
         });
}

// What that is, and whether those below have it, only the device tells: `gpumem check` warns there.
bool begins_with_a_share(config::plan const& plan) {
  auto const share = [](auto const& entry) {
    auto const* const size =
        config::option_reader(entry.second, 0, 0).template value<config::size_value>("initial_pool_size");
    return size != nullptr && size->kind != config::size_value::unit::bytes;
  };
  return std::any_of(plan.resources.begin(), plan.resources.end(), share) ||
         std::any_of(plan.devices.begin(), plan.devices.end(), [&](auto const& device) {
           return std::any_of(device.second.begin(), device.second.end(), share);
         });
}

class one_configuration {
 public:
  explicit one_configuration(std::string text) : text_(std::move(text)) {}

  // What is wrong; empty: nothing.
  std::string run() {
    auto loaded = config::load_text("random.toml", text_);
    check_positions(loaded);
    accepted = !loaded.failed();
    if (!accepted) return problem_;
    plan_ = std::move(loaded.plan);
    generous = is_generous(plan_);
    start();
    for (CUcontext const context : {tests::first_context, tests::second_context}) {
      for (auto const kind : {memory_kind::device, memory_kind::managed, memory_kind::host}) {
        for (auto const bytes : sizes) serve(context, kind, bytes);
      }
    }
    for (CUcontext const context : {tests::first_context, tests::second_context}) {
      route::synchronize_done(context, route::synchronize_begins(context));
      route::give_back(context, resource::give_back_scope::all);
    }
    check_budgets();
    check_log();
    return problem_;
  }

  bool accepted = false;
  bool generous = false;

 private:
  void fail(std::string what) {
    if (problem_.empty()) problem_ = std::move(what);
  }

  void check_positions(config::load_result const& loaded) {
    auto const lines = static_cast<std::size_t>(std::count(text_.begin(), text_.end(), '\n')) + 1;
    for (auto const& item : loaded.diagnostics) {
      if (item.at.line == 0 || item.at.line > lines || item.at.column == 0)
        fail("no file_position in the file: " + item.text);
    }
  }

  void start() {
    auto& fake = tests::fake_driver::instance();
    fake.reset();
    fake.set_capacity(capacity);
    fake.set_context(tests::second_context, 1);
    log_ = ::memfd_create("log", MFD_CLOEXEC);
    base::start_log(log_, base::log_level::warn);
    route::use_limits(config::use_limits(plan_));
    route::start(config::use_plan(plan_), plan_.free, config::make_rules(plan_, calls).release());
  }

  void serve(CUcontext context, memory_kind kind, std::uint64_t bytes) {
    bool const last_is_freed_on_stream = kind == memory_kind::device;
    for (int round = 0; round < 40; ++round) {
      bool const ordered = last_is_freed_on_stream && round % 2 == 1;
      auto const hook = static_cast<std::uint16_t>(kind);
      CUstream const on = ordered ? tests::stream(1) : nullptr;
      CUdeviceptr address = 0;
      auto const got = route::allocate({.bytes = bytes,
                                        .kind = kind,
                                        .stream_ordered = ordered,
                                        .hook = hook,
                                        .called = hook,
                                        .context = context,
                                        .stream = on},
                                       &address);
      std::string const what = std::to_string(bytes) + " B of " + std::string(calls[hook]);
      if (!got.served()) return;  // the driver's; a chain that is missing is in the log
      bool const refused = got.code == CUDA_ERROR_OUT_OF_MEMORY && !generous;
      if (refused) return;
      if (got.code != CUDA_SUCCESS)
        return fail(what + ": refused with " + std::to_string(got.code) + " in round " +
                    std::to_string(round));
      auto const gave = route::release(
          {.address = address, .kind = kind, .stream_ordered = ordered, .context = context, .stream = on});
      if (!gave.served() || gave.code != CUDA_SUCCESS) return fail(what + ": its free is refused");
    }
  }

  void check_budgets() {
    for (int const device : {0, 1}) {
      resource::budget::each(device, [&](resource::budget const& b) {
        if (b.left() != b.limit())
          fail("all is freed, and a limit of " + std::to_string(b.limit()) + " B has only " +
               std::to_string(b.left()) + " B left");
      });
    }
  }

  void check_log() {
    std::string log(65'536, '\0');
    ssize_t const size = ::pread(log_, log.data(), log.size(), 0);
    log.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
    if (log.find("could not be built") != log.npos && generous && !begins_with_a_share(plan_)) fail(log);
    if (log.find("cannot build it there") != log.npos) fail(log);
  }

  std::string const text_;
  std::string problem_;
  config::plan plan_;
  int log_ = -1;
};

struct tally {
  unsigned accepted = 0, refused = 0, generous = 0;
};

// In a child: what it finds comes by the pipe.
std::string try_seed(std::uint64_t seed, std::string const& folder, tally& seen) {
  std::string const text = tests::random_configuration(seed, folder);
  int ends[2];
  if (::pipe(ends) != 0) return "no pipe";
  pid_t const child = ::fork();
  if (child == 0) {
    ::alarm(20);
    one_configuration subject(text);
    std::string const problem = subject.run();
    [[maybe_unused]] auto const told = ::write(ends[1], problem.data(), problem.size());
    ::_exit(!problem.empty() ? 1 : !subject.accepted ? 2 : subject.generous ? 3 : 4);
  }
  ::close(ends[1]);
  std::string problem(4096, '\0');
  ssize_t const size = ::read(ends[0], problem.data(), problem.size());
  problem.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) return "ended by signal " + std::to_string(WTERMSIG(status)) + "\n" + text;
  int const code = WEXITSTATUS(status);
  seen.refused += code == 2 ? 1u : 0u;
  seen.accepted += code == 3 || code == 4 ? 1u : 0u;
  seen.generous += code == 3 ? 1u : 0u;
  return code == 2 || code == 3 || code == 4 ? "" : problem + "\n" + text;
}

TEST(configurations, what_is_accepted_is_built_and_serves) {
  std::uint64_t const first = from_environment("GPUMEM_TEST_SEED", 1);
  std::uint64_t const count = from_environment("GPUMEM_TEST_CONFIGURATIONS", 200);
  std::string folder = "/tmp/gpumem_buildable_XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  auto const before = std::filesystem::current_path();
  std::filesystem::current_path(folder);  // logs go to the working folder by themselves
  tally seen;
  int shown = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    std::string const problem = try_seed(seed, folder, seen);
    if (problem.empty()) continue;
    ADD_FAILURE() << "GPUMEM_TEST_SEED=" << seed << ": " << problem;
    if (++shown == 10) break;
  }
  std::filesystem::current_path(before);
  std::filesystem::remove_all(folder);
  std::printf("%u accepted, %u of them must serve all; %u refused\n", seen.accepted, seen.generous,
              seen.refused);
  // Or this tests nothing.
  EXPECT_GT(seen.generous, (seen.accepted + seen.refused) / 8);
  EXPECT_GT(seen.refused, (seen.accepted + seen.refused) / 20);
}

}  // namespace
}  // namespace gpumem
