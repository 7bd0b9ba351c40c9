// See address_answers.hpp.
#include "core/route/address_answers.hpp"

#include <array>
#include <cstring>

#include "core/route/default_pools.hpp"
#include "core/route/router_state.hpp"

namespace gpumem::route {

namespace {

template <typename Value>
std::size_t put(void* to, Value value) noexcept {
  std::memcpy(to, &value, sizeof value);
  return sizeof value;
}

// Writes what it should be of device memory that `context` owns; bytes written, 0: of such nothing is known.
[[gnu::always_inline]] inline std::size_t write_expected(CUpointer_attribute attribute, void* to,
                                                         CUdeviceptr address, CUcontext context,
                                                         int device) noexcept {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return put(to, context);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return put(to, static_cast<unsigned>(CU_MEMORYTYPE_DEVICE));
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return put(to, address);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      return put(to, static_cast<void*>(nullptr));
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return put(to, 0u);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return put(to, device);
    default:
      return 0;
  }
}

std::uint32_t bit(CUpointer_attribute attribute) noexcept {
  return 1u << static_cast<unsigned>(attribute);
}

}  // namespace

address_answers::address_answers(CUdeviceptr address, CUcontext current) noexcept : address_(address) {
  if (present == nullptr || current == nullptr) return;
  resource::resource* owner = nullptr;
  space::handle const h = block_around(*present, address, owner);
  if (h == space::none) return;
  resource::chain_context const& home = owner->home();
  if (home.kind != driver::memory_kind::device || home.context() != current || !home.epochs.well()) return;
  space::block const& b = present->where.blocks[h];
  block_ = {b.begin(), b.bytes() - b.rounding};
  handle_ = h;
  context_ = home.context();
  device_ = home.device;
  segment_ = &present->where.segments[b.segment];
}

bool address_answers::tell(std::span<CUpointer_attribute const> attributes,
                           void* const* values) const noexcept {
  std::uint32_t asked = 0;
  for (std::size_t i = 0; i < attributes.size(); ++i) {
    if (static_cast<unsigned>(attributes[i]) >= 32 || values[i] == nullptr) return false;
    asked |= bit(attributes[i]);
  }
  if ((asked & ~segment_->learnt.load(std::memory_order_relaxed)) != 0) return false;
  bool const in_context =
      (asked & bit(CU_POINTER_ATTRIBUTE_CONTEXT)) == 0 || !is_of_pool(present->where.blocks[handle_]);
  for (std::size_t i = 0; i < attributes.size(); ++i)
    write_expected(attributes[i], values[i], address_, in_context ? context_ : nullptr, device_);
  return true;
}

void address_answers::learn(std::span<CUpointer_attribute const> attributes,
                            void* const* values) const noexcept {
  std::uint32_t found = 0;
  for (std::size_t i = 0; i < attributes.size(); ++i) {
    std::array<unsigned char, 8> expected{};
    std::size_t const size = write_expected(attributes[i], expected.data(), address_, context_, device_);
    if (size == 0 || values[i] == nullptr) continue;
    if (std::memcmp(values[i], expected.data(), size) == 0) found |= bit(attributes[i]);
  }
  if (found != 0) segment_->learnt.fetch_or(found, std::memory_order_relaxed);
}

}  // namespace gpumem::route
