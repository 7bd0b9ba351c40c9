// See limiting.hpp.
#include "core/resource/adaptors/limiting.hpp"

namespace gpumem::resource {

namespace {

std::uint64_t rounded(std::uint64_t bytes) noexcept {
  std::uint64_t const up = (bytes + space::unit - 1) / space::unit * space::unit;
  return up < bytes ? bytes : up;
}

}  // namespace

// Idle segments count where this budget also stands below a pool: giving them back makes room.
void limiting::take(std::uint64_t bytes) {
  if (budget_.take(bytes)) return;
  if (budget_.may_hold_idle() && home_.relieve != nullptr) {
    for (give_back_scope const scope : {give_back_scope::done, give_back_scope::all}) {
      home_.relieve(home_.context(), scope);
      if (budget_.take(bytes)) return;
    }
  }
  throw budget_.refusal(bytes);
}

space::handle limiting::pass_on(allocation_request const& request, std::uint64_t bytes) {
  try {
    return pass_down(request);
  } catch (driver::allocation_failed const&) {
    budget_.give(bytes);
    throw;
  }
}

space::handle limiting::serve(allocation_request const& request) {
  std::uint64_t const asked = rounded(request.bytes);
  take(asked);
  std::uint32_t const life = home_.epochs.life();
  space::handle const h = pass_on(request, asked);
  std::uint64_t const got = blocks()[h].bytes();  // blocks of one size may be larger than the request
  if (got < asked) {
    budget_.give(asked - got);
  } else if (got > asked && !budget_.take(got - asked)) {
    give_back_unseen(home_, h, request, life, this);
    budget_.give(asked);
    throw budget_.refusal(got);
  }
  return h;
}

void limiting::given_back(space::handle h, free_order const& order) noexcept {
  budget_.give(bytes_of(h, order));
}

extent limiting_source::serve(allocation_request const& request) {
  std::uint64_t const asked = rounded(request.bytes);
  if (!budget_.take(asked)) throw budget_.refusal(asked);
  extent memory;
  try {
    memory = pass_down(request);
  } catch (driver::allocation_failed const&) {
    budget_.give(asked);
    throw;
  }
  if (memory.bytes < asked) budget_.give(asked - memory.bytes);
  if (memory.bytes > asked && !budget_.take(memory.bytes - asked)) {
    below_.release(memory, {});
    budget_.give(asked);
    throw budget_.refusal(memory.bytes);
  }
  return memory;
}

}  // namespace gpumem::resource
