// See nvtx_names.hpp. Tables only grow, and a place is complete before the count says that it is there.
#include "shim/phases/nvtx_names.hpp"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <string_view>

#include "core/base/threads/yielding_guard.hpp"

namespace gpumem::shim::nvtx {
namespace {

constexpr std::size_t most_domains = 256;
constexpr std::size_t most_strings = 1 << 16;
constexpr std::size_t longest_domain = 47;
constexpr std::size_t longest_message = 511;  // that is looked at

struct known_domain {
  domain theirs;           // null: its handle is its own address
  phases::stack_of stack;  // of all domains of this name
  char name[longest_domain + 1];
};
struct known_string {
  registered theirs;
  char text[phases::longest_name + 1];
};

constinit std::array<known_domain, most_domains> domains{};
constinit std::atomic<std::size_t> domains_used{0};
constinit std::atomic<known_string*> strings{nullptr};
constinit std::size_t strings_used = 0;
constinit std::array<std::atomic<std::uint32_t>, 2 * most_strings> by_handle{};  // place + 1
constinit std::atomic_flag busy{};

template <std::size_t size>
void copy_text(char (&to)[size], char const* from) noexcept {
  std::size_t const length = from == nullptr ? 0 : ::strnlen(from, size - 1);
  if (length != 0) ::memcpy(to, from, length);
  to[length] = '\0';
}

// A parent's thread that was adding a name does not leave it to a child.
void watch_forks() noexcept {
  static bool const done =
      ::pthread_atfork(nullptr, nullptr, [] { busy.clear(std::memory_order_release); }) == 0;
  static_cast<void>(done);
}

known_domain* find_domain(domain of) noexcept {
  std::size_t const used = domains_used.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < used; ++i) {
    known_domain& one = domains[i];
    if (one.theirs == of || (one.theirs == nullptr && &one == of)) return &one;
  }
  return nullptr;
}

std::size_t hash_of(std::uintptr_t handle) noexcept {
  std::uint64_t const mixed = handle * 0x9e3779b97f4a7c15ull;
  return static_cast<std::size_t>(mixed >> 32) % by_handle.size();
}
std::size_t hash_of(std::string_view text) noexcept {
  std::uint64_t value = 0xcbf29ce484222325ull;
  for (char const letter : text) value = (value ^ static_cast<unsigned char>(letter)) * 0x100000001b3ull;
  return hash_of(static_cast<std::uintptr_t>(value));
}

// The place of the first that `is_it`, or the free one where it belongs.
template <typename Test>
std::atomic<std::uint32_t>& find_place(std::size_t hash, known_string const* all, Test is_it) noexcept {
  for (std::size_t at = hash;; at = (at + 1) % by_handle.size()) {
    std::uint32_t const place = by_handle[at].load(std::memory_order_acquire);
    if (place == 0 || is_it(all[place - 1])) return by_handle[at];
  }
}

known_string* table_of_strings() noexcept {
  if (known_string* const made = strings.load(std::memory_order_acquire); made != nullptr) return made;
  void* const made = ::mmap(nullptr, most_strings * sizeof(known_string), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (made == MAP_FAILED) return nullptr;
  strings.store(static_cast<known_string*>(made), std::memory_order_release);
  return static_cast<known_string*>(made);
}

char const* text_of(registered handle) noexcept {
  known_string const* const all = strings.load(std::memory_order_acquire);
  if (all == nullptr || handle == nullptr) return nullptr;
  if (is_own_string(handle)) return static_cast<known_string const*>(handle)->text;
  auto const is_it = [handle](known_string const& one) { return one.theirs == handle; };
  std::uint32_t const place =
      find_place(hash_of(reinterpret_cast<std::uintptr_t>(handle)), all, is_it).load();
  return place == 0 ? nullptr : all[place - 1].text;
}

std::string_view name_of_domain(domain of) noexcept {
  known_domain const* const found = of == nullptr ? nullptr : find_domain(of);
  return found == nullptr ? std::string_view() : found->name;
}

std::string_view view_of(char const* message) noexcept {
  return message == nullptr ? std::string_view()
                            : std::string_view(message, ::strnlen(message, longest_message));
}

}  // namespace

bool is_own_domain(domain handle) noexcept {
  auto const offset =
      reinterpret_cast<std::uintptr_t>(handle) - reinterpret_cast<std::uintptr_t>(domains.data());
  return offset < sizeof domains && offset % sizeof(known_domain) == 0;
}

bool is_own_string(registered handle) noexcept {
  known_string const* const all = strings.load(std::memory_order_acquire);
  auto const offset = reinterpret_cast<std::uintptr_t>(handle) - reinterpret_cast<std::uintptr_t>(all);
  return all != nullptr && offset < most_strings * sizeof(known_string) && offset % sizeof(known_string) == 0;
}

domain add_domain(char const* name, domain theirs) noexcept {
  watch_forks();
  base::yielding_guard const guard(busy);
  std::size_t const used = domains_used.load(std::memory_order_relaxed);
  for (std::size_t i = 0; i < used; ++i) {
    known_domain& one = domains[i];
    bool const same =
        theirs != nullptr
            ? one.theirs == theirs
            : one.theirs == nullptr && ::strncmp(one.name, name == nullptr ? "" : name, longest_domain) == 0;
    if (same) return theirs != nullptr ? theirs : &one;
  }
  if (used == domains.size()) return theirs != nullptr ? theirs : &domains.back();
  known_domain& made = domains[used];
  made.theirs = theirs;
  made.stack = first_domain_stack + static_cast<phases::stack_of>(used);
  copy_text(made.name, name);
  for (std::size_t i = 0; i < used; ++i) {
    if (::strcmp(domains[i].name, made.name) == 0) made.stack = domains[i].stack;
  }
  domains_used.store(used + 1, std::memory_order_release);
  return theirs != nullptr ? theirs : &domains[used];
}

registered add_string(char const* text, registered theirs) noexcept {
  watch_forks();
  base::yielding_guard const guard(busy);
  known_string* const all = table_of_strings();
  if (all == nullptr) return theirs;
  known_string made{.theirs = theirs, .text = {}};
  copy_text(made.text, text);
  auto const is_it = [&made](known_string const& one) {
    return made.theirs != nullptr ? one.theirs == made.theirs
                                  : one.theirs == nullptr && ::strcmp(one.text, made.text) == 0;
  };
  std::size_t const hash = theirs != nullptr ? hash_of(reinterpret_cast<std::uintptr_t>(theirs))
                                             : hash_of(std::string_view(made.text));
  auto& place = find_place(hash, all, is_it);
  if (place.load() == 0) {
    if (strings_used == most_strings) return theirs;
    all[strings_used] = made;
    place.store(static_cast<std::uint32_t>(++strings_used), std::memory_order_release);
  }
  return theirs != nullptr ? theirs : &all[place.load() - 1];
}

utf8_text narrow(wchar_t const* text) noexcept {
  utf8_text made;
  std::size_t length = 0;
  for (; text != nullptr && *text != 0 && length < sizeof made.text - 4; ++text) {
    auto code = static_cast<std::uint32_t>(*text);
    if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) code = '?';
    auto const put = [&](std::uint32_t byte) { made.text[length++] = static_cast<char>(byte); };
    if (code < 0x80) {
      put(code);
    } else if (code < 0x800) {
      put(0xc0 | code >> 6), put(0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
      put(0xe0 | code >> 12), put(0x80 | (code >> 6 & 0x3f)), put(0x80 | (code & 0x3f));
    } else {
      put(0xf0 | code >> 18), put(0x80 | (code >> 12 & 0x3f)), put(0x80 | (code >> 6 & 0x3f));
      put(0x80 | (code & 0x3f));
    }
  }
  made.text[length] = '\0';
  return made;
}

phases::stack_of stack_of_domain(domain of) noexcept {
  known_domain const* const found = of == nullptr ? nullptr : find_domain(of);
  return found == nullptr ? default_domain_stack : found->stack;
}

phases::phase_name name_of(domain of, char const* message) noexcept {
  return phases::name_of_phase(name_of_domain(of), view_of(message));
}

phases::phase_name name_of(domain of, wchar_t const* message) noexcept {
  return name_of(of, narrow(message).text);
}

phases::phase_name name_of(domain of, attributes const* event) noexcept {
  if (event == nullptr || event->size < sizeof(attributes))
    return name_of(of, static_cast<char const*>(nullptr));
  switch (event->message_type) {
    case ascii_message:
      return name_of(of, event->message.ascii);
    case wide_message:
      return name_of(of, event->message.wide);
    case registered_message:
      return name_of(of, text_of(event->message.string));
    default:
      return name_of(of, static_cast<char const*>(nullptr));
  }
}

}  // namespace gpumem::shim::nvtx
