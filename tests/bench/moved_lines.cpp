// Which lines of memory move between threads: stands in for the thread sanitizer's runtime under a library
// that was compiled for it, whose every access it is told of, and follows each line as processors with a
// cache each would. A line that a thread had and another one wrote to has moved; if by then nobody had
// touched a word that the other one used, it moved for nothing: two things that have nothing to do with each
// other share it. Preloaded behind the library by moved_lines.py, which reads what it writes to $MOVED_LINES
// at the exit. Slow, on any thread; calls nothing that the library hooks.
#include <dlfcn.h>
#include <sched.h>
#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace {

constexpr std::size_t max_lines = 1u << 17, max_places = 1u << 16, max_moves = 1u << 16;
constexpr std::size_t max_threads = 64, words = 8;

class guard {
 public:
  explicit guard(std::atomic<bool>& of) noexcept : of_(of) {
    while (of_.exchange(true, std::memory_order_acquire)) sched_yield();
  }
  ~guard() { of_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool>& of_;
};

struct word {
  std::uint32_t accessed, written;  // when: numbers of the line's accesses
  std::uint8_t accessed_by, written_by;
};
// Of one thread: since when it has the line without a break, and what that would be put down to if it turns
// out for nothing.
struct visit {
  std::uint32_t last, before;
  std::uint32_t move;  // index and 1; 0: what it came for was used
};
struct line {
  std::atomic<std::uint64_t> number;  // and 1
  std::atomic<bool> lock;
  std::uint32_t accesses;
  std::uint32_t last_writer;  // place
  std::uint8_t written_by;    // and 1
  std::uint64_t holders;      // threads
  word contents[words];
  visit visits[max_threads];
};
struct place {
  std::atomic<std::uint64_t> address;
  std::atomic<std::uint64_t> count;
};
// From a write at one place to an access at another.
struct move {
  std::atomic<std::uint64_t> key;  // both places, and 1
  std::atomic<std::uint64_t> count, for_nothing;
};

line* lines;
place* places;
move* moves;
std::atomic<bool> follows{false};
std::atomic<std::uint64_t> accesses{0}, lost{0};
std::uint64_t begins_after = 0;
constexpr unsigned yields_after = 300;
std::atomic<unsigned> threads{0};
__thread unsigned own_thread __attribute__((tls_model("initial-exec"))) = 0;  // and 1
__thread unsigned own_accesses __attribute__((tls_model("initial-exec"))) = 0;

template <typename entry>
entry* array_of(std::size_t many) {
  void* const at = ::mmap(nullptr, many * sizeof(entry), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return at == MAP_FAILED ? nullptr : static_cast<entry*>(at);
}

// The entry of a table for a key, which is not 0; null where it is full.
template <typename entry>
entry* entry_of(entry* table, std::size_t many, std::atomic<std::uint64_t> entry::*key,
                std::uint64_t wanted) noexcept {
  std::size_t at = (wanted * 0x9e3779b97f4a7c15ull >> 20) % many;
  for (int looks = 0; looks < 4096; ++looks, at = (at + 1) % many) {
    std::uint64_t found = (table[at].*key).load(std::memory_order_acquire);
    if (found == 0 && (table[at].*key).compare_exchange_strong(found, wanted, std::memory_order_acq_rel))
      return &table[at];
    if (found == wanted) return &table[at];
  }
  lost.fetch_add(1, std::memory_order_relaxed);
  return nullptr;
}

void begin_counting() noexcept {
  for (std::size_t i = 0; i < max_places; ++i) places[i].count.store(0, std::memory_order_relaxed);
  for (std::size_t i = 0; i < max_moves; ++i) {
    moves[i].count.store(0, std::memory_order_relaxed);
    moves[i].for_nothing.store(0, std::memory_order_relaxed);
  }
}

// By the words of one line.
void follow(line& l, unsigned me, std::size_t first, std::size_t last, bool writes,
            std::uint32_t at) noexcept {
  guard const held(l.lock);
  std::uint32_t const now = ++l.accesses;
  std::uint64_t const mine = std::uint64_t{1} << me;
  visit& own = l.visits[me];
  if ((l.holders & mine) == 0) {
    if (own.move != 0) moves[own.move - 1].for_nothing.fetch_add(1, std::memory_order_relaxed);
    own.move = 0;
    own.before = own.last;
    if (l.written_by != 0 && l.written_by != me + 1) {
      std::uint64_t const key = (std::uint64_t{l.last_writer} << 32 | at) + 1;
      if (move* const counted = entry_of(moves, max_moves, &move::key, key); counted != nullptr) {
        counted->count.fetch_add(1, std::memory_order_relaxed);
        own.move = static_cast<std::uint32_t>(counted - moves) + 1;
      }
    }
  }
  for (std::size_t i = first; i <= last; ++i) {
    word& w = l.contents[i];
    bool const is_from_another = (w.written > own.before && w.written_by != me) ||
                                 (writes && w.accessed > own.before && w.accessed_by != me);
    if (is_from_another) own.move = 0;
    w.accessed = now, w.accessed_by = static_cast<std::uint8_t>(me);
    if (writes) w.written = now, w.written_by = static_cast<std::uint8_t>(me);
  }
  own.last = now;
  l.holders = writes ? mine : l.holders | mine;
  if (writes) l.last_writer = at, l.written_by = static_cast<std::uint8_t>(me + 1);
}

void access(void const volatile* begin, std::size_t bytes, bool writes, void* from) noexcept {
  if (!follows.load(std::memory_order_relaxed)) return;
  if (own_thread == 0) own_thread = threads.fetch_add(1, std::memory_order_relaxed) % max_threads + 1;
  place* const at = entry_of(places, max_places, &place::address, reinterpret_cast<std::uint64_t>(from));
  if (at == nullptr) return;
  at->count.fetch_add(1, std::memory_order_relaxed);
  auto const address = reinterpret_cast<std::uint64_t>(begin);
  for (std::uint64_t number = address / 64; number <= (address + bytes - 1) / 64; ++number) {
    line* const l = entry_of(lines, max_lines, &line::number, number + 1);
    if (l == nullptr) continue;
    std::size_t const first = number == address / 64 ? address % 64 / 8 : 0;
    std::size_t const last =
        number == (address + bytes - 1) / 64 ? (address + bytes - 1) % 64 / 8 : words - 1;
    follow(*l, own_thread - 1, first, last, writes, static_cast<std::uint32_t>(at - places));
  }
  if (accesses.fetch_add(1, std::memory_order_relaxed) + 1 == begins_after) begin_counting();
  // Threads take turns in the middle of what they do, as on processors of their own.
  if (++own_accesses % yields_after == 0) sched_yield();
}

[[gnu::constructor]] void begin() {
  if (std::getenv("MOVED_LINES") == nullptr) return;
  lines = array_of<line>(max_lines);
  places = array_of<place>(max_places);
  moves = array_of<move>(max_moves);
  if (char const* const after = std::getenv("MOVED_LINES_AFTER"))
    begins_after = std::strtoull(after, nullptr, 10);
  follows.store(lines != nullptr && places != nullptr && moves != nullptr);
}

// Lines of text: "place NUMBER FILE OFFSET COUNT", "move FROM TO COUNT FOR-NOTHING", "lost COUNT".
[[gnu::destructor]] void end() {
  if (!follows.exchange(false)) return;
  std::FILE* const out = std::fopen(std::getenv("MOVED_LINES"), "w");
  if (out == nullptr) return;
  for (std::size_t i = 0; i < max_places; ++i) {
    Dl_info in{};
    auto* const address = reinterpret_cast<void*>(places[i].address.load());
    if (address == nullptr || dladdr(address, &in) == 0) continue;
    auto const offset =
        reinterpret_cast<std::uint64_t>(address) - reinterpret_cast<std::uint64_t>(in.dli_fbase);
    std::fprintf(out, "place %zu %s %lx %lu\n", i, in.dli_fname, offset - 1, places[i].count.load());
  }
  for (std::size_t i = 0; i < max_moves; ++i) {
    std::uint64_t const key = moves[i].key.load();
    if (key == 0 || moves[i].count.load() == 0) continue;
    std::fprintf(out, "move %lu %lu %lu %lu\n", (key - 1) >> 32, (key - 1) & 0xffffffff,
                 moves[i].count.load(), moves[i].for_nothing.load());
  }
  std::fprintf(out, "lost %lu\n", lost.load());
  std::fclose(out);
}

}  // namespace

// The names are the sanitizer's:
// https://github.com/llvm/llvm-project/blob/main/compiler-rt/lib/tsan/rtl/tsan_interface.h
#define MOVED_LINES_EXPORT extern "C" [[gnu::visibility("default")]]
#define MOVED_LINES_FROM __builtin_return_address(0)
MOVED_LINES_EXPORT void __tsan_init() {}
MOVED_LINES_EXPORT void __tsan_func_exit() {}
// Counts how often a function ran, by the place after its first call.
MOVED_LINES_EXPORT void __tsan_func_entry(void*) {
  if (!follows.load(std::memory_order_relaxed)) return;
  place* const at =
      entry_of(places, max_places, &place::address, reinterpret_cast<std::uint64_t>(MOVED_LINES_FROM));
  if (at != nullptr) at->count.fetch_add(1, std::memory_order_relaxed);
}
#define MOVED_LINES_PLAIN(name, bytes, writes)      \
  MOVED_LINES_EXPORT void __tsan_##name(void* at) { \
    access(at, bytes, writes, MOVED_LINES_FROM);    \
  }
#define MOVED_LINES_SIZE(bytes)                          \
  MOVED_LINES_PLAIN(read##bytes, bytes, false)           \
  MOVED_LINES_PLAIN(write##bytes, bytes, true)           \
  MOVED_LINES_PLAIN(unaligned_read##bytes, bytes, false) \
  MOVED_LINES_PLAIN(unaligned_write##bytes, bytes, true) \
  MOVED_LINES_PLAIN(volatile_read##bytes, bytes, false)  \
  MOVED_LINES_PLAIN(volatile_write##bytes, bytes, true)
MOVED_LINES_SIZE(1)
MOVED_LINES_SIZE(2)
MOVED_LINES_SIZE(4)
MOVED_LINES_SIZE(8)
MOVED_LINES_SIZE(16)
MOVED_LINES_EXPORT void __tsan_vptr_read(void** at) {
  access(at, 8, false, MOVED_LINES_FROM);
}
MOVED_LINES_EXPORT void __tsan_vptr_update(void** at, void*) {
  access(at, 8, true, MOVED_LINES_FROM);
}
MOVED_LINES_EXPORT void __tsan_read_range(void* at, std::uint64_t bytes) {
  if (bytes != 0) access(at, bytes, false, MOVED_LINES_FROM);
}
MOVED_LINES_EXPORT void __tsan_write_range(void* at, std::uint64_t bytes) {
  if (bytes != 0) access(at, bytes, true, MOVED_LINES_FROM);
}

#define MOVED_LINES_CHANGE(bits, name, what)                                                            \
  MOVED_LINES_EXPORT std::uint##bits##_t __tsan_atomic##bits##_##name(std::uint##bits##_t volatile* at, \
                                                                      std::uint##bits##_t value, int) { \
    access(at, bits / 8, true, MOVED_LINES_FROM);                                                       \
    return what(at, value, __ATOMIC_SEQ_CST);                                                           \
  }
#define MOVED_LINES_ATOMIC(bits)                                                                             \
  MOVED_LINES_EXPORT std::uint##bits##_t __tsan_atomic##bits##_load(std::uint##bits##_t volatile const* at,  \
                                                                    int) {                                   \
    access(at, bits / 8, false, MOVED_LINES_FROM);                                                           \
    return __atomic_load_n(at, __ATOMIC_SEQ_CST);                                                            \
  }                                                                                                          \
  MOVED_LINES_EXPORT void __tsan_atomic##bits##_store(std::uint##bits##_t volatile* at,                      \
                                                      std::uint##bits##_t value, int) {                      \
    access(at, bits / 8, true, MOVED_LINES_FROM);                                                            \
    __atomic_store_n(at, value, __ATOMIC_SEQ_CST);                                                           \
  }                                                                                                          \
  MOVED_LINES_CHANGE(bits, exchange, __atomic_exchange_n)                                                    \
  MOVED_LINES_CHANGE(bits, fetch_add, __atomic_fetch_add)                                                    \
  MOVED_LINES_CHANGE(bits, fetch_sub, __atomic_fetch_sub)                                                    \
  MOVED_LINES_CHANGE(bits, fetch_and, __atomic_fetch_and)                                                    \
  MOVED_LINES_CHANGE(bits, fetch_or, __atomic_fetch_or)                                                      \
  MOVED_LINES_CHANGE(bits, fetch_xor, __atomic_fetch_xor)                                                    \
  MOVED_LINES_EXPORT std::uint##bits##_t __tsan_atomic##bits##_compare_exchange_val(                         \
      std::uint##bits##_t volatile* at, std::uint##bits##_t expected, std::uint##bits##_t value, int, int) { \
    access(at, bits / 8, true, MOVED_LINES_FROM);                                                            \
    __atomic_compare_exchange_n(at, &expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);            \
    return expected;                                                                                         \
  }                                                                                                          \
  MOVED_LINES_EXPORT int __tsan_atomic##bits##_compare_exchange_strong(                                      \
      std::uint##bits##_t volatile* at, std::uint##bits##_t* expected, std::uint##bits##_t value, int,       \
      int) {                                                                                                 \
    access(at, bits / 8, true, MOVED_LINES_FROM);                                                            \
    return __atomic_compare_exchange_n(at, expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);      \
  }                                                                                                          \
  MOVED_LINES_EXPORT int __tsan_atomic##bits##_compare_exchange_weak(std::uint##bits##_t volatile* at,       \
                                                                     std::uint##bits##_t* expected,          \
                                                                     std::uint##bits##_t value, int, int) {  \
    access(at, bits / 8, true, MOVED_LINES_FROM);                                                            \
    return __atomic_compare_exchange_n(at, expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);      \
  }
MOVED_LINES_ATOMIC(8)
MOVED_LINES_ATOMIC(16)
MOVED_LINES_ATOMIC(32)
MOVED_LINES_ATOMIC(64)
MOVED_LINES_EXPORT void __tsan_atomic_thread_fence(int) {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
MOVED_LINES_EXPORT void __tsan_atomic_signal_fence(int) {}
