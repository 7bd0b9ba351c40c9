// See spool.hpp. Frames are written in their order, so that what is in the file is always a beginning of the
// recording.
#include "core/recording/writer/spool.hpp"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "core/recording/stamp.hpp"

namespace gpumem::recording {
namespace {

constexpr std::uint64_t place_sleep_ns = 50'000'000;

}  // namespace

clock_pair clock_now(bool monotonic) noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return {stamp_now(monotonic),
          static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(now.tv_nsec)};
}

bool write_at(int descriptor, void const* from, std::size_t bytes, std::uint64_t offset) noexcept {
  auto const* begin = static_cast<char const*>(from);
  while (bytes != 0) {
    ssize_t const done = ::pwrite(descriptor, begin, bytes, static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done == 0) errno = ENOSPC;
    if (done <= 0) return false;
    begin += done;
    bytes -= static_cast<std::size_t>(done);
    offset += static_cast<std::uint64_t>(done);
  }
  return true;
}

std::span<unsigned char> spool::buffer() noexcept {
  for (;;) {
    auto const since = places_.rung();
    if (error() != 0 || stopping_.load(std::memory_order_acquire) ||
        given_up_.load(std::memory_order_acquire))
      return {};
    // The lowest: as many are touched as ever waited at once.
    for (std::size_t i = 0; i < spool_slots; ++i) {
      if (area_.get()->slots[i].number.load(std::memory_order_acquire) != 0) continue;
      area_.make_slot(i);
      filling_ = i;
      blocked_.store(false, std::memory_order_relaxed);
      return {area_.get()->spool[i], slot_bytes};
    }
    blocked_.store(true, std::memory_order_relaxed);
    places_.wait(since, place_sleep_ns);
  }
}

void spool::write(std::uint64_t offset, std::size_t bytes) noexcept {
  slot_state& slot = area_.get()->slots[filling_];
  slot.offset = offset;
  slot.bytes = bytes;
  slot.number.store(++last_, std::memory_order_release);
  put_.store(last_, std::memory_order_release);
  frames_.ring();
}

clock_pair spool::now() noexcept {
  return clock_now(area_.get()->head.monotonic != 0);
}

std::uint64_t spool::waiting() const noexcept {
  return put_.load(std::memory_order_acquire) - written_.load(std::memory_order_acquire);
}

bool spool::write_next() noexcept {
  std::uint64_t const number = written_.load(std::memory_order_relaxed) + 1;
  auto& slots = area_.get()->slots;
  auto* const slot = std::find_if(std::begin(slots), std::end(slots), [number](slot_state const& one) {
    return one.number.load(std::memory_order_acquire) == number;
  });
  if (slot == std::end(slots)) return false;
  int const descriptor = file_.descriptor();
  if (descriptor < 0 || !write_at(descriptor, area_.get()->spool[slot - slots], slot->bytes, slot->offset)) {
    error_.store(descriptor < 0 ? ENOENT : errno, std::memory_order_release);
    places_.ring();
    return false;
  }
  slot->number.store(0, std::memory_order_release);
  written_.store(number, std::memory_order_release);
  places_.ring();
  return true;
}

void spool::run() noexcept {
  while (error() == 0) {
    auto const since = frames_.rung();
    if (write_next()) continue;
    if (stopping_.load(std::memory_order_acquire)) return;
    frames_.wait(since, 20 * place_sleep_ns);
  }
}

void spool::give_up() noexcept {
  given_up_.store(true, std::memory_order_release);
  places_.ring();
}

void spool::stop() noexcept {
  stopping_.store(true, std::memory_order_release);
  frames_.ring();
  places_.ring();
}

}  // namespace gpumem::recording
