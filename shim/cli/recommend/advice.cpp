// See advice.hpp. The bounds are round figures: what they decide is what to try first, not what is right.
#include "shim/cli/recommend/advice.hpp"

#include <algorithm>
#include <array>

#include "core/base/text/bytes.hpp"
#include "core/base/text/format.hpp"
#include "core/base/text/printable.hpp"
#include "core/base/text/shell_word.hpp"
#include "core/report/known_caches.hpp"
#include "core/report/output/text_format.hpp"
#include "shim/cli/wrapped.hpp"

namespace gpumem::cli {
namespace {

constexpr std::uint64_t few_requests = 1000;
constexpr std::uint64_t little_memory = 256u << 20;

using report::bytes_text;
using report::count_text;
using report::percent_text;

// Whether `part` is `percent` of `whole` or more, without an overflow.
bool is_share(std::uint64_t part, std::uint64_t whole, std::uint64_t percent) {
  return whole != 0 &&
         static_cast<double>(part) * 100 >= static_cast<double>(whole) * static_cast<double>(percent);
}

// Reserved beyond the most that was requested at once: what no chain could have done without is no fault.
std::uint64_t never_needed(device_use const& device) {
  std::uint64_t const reserved = device.reserved.value_or(0);
  return reserved - std::min(reserved, device.requested);
}

std::string never_needed_text(device_use const& device) {
  return base::format("{} of the {} that were reserved were never requested at once ({})",
                      bytes_text(never_needed(device)), bytes_text(*device.reserved),
                      percent_text(never_needed(device), *device.reserved));
}

// A quarter, of what was reserved and that of the device: else nobody is short of it.
bool keeps_much(device_use const& device) {
  return device.reserved && never_needed(device) >= little_memory &&
         is_share(never_needed(device), *device.reserved, 25) &&
         (!device.total || is_share(*device.reserved, *device.total, 25));
}

std::uint64_t attempts_of(device_use const& device) {
  std::uint64_t all = 0;
  for (auto const& some : {device.at_once, device.waited, device.grown}) add_to(all, some.value_or(0));
  return all;
}

answer refused(program_use const& program, device_use const& device, answer result) {
  refusal const one = device.refused.value_or(refusal{});
  result.yes = true;
  result.example = "rmm/failure_callback.toml";
  result.reason =
      "what fits stays on the device, what goes beyond is managed memory, whose pages move: slow, but the "
      "program "
      "finishes";
  result.facts =
      base::format("{} request{} refused", count_text(device.refusals), device.refusals == 1 ? "" : "s");
  if (!device.refused) return result;
  result.facts += base::format(", the largest of {} while {} were held", bytes_text(one.asked),
                               bytes_text(one.handed_out));
  if (device.total) result.facts += base::format(" of {}", bytes_text(*device.total));
  std::uint64_t needed = one.asked;
  add_to(needed, one.handed_out);
  if (one.by == "limit" || one.by == "maximum") {
    result.facts += ", by a limit of the configuration";
    result.example = "spill.toml";
    result.reason = "raise the limit, or let what goes beyond it be managed memory";
  } else if (device.total && one.asked > *device.total) {
    result.example = "rmm/managed_prefetch.toml";
    result.reason =
        "only managed memory makes a block larger than the device; is the size what the program meant?";
  } else if (one.asked != 0 && one.cached >= one.asked && one.largest_free < one.asked) {
    result.facts += base::format(", though {} were idle, the largest piece {}", bytes_text(one.cached),
                                 bytes_text(one.largest_free));
    result.example = program.exports ? "compact.toml" : "compact_vmm.toml";
    result.reason = program.exports ? "idle segments go back before more is taken"
                                    : "idle pages between blocks go back, and serve in other places";
  } else if (device.total && needed / 2 > *device.total) {
    result.example = "rmm/managed_pool.toml";
    result.reason =
        "most of it does not fit: a pool of managed memory, brought to the device when it is handed out";
  }
  return result;
}

answer larger_than_memory(program_use const& program, device_use const& device) {
  answer result;
  result.question = "larger than memory?";
  if (device.refusals != 0) return refused(program, device, std::move(result));
  result.facts = base::format("{} were held at most", bytes_text(device.highest));
  if (device.total)
    result.facts +=
        base::format(", {} of {}", percent_text(device.highest, *device.total), bytes_text(*device.total));
  result.facts += "; nothing was refused";
  return result;
}

answer idle_memory(program_use const& program, device_use const& device) {
  answer result;
  result.question = "much of it idle?";
  if (!device.reserved || *device.reserved == 0) {
    result.facts = "no chain took memory";
    return result;
  }
  result.facts = never_needed_text(device);
  result.yes = keeps_much(device);
  if (!result.yes) return result;
  result.example = program.exports ? "compact.toml" : "compact_vmm.toml";
  result.reason =
      std::string("more is taken only when what is idle cannot serve; a request may wait for the GPU") +
      (program.exports ? "" : ". compact.toml does so where memory is exported by legacy IPC");
  return result;
}

answer small_blocks(program_use const& program, device_use const& device) {
  answer result;
  result.question = "many small blocks?";
  if (program.sized < few_requests) {
    result.facts = base::format("{} requests are too few to tell", count_text(program.sized));
    return result;
  }
  result.facts = base::format("{} of {} requests are of 256 KiB or less, with {} of the bytes",
                              percent_text(program.small, program.sized), count_text(program.sized),
                              percent_text(program.small_bytes, program.bytes));
  if (!is_share(program.small, program.sized, 50)) return result;
  result.yes = keeps_much(device) && program.small != program.sized;
  if (!result.yes) {
    result.facts += program.small == program.sized ? "; there are no large ones that they could break up"
                                                   : "; little memory is idle beside them";
    return result;
  }
  result.facts += "; " + never_needed_text(device);
  result.example = "small_blocks.toml";
  result.reason = "small blocks in segments of their own keep those of large ones whole";
  return result;
}

answer many_streams(device_use const& device) {
  answer result;
  result.question = "many streams?";
  std::uint64_t const attempts = attempts_of(device);
  if (device.streams) {
    result.facts =
        base::format("{} stream{} and {} thread{} ask for a fifth of an equal share of the requests or more",
                     count_text(*device.streams), *device.streams == 1 ? "" : "s",
                     count_text(*device.threads), *device.threads == 1 ? "" : "s");
    result.yes = device.requests >= few_requests && std::max(*device.streams, *device.threads) >= 4;
  } else if (attempts != 0 && device.waited) {
    result.facts = base::format(
        "{} of {} requests waited for work of the GPU, {} frees were on another stream",
        percent_text(*device.waited, attempts), count_text(attempts), count_text(device.other_stream_frees));
    result.yes = attempts >= few_requests && is_share(*device.waited, attempts, 1);
  } else {
    result.facts = "no chain served";
  }
  if (!result.yes) return result;
  result.example = "arena.toml";
  result.reason = "each stream, and each thread, has memory of its own, and waits for no other";
  return result;
}

struct known_library {
  std::string_view part, name, example, reason;
};
constexpr std::array<known_library, 3> known_libraries{
    {{"libnccl", "NCCL", "nccl_native.toml", "it keeps its buffers for long, and exports them by their base"},
     {"libcudnn", "cuDNN", "cudnn_arena.toml",
      "its workspaces of all sizes stay out of the pool of the others"},
     {"libcublas", "cuBLAS", "cudnn_arena.toml",
      "its workspaces of all sizes stay out of the pool of the others"}}};

// A cache among them comes first: what it keeps is lost to all others.
void name_what_helps(std::vector<holder> const& large, answer& result) {
  auto const has = [&large](std::string_view part) {
    return std::any_of(large.begin(), large.end(),
                       [part](holder const& one) { return one.path.find(part) != std::string::npos; });
  };
  auto const cache = std::find_if(report::known_caches.begin(), report::known_caches.end(),
                                  [&has](auto const& known) { return has(known.part); });
  if (cache != report::known_caches.end()) {
    result.yes = true;
    result.facts += base::format("; {} is one of them", cache->name);
    result.instead = cache->without;
    result.reason = "what that keeps idle serves no other; without it the chain serves all of them";
    return;
  }
  auto const known = std::find_if(known_libraries.begin(), known_libraries.end(),
                                  [&has](known_library const& one) { return has(one.part); });
  if (known == known_libraries.end()) {
    result.facts += "; one chain serves them all: what one frees the next may have";
    return;
  }
  result.yes = true;
  result.facts += base::format("; {} is one of them", known->name);
  result.example = known->example;
  result.reason = known->reason;
}

std::string file_of(holder const& one) {
  return one.path.empty() ? "unknown" : base::printable(one.path.substr(one.path.rfind('/') + 1));
}

answer several_libraries(device_use const& device) {
  answer result;
  result.question = "several libraries?";
  std::uint64_t together = 0;
  for (holder const& one : device.holders) add_to(together, one.bytes);
  std::vector<holder> large;
  for (holder const& one : device.holders) {
    if (is_share(one.bytes, together, 5)) large.push_back(one);
  }
  if (large.empty()) {
    result.facts = "nobody is known to hold memory";
    return result;
  }
  for (holder const& one : large)
    result.facts += base::format("{}{} {}", result.facts.empty() ? "" : ", ", file_of(one),
                                 percent_text(one.bytes, together));
  result.facts += base::format(" of {}", bytes_text(together));
  if (large.size() < 2) return result;
  name_what_helps(large, result);
  return result;
}

answer slow_growth(device_use const& device) {
  answer result;
  result.question = "grown again and again?";
  if (!device.grown) {
    result.facts = "no chain served";
    return result;
  }
  result.facts = base::format("{} times memory was taken from the driver, for {} requests",
                              count_text(*device.grown), count_text(device.requests));
  if (*device.grown < 100 || !is_share(*device.grown, device.requests, 1)) return result;
  result.yes = true;
  result.example = "default.toml";
  result.instead = base::format("a copy of default.toml with initial_pool_size = \"{} MiB\"",
                                device.highest / base::mib + 1);
  result.reason = "taken once, and kept";
  return result;
}

// To be typed as it is: no word of it needs quotes.
std::string command_text(std::vector<std::string> const& command) {
  bool const plain = !command.empty() && std::ranges::all_of(command, base::needs_no_quotes);
  if (!plain) return "PROGRAM";
  std::string text;
  for (std::string const& word : command) text += (text.empty() ? "" : " ") + word;
  return text;
}

std::string try_text(answer const& one, std::string const& examples) {
  return one.instead.empty() ? examples + one.example : one.instead;
}

std::string shown(answer const& one, std::string const& examples) {
  std::string const indent(30, ' ');
  std::string text =
      base::format("  {:<24}{:<4}{}", one.question, one.yes ? "yes" : "no", wrapped(one.facts, indent));
  if (one.yes) text += "\n" + indent + wrapped("try " + try_text(one, examples) + ": " + one.reason, indent);
  return text + "\n";
}

}  // namespace

std::vector<answer> answers_of(program_use const& program, device_use const& device) {
  std::vector<answer> all{
      larger_than_memory(program, device), small_blocks(program, device), idle_memory(program, device),
      several_libraries(device),           many_streams(device),          slow_growth(device)};
  for (answer& one : all) one.facts += program.is_partial ? ", in the part that is recorded" : "";
  return all;
}

std::string recommendation(program_use const& program, std::string const& examples) {
  if (program.devices.empty()) return "no device was used: there is nothing to recommend\n";
  std::string text;
  answer first;
  for (device_use const& device : program.devices) {
    text += base::format("{}device {}", text.empty() ? "" : "\n", device.number);
    if (!device.name.empty()) text += ": " + base::printable(device.name);
    if (device.total) text += ", " + bytes_text(*device.total);
    text += "\n";
    for (answer const& one : answers_of(program, device)) {
      text += shown(one, examples);
      if (!first.yes && one.yes) first = one;
    }
  }
  if (program.exports)
    text +=
        "\nblocks were exported by legacy IPC: their memory has to come from \"cuda\", not from \"vmm\",\n"
        "\"cuda_async\" or \"managed\"\n";
  if (!first.yes)
    return text + "\nthe default chain fits" + (program.is_partial ? " what is recorded" : "") + ": " +
           examples + "default.toml writes it out\n";
  if (!first.instead.empty() && !first.instead.starts_with("gpumem"))
    return text + "\nfirst: " + first.instead + "\n";
  return text +
         "\nfirst: " + (first.instead.empty() ? "gpumem run -c " + examples + first.example : first.instead) +
         " -- " + command_text(program.command) + "\n";
}

}  // namespace gpumem::cli
