// See in_hand.hpp. A list through the objects themselves: no memory is needed to be told of.
#include "core/resource/in_hand.hpp"

#include "core/base/mutant.hpp"
#include "core/base/threads/mutex.hpp"
#include "core/base/threads/undestroyed.hpp"

namespace gpumem::resource {

class hands {
 public:
  void add(in_hand& one) noexcept {
    base::lock_guard const lock(mutex_);
    link(first_, one);
    one.was_passed_ = is_passed(one.address_, one.bytes_);
  }
  void remove(in_hand& one) noexcept {
    base::lock_guard const lock(mutex_);
    unlink(first_, one);
  }
  void add(passing_free& one) noexcept {
    base::lock_guard const lock(mutex_);
    link(passing_, one);
    for (in_hand const* each = first_; each != nullptr; each = each->after_)
      one.is_in_hand_ = one.is_in_hand_ || (each->comes_ && !each->of_->ended_since(each->life_) &&
                                            one.address_ - each->address_ < each->bytes_);
  }
  void remove(passing_free& one) noexcept {
    base::lock_guard const lock(mutex_);
    unlink(passing_, one);
  }
  bool passes(std::uint64_t address, std::uint64_t bytes) noexcept {
    base::lock_guard const lock(mutex_);
    return is_passed(address, bytes);
  }
  // In the life of its context that has them now the driver gives bytes out only after it has them back.
  bool has_lost(in_hand const& mine, in_hand const* but) noexcept {
    base::lock_guard const lock(mutex_);
    for (in_hand const* each = first_; each != nullptr; each = each->after_) {
      bool const meets =
          each->address_ - mine.address_ < mine.bytes_ || mine.address_ - each->address_ < each->bytes_;
      bool const of_this_life = each->of_ == mine.of_ && each->life_ == mine.life_;
      if (each != but && meets && !of_this_life) return true;
    }
    return false;
  }

 private:
  bool is_passed(std::uint64_t address, std::uint64_t bytes) const noexcept GPUMEM_REQUIRES(mutex_) {
    passing_free const* each = passing_;
    while (each != nullptr && each->address_ - address >= bytes) each = each->after_;
    return each != nullptr;
  }
  template <typename Node>
  static void link(Node*& first, Node& one) noexcept {
    one.before_ = nullptr;
    one.after_ = first;
    if (first != nullptr) first->before_ = &one;
    first = &one;
  }
  template <typename Node>
  static void unlink(Node*& first, Node& one) noexcept {
    (one.before_ != nullptr ? one.before_->after_ : first) = one.after_;
    if (one.after_ != nullptr) one.after_->before_ = one.before_;
  }

  base::mutex mutex_;
  in_hand* first_ GPUMEM_GUARDED_BY(mutex_) = nullptr;
  passing_free* passing_ GPUMEM_GUARDED_BY(mutex_) = nullptr;
};

in_hand::~in_hand() {
  let_go();
}

void in_hand::let_go() noexcept {
  if (in_list_) base::undestroyed<hands>::get().remove(*this);
  in_list_ = false;
}

void in_hand::hold(stream_order::epochs const& of, std::uint32_t life, std::uint64_t address,
                   std::uint64_t bytes, bool comes) noexcept {
  if (GPUMEM_MUTANT(lost_from_the_hand)) return;
  let_go();  // of what a source took back again before it asked another one
  of_ = &of;
  life_ = life;
  address_ = address;
  bytes_ = bytes;
  comes_ = comes;
  base::undestroyed<hands>::get().add(*this);
  in_list_ = true;
}

bool in_hand::is_anothers(stream_order::epochs const& of, std::uint64_t address, std::uint64_t bytes,
                          in_hand const* mine) noexcept {
  in_hand asked;
  asked.of_ = &of;
  asked.life_ = mine != nullptr && mine->in_list_ ? mine->life_ : of.life();
  asked.address_ = address;
  asked.bytes_ = bytes;
  // Whose own context has ended tells of that, and waits for nobody: each would wait for the other.
  return !of.ended_since(asked.life_) && base::undestroyed<hands>::get().has_lost(asked, mine);
}

passing_free::passing_free(std::uint64_t address) noexcept : address_(address) {
  base::undestroyed<hands>::get().add(*this);
}

passing_free::~passing_free() {
  base::undestroyed<hands>::get().remove(*this);
}

bool passing_free::is_under_way(std::uint64_t address, std::uint64_t bytes) noexcept {
  return base::undestroyed<hands>::get().passes(address, bytes);
}

void in_hand::forget_all() noexcept {
  base::undestroyed<hands>::renew();
}

}  // namespace gpumem::resource
