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
    one.after_ = first_;
    if (first_ != nullptr) first_->before_ = &one;
    first_ = &one;
  }
  void remove(in_hand& one) noexcept {
    base::lock_guard const lock(mutex_);
    (one.before_ != nullptr ? one.before_->after_ : first_) = one.after_;
    if (one.after_ != nullptr) one.after_->before_ = one.before_;
  }
  // In the life of its context that has them now the driver gives bytes out only after it has them back.
  bool has_lost(in_hand const& mine) noexcept {
    base::lock_guard const lock(mutex_);
    for (in_hand const* each = first_; each != nullptr; each = each->after_) {
      bool const meets =
          each->address_ - mine.address_ < mine.bytes_ || mine.address_ - each->address_ < each->bytes_;
      bool const of_this_life = each->of_ == mine.of_ && each->life_ == mine.life_;
      if (each != &mine && meets && !of_this_life) return true;
    }
    return false;
  }

 private:
  base::mutex mutex_;
  in_hand* first_ GPUMEM_GUARDED_BY(mutex_) = nullptr;
};

in_hand::~in_hand() {
  if (of_ != nullptr) base::undestroyed<hands>::get().remove(*this);
}

void in_hand::hold(stream_order::epochs const& of, std::uint32_t life, std::uint64_t address,
                   std::uint64_t bytes) noexcept {
  if (GPUMEM_MUTANT(lost_from_the_hand)) return;
  of_ = &of;
  life_ = life;
  address_ = address;
  bytes_ = bytes;
  base::undestroyed<hands>::get().add(*this);
}

bool in_hand::is_anothers(in_hand const& mine) noexcept {
  return mine.of_ != nullptr && base::undestroyed<hands>::get().has_lost(mine);
}

void in_hand::forget_all() noexcept {
  base::undestroyed<hands>::renew();
}

}  // namespace gpumem::resource
