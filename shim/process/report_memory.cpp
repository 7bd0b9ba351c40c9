// See report_memory.hpp. These operators are hidden in the library and serve its own code and its static C++
// runtime.
#include "shim/process/report_memory.hpp"

#include <sys/mman.h>

#include <cstdint>
#include <new>

#include "core/base/threads/heap.hpp"

namespace gpumem::shim {

namespace {

// Addresses: a report needs far less memory, and pages come when they are touched.
constexpr std::size_t reserve = std::size_t{64} << 20;

struct arena {
  char* begin = nullptr;
  char* at = nullptr;
  char* end = nullptr;

  void* take(std::size_t bytes) noexcept {
    bytes = (bytes + 15) & ~std::size_t{15};
    if (begin == nullptr || bytes > static_cast<std::size_t>(end - at)) return nullptr;
    void* const taken = at;
    at += bytes;
    return taken;
  }
  bool holds(void const* pointer) const noexcept {
    auto const address = reinterpret_cast<std::uintptr_t>(pointer);
    return address >= reinterpret_cast<std::uintptr_t>(begin) &&
           address < reinterpret_cast<std::uintptr_t>(end);
  }
};
constinit arena pages;  // written by the one thread that reports
constinit thread_local bool reporting = false;

}  // namespace

report_memory::report_memory() noexcept {
  if (pages.begin == nullptr) {
    void* const memory =
        mmap(nullptr, reserve, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return;  // then malloc serves, as ever
    pages = {static_cast<char*>(memory), static_cast<char*>(memory), static_cast<char*>(memory) + reserve};
  }
  reporting = true;
}

report_memory::~report_memory() {
  reporting = false;
}

}  // namespace gpumem::shim

void* operator new(std::size_t bytes) {
  using namespace gpumem::shim;
  if (reporting) {
    if (void* const taken = pages.take(bytes)) return taken;
  }
  if (void* const taken = gpumem::base::heap::allocate(bytes != 0 ? bytes : 1)) return taken;
  throw std::bad_alloc();
}

void operator delete(void* pointer) noexcept {
  if (!gpumem::shim::pages.holds(pointer)) gpumem::base::heap::release(pointer);
}
void operator delete(void* pointer, std::size_t) noexcept {
  operator delete(pointer);
}
