// File names with %e program, %p pid, %h host, %r rank, %x exec/fork number, %q{VAR} and %%, and files that
// are never overwritten: a taken name gets .1, .2, ... Called at exit by the report and by `gpumem`;
// single-threaded use. Makes no folders: a report that lands in a folder born of a typing error is lost.
#pragma once

#include <string>
#include <string_view>

namespace gpumem::base {

struct pattern_values {
  std::string program;  // path or name; its last component is used
  long pid = 0;
  std::string host;
  unsigned exec_no = 0;
};

struct expansion {
  std::string text;
  std::string error;  // empty: good
};
expansion expand_pattern(std::string_view pattern, pattern_values const& values);

// The MPI rank as the launcher tells it, empty when there is none.
std::string mpi_rank();

struct created_file {
  int descriptor = -1;  // of the caller, O_CLOEXEC
  std::string path;
  std::string error;  // what, why and the remedy; empty: good
};
// Device files and FIFOs (/dev/stdout) are opened as they are.
created_file create_without_overwriting(std::string const& path);

}  // namespace gpumem::base
