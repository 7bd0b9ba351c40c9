// What the program asks about a device's default memory pool. Chains serve what it takes from there by
// cuMemAllocAsync, so an answer is the driver's for what the driver serves, plus pool_figures for the rest.
// Called by the hooks of cuMemPool functions, after the driver succeeded; any thread.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "core/driver/request.hpp"
#include "core/space/block.hpp"

namespace gpumem::route {

struct state;

// The device whose default pool this is, while chains serve in its place; -1: some other pool.
int served_pool(CUmemoryPool pool) noexcept;

// The driver's answer in `value`, for the four figures of bytes: ours is added.
void tell_attribute(int device, CUmemoryPool pool, CUmemPool_attribute attribute, void* value) noexcept;
void attribute_set(int device, CUmemPool_attribute attribute) noexcept;
// Gives idle memory of the device's chains back, unless they hold no more than `keep`.
void trimmed(int device, std::uint64_t keep) noexcept;

// The pool that the driver would name for this block; null: none.
CUmemoryPool pool_of(CUdeviceptr block) noexcept;
// What the driver would say: no context owns memory of a pool, and all other memory has one. `real`: the
// driver's answer for the segment.
CUcontext context_of(CUdeviceptr block, CUcontext real) noexcept;

// On the way of a request and of a free, once anybody has asked: see pool_figures.
void count_taken(state& s, int device, space::block& b) noexcept;
void count_given(state& s, int device, space::block& b, bool stream_ordered) noexcept;
}  // namespace gpumem::route
