// The smallest program, linked in several ways; with HAS_RUNTIME it holds what a static CUDA runtime holds:
// the names by which it looks the driver up. For check_golden_test, which looks at the file and never runs
// it.
#ifdef HAS_RUNTIME
extern char const* const looked_up[];
char const* const looked_up[] = {"libcuda.so.1", "cuGetProcAddress_v2"};
#endif

int main() {
  return 0;
}
