// Random calls of a region, each followed by what must hold: the engine of the random test and of the fuzzer,
// which differ only in where the choices come from. choose(n) gives a number below n.
#pragma once

#include <vector>

#include "tests/unit/space/region_checks.hpp"

namespace gpumem::space {

template <typename Choose, typename Complain>
class region_driver {
 public:
  region_driver(Choose choose, Complain complain) : choose_(choose), complain_(complain) {}

  void step() {
    switch (choose_(16)) {
      case 0:
        add();
        break;
      case 1:
        reap();
        break;
      case 2:
        orphan();
        break;
      case 3:
        choose_(4) == 0 ? remove() : add();
        break;
      case 4:
        unfinished();
        break;
      case 5:
        ++open_;
        break;
      case 6:
      case 7:
      case 8:
      case 9:
      case 10:
        take();
        break;
      default:
        put();
        break;
    }
  }
  void check() { check_region(where_, space_, model_, complain_); }
  std::size_t live() const { return out_.size(); }

 private:
  std::uint32_t size() { return 1 + static_cast<std::uint32_t>(choose_(1u << choose_(12))); }
  // Of done, pending and four streams; `withheld` is none that anybody takes from.
  free_list_id some_domain() {
    auto const d = static_cast<free_list_id>(choose_(6));
    return d < withheld ? d : static_cast<free_list_id>(d + 1);
  }
  bool is_done(epoch_id s) const { return static_cast<std::int32_t>(done_ - s) >= 0; }

  void add() {
    if (model_.segments.size() >= 24) return;
    // Side by side at times: blocks of two segments must not merge.
    std::uint64_t const at = (1ull << 40) + choose_(64) * (4096 * unit);
    if (model_.segments.contains(at)) return;
    std::uint64_t const bytes = (choose_(4) == 0 ? 4096 : 1 + choose_(4096)) * unit;
    if (!space_.add_segment(at, bytes, 0)) complain_("add_segment failed");
    model_.segments[at] = bytes;
  }
  void took(handle h, std::uint32_t units, bool hidden) {
    block& b = where_.blocks[h];
    if (b.units != units || b.now.load() != state::live) complain_("take: not what was asked for");
    if (!model_.out.insert(h).second) complain_("take: a block that is out already");
    if (hidden) model_.hidden.insert(h);
    out_.push_back(h);
  }
  void take() {
    std::uint32_t const units = size();
    free_list_id const from = choose_(2) == 0 ? done : some_domain();
    bool const hidden = choose_(8) == 0;
    bool const thorough = choose_(2) == 0;
    std::uint32_t fits = 0;
    epoch_id youngest = 0;
    for (segment const* s : space_.segments()) {
      for (handle h = s->first; h != none; h = where_.blocks[h].after) {
        block const& b = where_.blocks[h];
        if (b.now.load() == state::idle && b.where == from && b.units >= units) {
          ++fits;
          youngest = b.freed;
        }
      }
    }
    handle const h = space_.take(from, units, thorough, hidden);
    if (h == none) {
      if (fits > 0 && thorough) complain_("take: a fitting block was overlooked");
      return;
    }
    if (fits == 0) complain_("take: from nowhere");
    if (fits == 1 && from != done && where_.blocks[h].freed != youngest)
      complain_("take: the stamp was lost");
    took(h, units, hidden);
  }
  void unfinished() {
    std::uint32_t const units = size();
    auto const except = static_cast<free_list_id>(1 + choose_(5));
    handle const h = space_.take_unfinished(except, units);
    if (h == none) return;
    if (where_.blocks[h].where == done || where_.blocks[h].where == except)
      complain_("take_unfinished: domain");
    took(h, units, false);
  }
  void put() {
    if (out_.size() < 100 && choose_(3) != 0) return take();  // a crowd, so that neighbours matter
    if (out_.empty()) return;
    std::swap(out_[choose_(out_.size())], out_.back());
    handle const h = out_.back();
    out_.pop_back();
    model_.out.erase(h);
    model_.hidden.erase(h);
    free_list_id const to = some_domain();
    where_.blocks[h].freed = open_ - static_cast<epoch_id>(choose_(3));
    space_.put(h, to);
  }
  void reap() {
    done_ = open_ - static_cast<epoch_id>(choose_(6));
    std::uint64_t const before = space_.pending_bytes();
    std::uint64_t const moved = space_.reap([&](epoch_id s) { return is_done(s); });
    if (before - space_.pending_bytes() != moved) complain_("reap: bytes");
    if (space_.has_pending() && is_done(space_.oldest_epoch())) complain_("reap: stopped too early");
    for (segment const* s : space_.segments()) {
      for (handle h = s->first; h != none; h = where_.blocks[h].after) {
        block const& b = where_.blocks[h];
        if (b.now.load() == state::idle && b.where != done && is_done(b.freed) && !has_younger_ahead(h)) {
          complain_("reap: a finished block was left at the head of the queue");
        }
      }
    }
  }
  bool has_younger_ahead(handle h) const {
    for (handle e = where_.blocks[h].earlier; e != none; e = where_.blocks[e].earlier) {
      if (!is_done(where_.blocks[e].freed)) return true;
    }
    return false;
  }
  void orphan() {
    auto const from = static_cast<free_list_id>(first_stream + 1 + choose_(4));
    std::uint64_t const before = space_.pending_bytes();
    space_.orphan(from);
    if (space_.pending_bytes() != before) complain_("orphan: bytes");
  }
  void remove() {
    segment* s = space_.empty_segment(static_cast<int>(choose_(3)));
    if (choose_(64) == 0 && !space_.segments().empty())
      s = space_.segments()[choose_(space_.segments().size())];
    if (s == nullptr) return;
    for (handle h = s->first; h != none; h = where_.blocks[h].after) {
      model_.out.erase(h);
      model_.hidden.erase(h);
      std::erase(out_, h);
    }
    model_.segments.erase(s->base);
    space_.remove_segment(s);
  }

  Choose choose_;
  Complain complain_;
  mutable block_registry where_;
  nobody who_;
  region space_{where_, &who_};
  region_model model_;
  std::vector<handle> out_;
  epoch_id open_ = ~epoch_id{0} - 50;  // the epochs wrap early on
  epoch_id done_ = ~epoch_id{0} - 60;
};

}  // namespace gpumem::space
