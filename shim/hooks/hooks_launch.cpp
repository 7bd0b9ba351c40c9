// Hooks of calls that take memory of the device without being asked for any: the code and variables of a
// module, at once or when they are first asked for (CUDA_MODULE_LOADING), local memory and the heap of a
// kernel, also by a limit, the memory of a graph, which an upload maps as well. What chains keep of freed
// memory must not make them fail (seen on an H100). Called by the program on any thread, launches as often as
// it can: what succeeds costs one comparison. Not counted; nothing is noted, and nothing waits for the GPU
// for long.
#include "shim/hooks/dispatch.hpp"

using namespace gpumem::shim;

extern "C" {

CUresult cuModuleLoad(CUmodule* module, char const* file) {
  return with_own_room(GPUMEM_REAL(cuModuleLoad), module, file);
}

CUresult cuModuleLoadData(CUmodule* module, void const* image) {
  return with_own_room(GPUMEM_REAL(cuModuleLoadData), module, image);
}

CUresult cuModuleLoadDataEx(CUmodule* module, void const* image, unsigned int count, CUjit_option* options,
                            void** values) {
  return with_own_room(GPUMEM_REAL(cuModuleLoadDataEx), module, image, count, options, values);
}

CUresult cuModuleLoadFatBinary(CUmodule* module, void const* image) {
  return with_own_room(GPUMEM_REAL(cuModuleLoadFatBinary), module, image);
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, char const* name) {
  return with_own_room(GPUMEM_REAL(cuModuleGetFunction), function, module, name);
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr* address, std::size_t* bytes, CUmodule module, char const* name) {
  return with_own_room(GPUMEM_REAL(cuModuleGetGlobal_v2), address, bytes, module, name);
}

CUresult cuLibraryLoadData(CUlibrary* library, void const* code, CUjit_option* options, void** option_values,
                           unsigned int count, CUlibraryOption* library_options, void** library_values,
                           unsigned int library_count) {
  return with_own_room(GPUMEM_REAL(cuLibraryLoadData), library, code, options, option_values, count,
                       library_options, library_values, library_count);
}

CUresult cuLibraryLoadFromFile(CUlibrary* library, char const* file, CUjit_option* options,
                               void** option_values, unsigned int count, CUlibraryOption* library_options,
                               void** library_values, unsigned int library_count) {
  return with_own_room(GPUMEM_REAL(cuLibraryLoadFromFile), library, file, options, option_values, count,
                       library_options, library_values, library_count);
}

CUresult cuLibraryGetModule(CUmodule* module, CUlibrary library) {
  return with_own_room(GPUMEM_REAL(cuLibraryGetModule), module, library);
}

CUresult cuLibraryGetManaged(CUdeviceptr* address, std::size_t* bytes, CUlibrary library, char const* name) {
  return with_own_room(GPUMEM_REAL(cuLibraryGetManaged), address, bytes, library, name);
}

CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
  return with_own_room(GPUMEM_REAL(cuKernelGetFunction), function, kernel);
}

CUresult cuFuncLoad(CUfunction function) {
  return with_own_room(GPUMEM_REAL(cuFuncLoad), function);
}

CUresult cuCtxSetLimit(CUlimit limit, std::size_t value) {
  return with_own_room(GPUMEM_REAL(cuCtxSetLimit), limit, value);
}

CUresult cuGraphInstantiateWithParams(CUgraphExec* made, CUgraph graph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  return with_own_room(GPUMEM_REAL(cuGraphInstantiateWithParams), made, graph, parameters);
}

CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec* made, CUgraph graph,
                                           CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  return with_own_room(GPUMEM_REAL(cuGraphInstantiateWithParams_ptsz), made, graph, parameters);
}

CUresult cuGraphUpload(CUgraphExec graph, CUstream stream) {
  return with_own_room(GPUMEM_REAL(cuGraphUpload), graph, stream);
}

CUresult cuGraphUpload_ptsz(CUgraphExec graph, CUstream stream) {
  return with_own_room(GPUMEM_REAL(cuGraphUpload_ptsz), graph, stream);
}

CUresult cuLibraryGetGlobal(CUdeviceptr* address, std::size_t* bytes, CUlibrary library, char const* name) {
  return with_own_room(GPUMEM_REAL(cuLibraryGetGlobal), address, bytes, library, name);
}

CUresult cuLaunchKernel(CUfunction f, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                        unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared,
                        CUstream stream, void** parameters, void** extra) {
  return with_own_room(GPUMEM_REAL(cuLaunchKernel), f, grid_x, grid_y, grid_z, block_x, block_y, block_z,
                       shared, stream, parameters, extra);
}

CUresult cuLaunchKernel_ptsz(CUfunction f, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                             unsigned int block_x, unsigned int block_y, unsigned int block_z,
                             unsigned int shared, CUstream stream, void** parameters, void** extra) {
  return with_own_room(GPUMEM_REAL(cuLaunchKernel_ptsz), f, grid_x, grid_y, grid_z, block_x, block_y, block_z,
                       shared, stream, parameters, extra);
}

CUresult cuLaunchKernelEx(CUlaunchConfig const* config, CUfunction f, void** parameters, void** extra) {
  return with_own_room(GPUMEM_REAL(cuLaunchKernelEx), config, f, parameters, extra);
}

CUresult cuLaunchKernelEx_ptsz(CUlaunchConfig const* config, CUfunction f, void** parameters, void** extra) {
  return with_own_room(GPUMEM_REAL(cuLaunchKernelEx_ptsz), config, f, parameters, extra);
}

CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned int grid_x, unsigned int grid_y,
                                   unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                                   unsigned int block_z, unsigned int shared, CUstream stream,
                                   void** parameters) {
  return with_own_room(GPUMEM_REAL(cuLaunchCooperativeKernel), f, grid_x, grid_y, grid_z, block_x, block_y,
                       block_z, shared, stream, parameters);
}

CUresult cuLaunchCooperativeKernel_ptsz(CUfunction f, unsigned int grid_x, unsigned int grid_y,
                                        unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                                        unsigned int block_z, unsigned int shared, CUstream stream,
                                        void** parameters) {
  return with_own_room(GPUMEM_REAL(cuLaunchCooperativeKernel_ptsz), f, grid_x, grid_y, grid_z, block_x,
                       block_y, block_z, shared, stream, parameters);
}

CUresult cuGraphLaunch(CUgraphExec graph, CUstream stream) {
  return with_own_room(GPUMEM_REAL(cuGraphLaunch), graph, stream);
}

CUresult cuGraphLaunch_ptsz(CUgraphExec graph, CUstream stream) {
  return with_own_room(GPUMEM_REAL(cuGraphLaunch_ptsz), graph, stream);
}

}  // extern "C"
