// See python_lines.hpp. Two open-addressing tables whose keys are hashes of the text, written last.
#include "core/stats/callers/python_lines.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "core/stats/callers/python/frames.hpp"
#include "core/stats/page/page_state.hpp"
#include "core/stats/page/state_page.hpp"

namespace gpumem::stats {
namespace {

std::uint64_t hash_of(std::string_view text, std::uint64_t seed) noexcept {
  std::uint64_t hash = seed ^ text.size();
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  hash ^= hash >> 32;
  return hash != 0 ? hash : 1;
}

template <std::size_t size>
void copy_end(char (&to)[size], std::string_view text) noexcept {
  std::size_t const kept = std::min(size - 1, text.size());
  std::memcpy(to, text.data() + text.size() - kept, kept);
  to[kept] = '\0';
}

// The place of a key, or the free one where it belongs; null: neither.
template <typename entry, std::size_t size>
entry* probe(entry (&table)[size], std::uint64_t key) noexcept {
  static_assert((size & (size - 1)) == 0);
  constexpr std::size_t most_steps = 64;
  for (std::size_t i = 0; i < most_steps; ++i) {
    entry& one = table[(key + i) & (size - 1)];
    std::uint64_t const there = std::atomic_ref<std::uint64_t>(one.key).load(std::memory_order_acquire);
    if (there == key || there == 0) return &one;
  }
  return nullptr;
}

template <typename entry>
bool is_there(entry& one, std::uint64_t key) noexcept {
  return std::atomic_ref<std::uint64_t>(one.key).load(std::memory_order_acquire) == key;
}

template <typename entry>
void publish(entry& one, std::uint64_t key) noexcept {
  std::atomic_ref<std::uint64_t>(one.key).store(key, std::memory_order_release);
}

bool open_python_tables(page& now) noexcept {
  std::atomic_ref<std::uint32_t> const open(now.fixed.head.python_in_use);
  if (open.load(std::memory_order_acquire) != 0) return true;
  locked guard;
  if (open.load(std::memory_order_relaxed) != 0) return true;
  back_part(now, &now.python, sizeof now.python);
  open.store(1, std::memory_order_release);
  return true;
}

struct lines_wanted {
  std::span<python_line> lines;
  std::size_t count;
};

bool note_frame(void* context, python::frame const& found) {
  auto& wanted = *static_cast<lines_wanted*>(context);
  python_line const line = python_line_of(found.file(), found.function(), found.line);
  if (line != 0) wanted.lines[wanted.count++] = line;
  return wanted.count < wanted.lines.size();
}

}  // namespace

python_line python_line_of(std::string_view file, std::string_view function, std::uint32_t line) noexcept {
  page* const now = current_page();
  if (now == nullptr || !open_python_tables(*now)) return 0;
  std::uint64_t const file_key = hash_of(file, 0xcbf29ce484222325ull);
  std::uint64_t const key = hash_of(function, file_key ^ line * 0x9e3779b97f4a7c15ull);
  python_line_entry* found = probe(now->python.lines, key);
  if (found == nullptr) return 0;
  auto const number = static_cast<python_line>(found - now->python.lines + 1);
  if (is_there(*found, key)) return number;
  locked guard;
  found = probe(now->python.lines, key);
  python_file_entry* const of = probe(now->python.files, file_key);
  if (found == nullptr || of == nullptr) return 0;
  if (!is_there(*found, key)) {
    if (!is_there(*of, file_key)) {
      copy_end(of->path, file);
      publish(*of, file_key);
    }
    found->file = static_cast<std::uint32_t>(of - now->python.files);
    found->line = line;
    copy_end(found->function, function);
    publish(*found, key);
  }
  return static_cast<python_line>(found - now->python.lines + 1);
}

std::size_t python_lines_here(std::span<python_line> lines) noexcept {
  if (lines.empty() || !python::is_here()) return 0;
  lines_wanted wanted{lines, 0};
  python::walk(&wanted, note_frame);
  return wanted.count;
}

}  // namespace gpumem::stats
