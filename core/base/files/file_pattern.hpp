// File names with %e program, %p pid, %h host, %r rank, %x exec/fork number, %q{VAR} and %%. No file is
// overwritten: a taken name gets .1, .2, ... Called at exit by the report and by `gpumem`; one thread.
// Makes no folders: a report in a folder that a typing error made would be lost.
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

// The rank as the innermost launcher tells it (torchrun, MPI, Slurm), empty when there is none.
std::string mpi_rank();

struct created_file {
  int descriptor = -1;  // of the caller, O_CLOEXEC
  std::string path;
  std::string error;    // what, why and the remedy; empty: good
  bool is_new = false;  // it was not there before, so that a part of it may be removed
};
// What these are for the caller; negative: not to be written to.
struct standard_streams {
  int out = 1;
  int error = 2;
};
// "stdout", "-", "stderr": no file of that name is meant.
bool is_standard_stream(std::string_view path) noexcept;

// The pattern with `folder` before it, where it is a relative one: the name is of where a program was when
// its user named the file, and it may go elsewhere, as daemons do.
std::string pattern_in_folder(std::string const& pattern, std::string_view folder);

// Devices and FIFOs of this user are opened as they are; stdout, - and /dev/stdout, stderr and /dev/stderr
// are the caller's streams. No link is followed, and nothing that is there is ever truncated.
created_file create_without_overwriting(std::string const& path, standard_streams streams = {});

}  // namespace gpumem::base
