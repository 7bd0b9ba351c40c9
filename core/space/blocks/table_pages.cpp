// See table_pages.hpp.
#include "core/space/blocks/table_pages.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>

#include "core/base/populate_pages.hpp"
#include "core/base/threads/address_room.hpp"

namespace gpumem::space {
namespace {

constexpr std::uint64_t least = 1ull << 12;  // entries
constexpr std::uint64_t step = 1ull << 14;   // entries: whole pages, of 64 KiB too, for any size of them

constexpr std::uint64_t most_at_once = 64ull << 10;  // bytes of pages

}  // namespace

table_pages::table_pages(std::uint64_t most, std::uint64_t size) noexcept : size_(size) {
  std::uint64_t const room = base::address_room(most * size);
  for (std::uint64_t count = most; count >= least; count /= 2) {
    if (count * size > room && count > least) continue;
    void* const memory =
        ::mmap(nullptr, count * size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) continue;
    ::madvise(memory, count * size, MADV_NOHUGEPAGE);  // one would cost 2 MiB for the first entry
    begin_ = static_cast<char*>(memory);
    capacity_ = count;
    return;
  }
}

void table_pages::unmap() noexcept {
  if (begin_ != nullptr) ::munmap(begin_, capacity_ * size_);
}

// The system call is short: it makes no page.
bool table_pages::open_more(std::uint64_t end) noexcept {
  if (end > capacity_) return false;
  std::lock_guard lock(opening_);
  std::uint64_t const from = opened_.load(std::memory_order_relaxed);
  if (end <= from) return true;
  std::uint64_t const to = std::min(capacity_, (end + step - 1) / step * step);
  int const saved = errno;
  bool const good = ::mprotect(begin_ + from * size_, (to - from) * size_, PROT_READ | PROT_WRITE) == 0;
  errno = saved;
  if (good) opened_.store(to, std::memory_order_release);
  return good;
}

// Who is first makes the pages; others may fault meanwhile.
void table_pages::make_pages(std::uint64_t offset) noexcept {
  auto const page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  std::uint64_t made = made_.load(std::memory_order_relaxed);
  std::uint64_t const open = opened_.load(std::memory_order_relaxed) * size_;
  std::uint64_t const count = std::clamp(made, 2 * page, std::max(most_at_once, 2 * page));
  std::uint64_t const begin = offset > made + count ? offset / page * page : made;
  std::uint64_t const end =
      std::min(std::max(begin + count, (offset + size_ + page - 1) / page * page), open);
  if (end <= made || !made_.compare_exchange_strong(made, end, std::memory_order_relaxed)) return;
  base::populate_pages(begin_ + begin, end - begin);
}

}  // namespace gpumem::space
