// Reads and checks the text of a configuration file; see source_file.hpp. One thread, once a load.
// The checks exist because a parser may recurse or loop in proportion to its input: whatever passes here is
// small.
#include "config/reader/file/source_file.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "core/base/text/bytes.hpp"
#include "core/base/text/utf8.hpp"

namespace gpumem::config {
namespace {

// Closes the descriptor on every way out.
class descriptor {
 public:
  explicit descriptor(int number) : number_(number) {}
  ~descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  descriptor(descriptor const&) = delete;
  descriptor& operator=(descriptor const&) = delete;
  int number() const noexcept { return number_; }

 private:
  int number_;
};

bool fail(std::string const& path, char const* code, std::string text, std::string note,
          std::vector<diagnostic>& list) {
  list.push_back({severity::error, code, path, {}, std::move(text), std::move(note), {}});
  return false;
}

bool fail_with_errno(std::string const& path, int error, std::vector<diagnostic>& list) {
  if (error == ENOENT || error == ENOTDIR) {
    return fail(path, "E001", "there is no such file",
                path.starts_with('/') ? "check the path that was given"
                                      : "a relative path starts at the working folder of the program",
                list);
  }
  if (error == EACCES || error == EPERM) {
    return fail(path, "E002", "the file may not be read by this user", "chmod u+r it, or name another file",
                list);
  }
  return fail(path, "E002", "the file cannot be read (errno " + std::to_string(error) + ")", "", list);
}

std::string limit_text() {
  return std::string(base::print_exact_bytes(largest_file).view());
}

// Follows the text just far enough to know what stands outside of strings and comments, and which dots
// separate keys.
class outline {
 public:
  // Before take: a character here is part of a key or a bare value.
  bool is_outside(char c) const noexcept {
    return skip_ == 0 && quotes_ == 0 && !comment_ && static_cast<unsigned char>(c) >= 0x80;
  }

  // False when the character makes a key too deep.
  bool take(std::string_view rest) noexcept {
    char const c = rest.front();
    if (skip_ != 0) {
      --skip_;
    } else if (quotes_ != 0) {
      inside_string(rest);
    } else if (comment_) {
      comment_ = c != '\n';
    } else if (c == '"' || c == '\'') {
      mark_ = c;
      quotes_ = rest.starts_with(c == '"' ? R"(""")" : "'''") ? 3 : 1;
      skip_ = quotes_ - 1;
    } else if (c == '.') {
      return ++dots_ <= deepest_nesting;
    } else {
      comment_ = c == '#';
      if (std::string_view("=[]{},\n#").find(c) != std::string_view::npos) dots_ = 0;
    }
    return true;
  }

 private:
  void inside_string(std::string_view rest) noexcept {
    char const c = rest.front();
    if (c == '\\' && mark_ == '"') {
      skip_ = 1;
    } else if (quotes_ == 1 && (c == mark_ || c == '\n')) {
      quotes_ = 0;
    } else if (quotes_ == 3 && c == mark_ && rest.starts_with(mark_ == '"' ? R"(""")" : "'''")) {
      // Up to two more quotes belong to the string.
      quotes_ = 0;
      skip_ = 2;
      for (std::size_t i = 3; i < 5 && i < rest.size() && rest[i] == mark_; ++i) ++skip_;
    }
  }

  int dots_ = 0;
  int quotes_ = 0;  // of the string we are in: 0, 1 or 3
  int skip_ = 0;
  char mark_ = 0;
  bool comment_ = false;
};

}  // namespace

namespace {

constexpr int patience_ms = 10'000;  // for the first byte of a pipe, and for each part after it

// Up to one byte more than the limit; false: errno says why, or it is 0 and nothing came.
bool read_all(int descriptor, bool pipe, std::string& text) {
  text.assign(largest_file + 1, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    pollfd wait{descriptor, POLLIN, 0};
    errno = 0;
    if (pipe && ::poll(&wait, 1, patience_ms) <= 0) {
      if (errno == EINTR) continue;
      return false;
    }
    ssize_t const got = ::read(descriptor, text.data() + size, text.size() - size);
    if (got < 0 && (errno == EINTR || (pipe && errno == EAGAIN))) continue;
    if (got < 0) return false;
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  text.resize(size);
  return true;
}

bool read_open(int descriptor, std::string const& path, bool pipes, std::string& text,
               std::vector<diagnostic>& list) {
  struct stat about {};
  if (::fstat(descriptor, &about) != 0) return fail_with_errno(path, errno, list);
  if (S_ISDIR(about.st_mode)) return fail(path, "E002", "this is a folder", "name the file in it", list);
  bool const pipe = S_ISFIFO(about.st_mode) || S_ISSOCK(about.st_mode);
  if (!S_ISREG(about.st_mode) && !(pipes && (pipe || ::isatty(descriptor) == 1)))
    return fail(path, "E002", "this is not a regular file", "copy it to a file", list);
  std::string read;
  if (!read_all(descriptor, pipe, read)) {
    if (errno != 0) return fail_with_errno(path, errno, list);
    return fail(path, "E002",
                "nothing came out of this pipe for " + std::to_string(patience_ms / 1000) + " s",
                "does anyone write to it?", list);
  }
  if (read.size() > largest_file) {
    auto const whole = static_cast<std::uint64_t>(about.st_size);
    return fail(path, "E004",
                pipe ? "more comes out of this pipe than the limit of " + limit_text()
                     : "the file holds " + std::string(base::print_bytes(whole).view()) +
                           ", more than the limit of " + limit_text(),
                "is it a configuration?", list);
  }
  text = std::move(read);
  return true;
}

bool open_and_read(std::string const& path, bool pipes, std::string& text, std::vector<diagnostic>& list) {
  if (path.empty()) {
    return fail("gpumem", "E003", "the path of the configuration is empty",
                "unset GPUMEM_CONFIG for the built-in default, or name a file", list);
  }
  // NONBLOCK: opening a FIFO must not wait for a writer.
  descriptor const file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (file.number() < 0) return fail_with_errno(path, errno, list);
  return read_open(file.number(), path, pipes, text, list);
}

}  // namespace

bool read_file(std::string const& path, std::string& text, std::vector<diagnostic>& list) {
  return open_and_read(path, false, text, list);
}

bool read_file_or_pipe(std::string const& path, std::string& text, std::vector<diagnostic>& list) {
  return path == "-" ? read_open(STDIN_FILENO, "standard input", true, text, list)
                     : open_and_read(path, true, text, list);
}

std::string_view strip_mark(std::string_view text) noexcept {
  return text.starts_with("\xEF\xBB\xBF") ? text.substr(3) : text;
}

bool check_text(std::string_view text, diagnostics& out) {
  if (text.size() > largest_file) {
    out.error("E004", {1, 1, 1}, "the text is longer than the limit of " + limit_text());
    return false;
  }
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF")) {
    out.error("E103", {1, 1, 1}, "the file is UTF-16", "save it as UTF-8");
    return false;
  }
  file_position at{1, 1, 1};
  outline shape;
  while (!text.empty()) {
    std::size_t const size = base::utf8_sequence(text);
    if (size == 0) {
      char hex[8];
      std::snprintf(hex, sizeof hex, "0x%02X",
                    static_cast<unsigned>(static_cast<unsigned char>(text.front())));
      out.error("E103", at, "byte " + std::string(hex) + " is not UTF-8", "save the file as UTF-8");
      return false;
    }
    if (text.front() == '\0') {
      out.error("E104", at, "a NUL byte", "the file is not text, or UTF-16; save it as UTF-8");
      return false;
    }
    // No TOML has it, and the parser takes it for granted that no one tries.
    if (shape.is_outside(text.front())) {
      bool const quote = text.starts_with("\u201C") || text.starts_with("\u201D") ||
                         text.starts_with("\u2018") || text.starts_with("\u2019");
      out.error("E108", at, quoted(text.substr(0, size)) + " cannot stand outside of quotes and comments",
                quote ? "write straight quotes: \"...\"" : "");
      return false;
    }
    if (!shape.take(text)) {
      out.error("E107", at, "a key of more than " + std::to_string(deepest_nesting) + " parts",
                "no key of gpumem has more than 4");
      return false;
    }
    at.column = text.front() == '\n' ? 1 : at.column + 1;
    at.line += text.front() == '\n' ? 1U : 0U;
    text.remove_prefix(size);
  }
  return true;
}

}  // namespace gpumem::config
