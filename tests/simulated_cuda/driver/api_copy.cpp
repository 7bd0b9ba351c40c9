// Copies and fills: each is an operation with its accesses, its effect on memory at its end.
// Any thread. The 2D and 3D forms are in api_copy_pitched.cpp.
// Pageable host memory is read before an asynchronous copy returns, and is complete when it returns, as
// natively.
#include <cstring>

#include "copy.hpp"

using namespace simulated;

namespace simulated {

namespace {

bool host_side(block const* of) {
  return of == nullptr || of->kind == block_kind::host || of->kind == block_kind::registered;
}

bool is_pinned(block const* of) {
  return of != nullptr && of->kind == block_kind::host;
}

bool inside(machine const& m, block const* of, std::uint64_t address, std::uint64_t bytes) {
  return of == nullptr || address + bytes <= m.memory_.mapped_end(*of);
}

// A copy reaches what cuMemAlloc made on any device. A pool's memory is mapped only for its own device and
// those that cuMemPoolSetAccess named: from another one the driver refuses, whatever access the contexts
// have.
bool closed_to(context const& from, block const* of) {
  return of != nullptr && of->kind == block_kind::pooled && !of->from->open_to(from.device);
}

CUresult context_of(machine& m, CUcontext named, stream const& on, context*& result) {
  if (named != nullptr) return m.resolve(named, result);
  result = on.owner;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult copy(machine& m, CUstream on, copy_shape const& shape, direction way, bool blocking,
              named_contexts const& named) {
  if (shape.rows == 0 || shape.width == 0) return CUDA_SUCCESS;
  stream* where = nullptr;
  SIMULATED_TRY(m.resolve(on, where));
  std::uint64_t const source_bytes = shape.source_pitch * (shape.rows - 1) + shape.width;
  std::uint64_t const target_bytes = shape.target_pitch * (shape.rows - 1) + shape.width;
  bool const captured = where->capturing != nullptr;
  block const* const source = m.memory_.find(shape.source, captured);
  block const* const target = m.memory_.find(shape.target, captured);
  // Where devices reach pageable memory, what is named as a device's may be any.
  bool const any = way.strict && m.pageable_;
  bool const source_on_host = way.source_host || (host_side(source) && !(any && source == nullptr));
  bool const target_on_host = way.target_host || (host_side(target) && !(any && target == nullptr));
  if (!way.source_host && source == nullptr && way.strict && !any) return CUDA_ERROR_INVALID_VALUE;
  if (!way.target_host && target == nullptr && way.strict && !any) return CUDA_ERROR_INVALID_VALUE;
  if (!inside(m, source, shape.source, source_bytes) || !inside(m, target, shape.target, target_bytes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  context *reader = nullptr, *writer = nullptr;
  SIMULATED_TRY(context_of(m, named.source, *where, reader));
  SIMULATED_TRY(context_of(m, named.target, *where, writer));
  if (closed_to(*reader, source) || closed_to(*writer, target)) return CUDA_ERROR_INVALID_VALUE;
  operation work;
  work.name = "copy";
  work.duration = 1000 + shape.rows * shape.width / 16;
  if (!source_on_host) work.accesses.push_back({shape.source, source_bytes, 0});
  if (!target_on_host) work.accesses.push_back({shape.target, target_bytes, 1});
  bool const stage = source_on_host && source == nullptr && !where->capturing;
  std::shared_ptr<std::vector<char>> staged;
  if (stage) {
    auto const* const bytes = reinterpret_cast<char const*>(shape.source);
    staged = std::make_shared<std::vector<char>>(bytes, bytes + source_bytes);
  }
  if (is_pinned(source)) work.pinned.push_back(shape.source);
  if (is_pinned(target)) work.pinned.push_back(shape.target);
  work.action = [shape, staged] {
    auto const* from = staged ? staged->data() : reinterpret_cast<char const*>(shape.source);
    auto* to = reinterpret_cast<char*>(shape.target);
    for (std::uint64_t row = 0; row < shape.rows; ++row) {
      std::memmove(to + row * shape.target_pitch, from + row * shape.source_pitch, shape.width);
    }
  };
  bool const wait = blocking ? source_on_host || target_on_host : target_on_host && target == nullptr;
  SIMULATED_TRY(m.submit(*where, std::move(work)));
  if (!wait || where->capturing) return CUDA_SUCCESS;
  context* const owner = where->owner;
  m.host_wait(where->tail);
  return machine::fault_of(owner);
}

CUresult fill(machine& m, CUstream on, CUdeviceptr target, std::uint64_t pitch, unsigned value,
              unsigned element, std::uint64_t width, std::uint64_t rows) {
  if (width == 0 || rows == 0) return CUDA_SUCCESS;
  stream* where = nullptr;
  SIMULATED_TRY(m.resolve(on, where));
  std::uint64_t const row_bytes = width * element;
  std::uint64_t const bytes = pitch * (rows - 1) + row_bytes;
  block const* const found = m.memory_.find(target, where->capturing != nullptr);
  if ((found == nullptr && !m.pageable_) || !inside(m, found, target, bytes) || target % element != 0 ||
      closed_to(*where->owner, found))
    return CUDA_ERROR_INVALID_VALUE;
  operation work;
  work.name = "fill";
  work.duration = 1000 + width * rows * element / 32;
  if (found == nullptr || !host_side(found)) work.accesses.push_back({target, bytes, 1});
  if (is_pinned(found)) work.pinned.push_back(target);
  work.action = [=] {
    for (std::uint64_t row = 0; row < rows; ++row) {
      auto* to = reinterpret_cast<char*>(target + row * pitch);
      // Of a size that the compiler knows: no call for each.
      auto const repeat = [&](auto part) {
        for (std::uint64_t i = 0; i < width; ++i) std::memcpy(to + i * sizeof part, &part, sizeof part);
      };
      if (element == 1) std::memset(to, static_cast<int>(value), row_bytes);
      if (element == 2) repeat(static_cast<std::uint16_t>(value));
      if (element == 4) repeat(static_cast<std::uint32_t>(value));
    }
  };
  return m.submit(*where, std::move(work));
}

CUresult refuse_blocking(machine& m, CUstream on) {
  stream* where = nullptr;
  SIMULATED_TRY(m.unsafe_call());
  SIMULATED_TRY(m.resolve(on, where));
  return where->capturing ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

}  // namespace simulated

namespace {

constexpr direction to_device{true, false, true}, to_host{false, true, true}, on_device{false, false, true},
    by_address{false, false, false};

copy_shape line(std::uint64_t target, std::uint64_t source, std::uint64_t bytes) {
  return {target, source, bytes, 1, bytes, bytes};
}
std::uint64_t number(void const* pointer) {
  return reinterpret_cast<std::uint64_t>(pointer);
}

}  // namespace

// Each copy and fill in its blocking form and, for the per-thread default stream, once more.
#define BLOCKING(name, parameters, arguments, expression) \
  SIMULATED_API name parameters {                         \
    SIMULATED_CALL(with_context);                         \
    SIMULATED_TRY(refuse_blocking(m, nullptr));           \
    return expression;                                    \
  }                                                       \
  SIMULATED_PER_THREAD(name, _ptds, parameters, arguments)
#define ASYNC(name, parameters, arguments, expression) \
  SIMULATED_API name parameters {                      \
    SIMULATED_CALL(with_context);                      \
    return expression;                                 \
  }                                                    \
  SIMULATED_PER_THREAD(name, _ptsz, parameters, arguments)

BLOCKING(cuMemcpy, (CUdeviceptr to, CUdeviceptr from, size_t bytes), (to, from, bytes),
         copy(m, nullptr, line(to, from, bytes), by_address, true))
BLOCKING(cuMemcpyHtoD_v2, (CUdeviceptr to, void const* from, size_t bytes), (to, from, bytes),
         copy(m, nullptr, line(to, number(from), bytes), to_device, true))
BLOCKING(cuMemcpyDtoH_v2, (void* to, CUdeviceptr from, size_t bytes), (to, from, bytes),
         copy(m, nullptr, line(number(to), from, bytes), to_host, true))
BLOCKING(cuMemcpyDtoD_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes), (to, from, bytes),
         copy(m, nullptr, line(to, from, bytes), on_device, true))
BLOCKING(cuMemcpyPeer,
         (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes),
         (to, to_context, from, from_context, bytes),
         copy(m, nullptr, line(to, from, bytes), on_device, true, {to_context, from_context}))
ASYNC(cuMemcpyAsync, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream on), (to, from, bytes, on),
      copy(m, on, line(to, from, bytes), by_address, false))
ASYNC(cuMemcpyHtoDAsync_v2, (CUdeviceptr to, void const* from, size_t bytes, CUstream on),
      (to, from, bytes, on), copy(m, on, line(to, number(from), bytes), to_device, false))
ASYNC(cuMemcpyDtoHAsync_v2, (void* to, CUdeviceptr from, size_t bytes, CUstream on), (to, from, bytes, on),
      copy(m, on, line(number(to), from, bytes), to_host, false))
ASYNC(cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream on),
      (to, from, bytes, on), copy(m, on, line(to, from, bytes), on_device, false))
ASYNC(cuMemcpyPeerAsync,
      (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes,
       CUstream on),
      (to, to_context, from, from_context, bytes, on),
      copy(m, on, line(to, from, bytes), on_device, false, {to_context, from_context}))

BLOCKING(cuMemsetD8_v2, (CUdeviceptr to, unsigned char value, size_t count), (to, value, count),
         fill(m, nullptr, to, 0, value, 1, count, 1))
BLOCKING(cuMemsetD16_v2, (CUdeviceptr to, unsigned short value, size_t count), (to, value, count),
         fill(m, nullptr, to, 0, value, 2, count, 1))
BLOCKING(cuMemsetD32_v2, (CUdeviceptr to, unsigned value, size_t count), (to, value, count),
         fill(m, nullptr, to, 0, value, 4, count, 1))
BLOCKING(cuMemsetD2D8_v2, (CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t rows),
         (to, pitch, value, width, rows), fill(m, nullptr, to, pitch, value, 1, width, rows))
BLOCKING(cuMemsetD2D32_v2, (CUdeviceptr to, size_t pitch, unsigned value, size_t width, size_t rows),
         (to, pitch, value, width, rows), fill(m, nullptr, to, pitch, value, 4, width, rows))
ASYNC(cuMemsetD8Async, (CUdeviceptr to, unsigned char value, size_t count, CUstream on),
      (to, value, count, on), fill(m, on, to, 0, value, 1, count, 1))
ASYNC(cuMemsetD16Async, (CUdeviceptr to, unsigned short value, size_t count, CUstream on),
      (to, value, count, on), fill(m, on, to, 0, value, 2, count, 1))
ASYNC(cuMemsetD32Async, (CUdeviceptr to, unsigned value, size_t count, CUstream on), (to, value, count, on),
      fill(m, on, to, 0, value, 4, count, 1))
ASYNC(cuMemsetD2D8Async,
      (CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t rows, CUstream on),
      (to, pitch, value, width, rows, on), fill(m, on, to, pitch, value, 1, width, rows))
ASYNC(cuMemsetD2D32Async,
      (CUdeviceptr to, size_t pitch, unsigned value, size_t width, size_t rows, CUstream on),
      (to, pitch, value, width, rows, on), fill(m, on, to, pitch, value, 4, width, rows))
