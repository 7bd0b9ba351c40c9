// The last words of the library about an exception of its own that nobody caught, which is a fault of ours.
// In place of libstdc++'s handler, whose reader of mangled names is 60 KiB of code and a page of tables that
// every process would relocate: c++filt reads the name. Called by std::terminate of the C++ runtime linked
// into the library, on any thread; does not return.
#include <cxxabi.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <exception>
#include <typeinfo>

namespace {

void say(char const* text) noexcept {
  [[maybe_unused]] auto const written = ::write(STDERR_FILENO, text, std::strlen(text));
}

}  // namespace

namespace __gnu_cxx {

void __verbose_terminate_handler() {
  std::type_info const* const type = abi::__cxa_current_exception_type();
  if (type == nullptr) {
    say("gpumem: terminate called without an active exception\n");
    std::abort();
  }
  say("gpumem: terminate called after throwing an instance of '");
  say(type->name());
  say("'\n");
  try {
    throw;
  } catch (std::exception const& it) {
    say("  what():  ");
    say(it.what());
    say("\n");
  } catch (...) {
  }
  std::abort();
}

}  // namespace __gnu_cxx
