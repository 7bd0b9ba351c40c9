// See shared_area.hpp.
#include "core/recording/writer/shared_area.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "core/base/threads/backoff.hpp"
#include "core/base/threads/uncancelled.hpp"

namespace gpumem::recording {
namespace {

// Beside the state pages, whose readers take every file there for one of theirs.
bool own_directory(char (&path)[stats::path_limit]) noexcept {
  char states[stats::path_limit];
  if (!stats::state_directory(states) || stats::check_directory(states, true) != nullptr) return false;
  return std::snprintf(path, sizeof path, "%.*s/recordings", static_cast<int>(sizeof path - 64), states) <
         static_cast<int>(sizeof path - 64);
}

}  // namespace

area* shared_area::open(bool monotonic, char const*& reason) noexcept {
  char directory[stats::path_limit];
  reason = "the folder of the state pages cannot be had";
  void* base = nullptr;
  unsigned exec_no = 0;
  constexpr stats::file_part fixed[] = {{0, area_fixed_bytes}};
  if (own_directory(directory))
    base = stats::create_and_map(directory, sizeof(area), fixed, file_, exec_no, reason);
  if (base != nullptr) {
    reason = "";
  } else {
    base = ::mmap(nullptr, sizeof(area), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                  -1, 0);
    if (base == MAP_FAILED) return nullptr;
  }
  area_ = static_cast<area*>(base);
  std::memcpy(area_->head.magic, area_magic, sizeof area_magic);
  area_->head.pid_namespace = stats::pid_namespace();
  area_->head.monotonic = monotonic ? 1 : 0;
  return area_;
}

bool shared_area::back(void const* part, std::size_t bytes) noexcept {
  base::uncancelled const held;
  char const* reason = "";
  auto const offset =
      static_cast<std::size_t>(static_cast<char const*>(part) - reinterpret_cast<char const*>(area_));
  return stats::back_or_replace(file_, area_, offset, bytes, reason);
}

// A ring is looked at once it is among the used ones: its space comes before.
void shared_area::make_ring(std::size_t number) noexcept {
  base::wait_until([this] { return !making_.test_and_set(std::memory_order_acquire); });
  if (!ring_made_[number].load(std::memory_order_relaxed)) {
    back(area_->events[number], sizeof area_->events[number]);
    auto& used = area_->head.rings_used;
    if (used.load(std::memory_order_relaxed) <= number)
      used.store(static_cast<std::uint32_t>(number + 1), std::memory_order_release);
    ring_made_[number].store(true, std::memory_order_release);
  }
  making_.clear(std::memory_order_release);
}

// Where the disk of the area is full, frames wait in plain memory.
bool shared_area::make_slot(std::size_t number) noexcept {
  if (!slot_made_[number]) {
    back(area_->spool[number], slot_bytes);
    slot_made_[number] = true;
  }
  return true;
}

void shared_area::remove_file() noexcept {
  if (file_.path[0] != '\0') ::unlink(file_.path);
  file_.path[0] = '\0';
}

void shared_area::drop() noexcept {
  if (area_ != nullptr) ::munmap(area_, sizeof(area));
  area_ = nullptr;
  file_ = {};
  making_.clear();
  for (auto& made : ring_made_) made.store(false, std::memory_order_relaxed);
  slot_made_.fill(false);
}

}  // namespace gpumem::recording
