// Says what the driver answers to a program of chance: transcript SEED STEPS [FROM-TO,...]. With ranges only
// those steps are made, each as in the whole program, which is how a difference is made small.
// TRANSCRIPT_TAME=1: nothing that a real driver need not survive. TRANSCRIPT_WITHOUT=name,...: such steps are
// left out, as session.cpp names them. TRANSCRIPT_CHECK=1: says BOOKS where the program takes for alive what
// the driver does not. Two threads take turns; the program ends by itself after a minute.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include "tests/integration/random/transcript/session.hpp"
#include "tests/integration/random/transcript/turns.hpp"

namespace {

using steps = std::vector<std::pair<unsigned, unsigned>>;

steps parse(char const* text) {
  steps found;
  while (*text != '\0') {
    char* end = nullptr;
    auto const from = static_cast<unsigned>(std::strtoul(text, &end, 10));
    auto to = from;
    if (*end == '-') to = static_cast<unsigned>(std::strtoul(end + 1, &end, 10));
    found.emplace_back(from, to);
    text = *end == ',' ? end + 1 : end;
  }
  return found;
}

std::set<std::string> words(char const* text) {
  std::set<std::string> found;
  std::istringstream all(text == nullptr ? "" : text);
  for (std::string word; std::getline(all, word, ',');) found.insert(word);
  return found;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  alarm(60);
  auto const seed = static_cast<unsigned>(std::strtoul(argv[1], nullptr, 10));
  auto const count = static_cast<unsigned>(std::strtoul(argv[2], nullptr, 10));
  steps const wanted = argc > 3 ? parse(argv[3]) : steps{{0, count - 1}};
  transcript::session one(seed, {.tame = std::getenv("TRANSCRIPT_TAME") != nullptr,
                                 .checks = std::getenv("TRANSCRIPT_CHECK") != nullptr,
                                 .without = words(std::getenv("TRANSCRIPT_WITHOUT"))});
  transcript::turns second;
  auto const renew = [&] {
    second.run([&] { one.before_end_of_thread(1); });
    second.renew();
    one.thread_ended(1);
  };
  for (auto const& [from, to] : wanted) {
    for (unsigned i = from; i <= to && i < count; ++i) {
      unsigned const pick = (seed * 31 + i * 2654435761u) >> 16;
      if (pick % 97 == 0) renew();
      bool const other = pick % 4 == 0;
      auto const act = [&] { one.step(i, other ? 1 : 0); };
      other ? second.run(act) : act();
    }
  }
  renew();
  one.finish();
  std::printf("%u steps\n", count);
  return 0;
}
