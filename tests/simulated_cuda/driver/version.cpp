// The CUDA version that this build of the stand-in driver is of. The one file that differs between the
// versions: the functions that are newer are not exported by the older ones (see CMakeLists.txt).
#include "machine.hpp"

int const simulated::default_version = SIMULATED_VERSION;
