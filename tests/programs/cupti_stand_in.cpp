// Stands for libcupti: takes what a profiler asks for, and prints that it was asked. Sees nothing.
#include <cstdint>
#include <cstdio>

namespace {
int asked(char const* what) {
  std::printf("libcupti: %s\n", what);
  return 0;
}
}  // namespace

extern "C" {
int cuptiActivityEnable(int) {
  return asked("activity");
}
int cuptiActivityEnableContext(void*, int) {
  return asked("activity of a context");
}
int cuptiActivityEnableAndDump(int) {
  return asked("activity and dump");
}
int cuptiActivityEnableRuntimeApi(std::uint32_t, std::uint8_t) {
  return asked("runtime API");
}
int cuptiActivityEnableDriverApi(std::uint32_t, std::uint8_t) {
  return asked("driver API");
}
int cuptiEnableCallback(std::uint32_t, void*, int, std::uint32_t) {
  return asked("callback");
}
int cuptiEnableDomain(std::uint32_t, void*, int) {
  return asked("domain");
}
int cuptiEnableAllDomains(std::uint32_t, void*) {
  return asked("all domains");
}
}
