// Arrays: what a memory report has to see, without texture semantics.
// Any thread.
// An array takes device memory by its format and extent, or none where it is mapped later; copies to and from
// arrays are not modelled.
#include <optional>

#include "entry.hpp"

using namespace simulated;

namespace {

std::uint64_t element_bytes(CUarray_format format, unsigned channels) {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
      return channels;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
      return 2ull * channels;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
      return 4ull * channels;
    default:
      return 0;
  }
}

struct array {
  CUDA_ARRAY3D_DESCRIPTOR description;
  std::uint64_t address;
};
std::unordered_set<array*>& arrays() {
  static auto* const one = new std::unordered_set<array*>;
  return *one;
}

CUresult create(machine& m, context& here, CUarray* out, CUDA_ARRAY3D_DESCRIPTOR const& wanted) {
  std::uint64_t const element = element_bytes(wanted.Format, wanted.NumChannels);
  if (out == nullptr || element == 0 || wanted.Width == 0) return CUDA_ERROR_INVALID_VALUE;
  bool const mapped_later = (wanted.Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)) != 0;
  std::uint64_t const bytes = element * wanted.Width * std::max<std::size_t>(wanted.Height, 1) *
                              std::max<std::size_t>(wanted.Depth, 1);
  m.memory_.collect(m.now_, m.host_);
  std::uint64_t const address = mapped_later ? 0 : m.memory_.allocate(&here, block_kind::array, bytes);
  if (address == 0 && !mapped_later) return CUDA_ERROR_OUT_OF_MEMORY;
  auto* const made = handle_records<array>::make();
  *made = {wanted, address};
  arrays().insert(made);
  *out = reinterpret_cast<CUarray>(made);
  return CUDA_SUCCESS;
}

}  // namespace

SIMULATED_API cuArrayCreate_v2(CUarray* out, CUDA_ARRAY_DESCRIPTOR const* wanted) {
  SIMULATED_CALL(unsafe_in_capture);
  if (wanted == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return create(m, *here, out, {wanted->Width, wanted->Height, 0, wanted->Format, wanted->NumChannels, 0});
}

SIMULATED_API cuArray3DCreate_v2(CUarray* out, CUDA_ARRAY3D_DESCRIPTOR const* wanted) {
  SIMULATED_CALL(unsafe_in_capture);
  return wanted != nullptr ? create(m, *here, out, *wanted) : CUDA_ERROR_INVALID_VALUE;
}

SIMULATED_API cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR* out, CUarray which) {
  SIMULATED_CALL(with_context);
  auto* const found = reinterpret_cast<array*>(which);
  if (out == nullptr || arrays().count(found) == 0) return CUDA_ERROR_INVALID_HANDLE;
  *out = found->description;
  return CUDA_SUCCESS;
}

SIMULATED_API cuArrayDestroy(CUarray which) {
  SIMULATED_CALL(unsafe_in_capture);
  auto* const gone = reinterpret_cast<array*>(which);
  if (arrays().erase(gone) == 0) return CUDA_ERROR_INVALID_HANDLE;
  std::optional<block> memory;
  if (block const* const found = m.memory_.at(gone->address)) {
    memory = *found;
    m.memory_.erase(memory->base);
  }
  handle_records<array>::end(gone);
  m.host_wait(m.all_work(*here));
  if (memory) m.memory_.release(*memory);
  return CUDA_SUCCESS;
}
