// Makes a legacy IPC handle name one block instead of the driver block around it, so that an importer
// without this library maps exactly that block. Called by the hook of cuIpcGetMemHandle on any thread. The
// handle's layout is known from measurement only: it is checked once in each process, and if it differs
// nothing is written.
#pragma once

#include <cuda.h>

#include "core/route/router.hpp"

namespace gpumem::shim {

// `handle` is what the driver gave for the block, or for an address in it. CUDA_ERROR_NOT_SUPPORTED, with one
// log line, where the handle cannot say it: wrong data would be worse.
CUresult export_block(CUipcMemHandle& handle, route::block_range const& block) noexcept;

// Whether it would: of memory that the driver can share. May ask the driver for small blocks, once.
bool can_export(route::block_range const& block) noexcept;

}  // namespace gpumem::shim
