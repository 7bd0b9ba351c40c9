// The table of observed memory; see observed_memory.hpp. No driver call while a lock is held.
#include "shim/observed/observed_memory.hpp"

#include <new>
#include <utility>

#include "core/base/threads/undestroyed.hpp"
#include "shim/observed/recorded.hpp"

namespace gpumem::shim {
namespace {

recording::key_kind name_of(std::size_t kind) noexcept {
  constexpr auto first = static_cast<std::size_t>(recording::key_kind::address);
  return static_cast<recording::key_kind>(first + kind);
}
static_assert(static_cast<int>(observed_kind::mipmapped_array) +
                  static_cast<int>(recording::key_kind::address) ==
              static_cast<int>(recording::key_kind::mipmapped_array));

}  // namespace

observed_memory& observed_memory::instance() noexcept {
  return base::undestroyed<observed_memory>::get();
}

bool observed_memory::insert(observed_kind kind, std::uint64_t key, item const& held) {
  auto& part = of(key);
  base::lock_guard const lock(part.lock);
  table& items = part.items[static_cast<std::size_t>(kind)];
  bool added = false;
  if (part.spare.empty()) {
    added = items.try_emplace(key, held).second;
  } else {
    part.spare.key() = key;
    part.spare.mapped() = held;
    auto tried = items.insert(std::move(part.spare));
    added = tried.inserted;
    part.spare = std::move(tried.node);
  }
  if (added) record_observed(true, name_of(static_cast<std::size_t>(kind)), key, held.held);
  return added;
}

bool observed_memory::add(observed_kind kind, std::uint64_t key, item const& held) noexcept try {
  if (insert(kind, key, held)) return true;
  // What the driver gives out anew was given back on a way that no hook saw.
  if (auto const gone = take(kind, key)) route::has_left(gone->held);
  return insert(kind, key, held);
} catch (std::bad_alloc const&) {
  return false;
}

std::optional<observed_memory::item> observed_memory::take(observed_kind kind, std::uint64_t key) noexcept {
  auto& part = of(key);
  std::optional<item> gone;
  {
    base::lock_guard const held(part.lock);
    auto& items = part.items[static_cast<std::size_t>(kind)];
    auto const found = items.find(key);
    if (found == items.end()) return gone;
    gone = found->second;
    part.spare = items.extract(found);
  }
  record_observed(false, name_of(static_cast<std::size_t>(kind)), key, gone->held);
  route::leaves(gone->held);
  return gone;
}

void observed_memory::forget(driver::named_context const& gone) noexcept {
  stats::memory_move const move;
  ends_.fetch_add(1, std::memory_order_acq_rel);  // before it looks: see forget_what_came_late
  for (auto& part : shards_) {
    base::lock_guard const held(part.lock);
    for (std::size_t kind = 0; kind < part.items.size(); ++kind) {
      std::erase_if(part.items[kind], [&gone, kind](auto const& entry) {
        if (!entry.second.context.is(gone)) return false;
        record_observed(false, name_of(kind), entry.first, entry.second.held);
        route::leaves(entry.second.held);
        route::has_left(entry.second.held);
        return true;
      });
    }
  }
}

void observed_memory::forget_if_ended(observed_kind kind, std::uint64_t key,
                                      driver::named_context const& of) noexcept {
  if (!driver::tells_contexts_apart() || !driver::has_ended(of.handle, of.id)) return;
  if (auto const gone = take(kind, key)) route::has_left(gone->held);
}

std::uint64_t departure::done() noexcept {
  if (!leaving_) return 0;
  std::uint64_t const bytes = leaving_->held.bytes;
  route::has_left(leaving_->held);
  leaving_.reset();
  return bytes;
}

// Nobody else can have the key: the driver refused to give it up. On the ledger first, from which whoever
// finds it in the table takes it.
departure::~departure() {
  if (!leaving_) return;
  auto& table = observed_memory::instance();
  route::stays(leaving_->held);
  if (table.add(kind_, key_, *leaving_)) {
    table.forget_what_came_late(kind_, key_, leaving_->context, since_);
  } else {
    route::leaves(leaving_->held);
    route::has_left(leaving_->held);
  }
}

void observed_memory::reset_in_child() noexcept {
  base::undestroyed<observed_memory>::renew();
}

}  // namespace gpumem::shim
