// cuGetProcAddress: the newest version that was asked for, the same address as dlsym, NULL with success when
// unknown.
#include <dlfcn.h>

#include "fixture.hpp"

using lookup = simulated_test;

namespace {

void* ask(char const* name, int version, cuuint64_t flags, CUdriverProcAddressQueryResult* status = nullptr) {
  void* found = &found;
  EXPECT_EQ(cuGetProcAddress(name, &found, version, flags, status), CUDA_SUCCESS) << name;
  return found;
}

void* exported(char const* name) {
  return dlsym(dlopen("libcuda.so.1", RTLD_NOW), name);
}

// What cuGetProcAddress gives for a function of that version; null where this driver is older.
void* given(int since, void* function) {
  int version = 0;
  EXPECT_EQ(cuDriverGetVersion(&version), CUDA_SUCCESS);
  return since <= version ? function : nullptr;
}

}  // namespace

TEST_F(lookup, every_listed_function_is_the_exported_one) {
// The arguments are only ever made strings, or cuda.h's macros would rename them.
#define SIMULATED_FUNCTION(base, symbol, since)     \
  ASSERT_NE(exported(#symbol), nullptr) << #symbol; \
  EXPECT_EQ(ask(#base, since, 0), given(since, exported(#symbol))) << #symbol;
#define SIMULATED_STREAM_FUNCTION(base, symbol, variant, since)                \
  ASSERT_NE(exported(#symbol), nullptr) << #symbol;                            \
  ASSERT_NE(exported(#variant), nullptr) << #variant;                          \
  EXPECT_EQ(ask(#base, since, 0), given(since, exported(#symbol))) << #symbol; \
  EXPECT_EQ(ask(#base, since, 2), given(since, exported(#variant))) << #variant;
#include "functions.def"
#undef SIMULATED_FUNCTION
#undef SIMULATED_STREAM_FUNCTION
}

TEST_F(lookup, newest_version_up_to_the_one_asked) {
  EXPECT_EQ(ask("cuCtxGetDevice", 12000, 0), exported("cuCtxGetDevice"));
  EXPECT_EQ(ask("cuCtxGetDevice", 13000, 0), exported("cuCtxGetDevice_v2"));
  EXPECT_EQ(ask("cuGetProcAddress", 11030, 0), exported("cuGetProcAddress"));
  EXPECT_EQ(ask("cuGetProcAddress", 12000, 0), exported("cuGetProcAddress_v2"));
}

TEST_F(lookup, unknown_names_are_null_and_success) {
  CUdriverProcAddressQueryResult status{};
  EXPECT_EQ(ask("cuNewThing", 13000, 0, &status), nullptr);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  EXPECT_EQ(ask("cuMemAllocAsync", 11010, 0, &status), nullptr);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  EXPECT_EQ(ask("cuMem", 13000, 0), nullptr);
  EXPECT_EQ(ask("cuMemAlloc_v2", 13000, 0), nullptr);
  EXPECT_EQ(ask("", 0, 0), nullptr);
}
