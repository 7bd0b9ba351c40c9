// See text_sections.hpp.
#include "core/report/output/text_sections.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "core/base/text/bytes.hpp"
#include "core/base/text/format.hpp"
#include "core/report/document.hpp"
#include "core/report/output/text_call_sites.hpp"
#include "core/report/output/text_format.hpp"

namespace gpumem::report {
namespace {

std::string trimmed(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

struct ledger_row {
  char const* sign;
  char const* label;
  char const* key;
};
constexpr ledger_row reserved_rows[] = {{" ", "requested by the program", "requested_bytes"},
                                        {"+", "rounding", "rounding_bytes"},
                                        {"+", "freed, work not known to be done", "pending_bytes"},
                                        {"+", "cached for reuse", "cached_bytes"}};

// At a peak of reserved memory before much was asked for (an initial pool) the figure means nothing.
std::string overhead_text(double share) {
  return share < 10 ? base::format("{:.1f} % overhead", 100 * share) : "overhead above 1000 %";
}

// The driver is not asked at the end: how old its last answer is, where that is more than a second.
std::string unseen_remark(document const& device, document const& end) {
  auto const asked = number(device, "in_use_at_ns"), ended = number(end, "duration_ns");
  bool const fresh = asked && ended && *ended - std::min(*ended, *asked) < 1'000'000'000;
  return !asked || fresh ? "context, others" : "as told at " + duration_text(*asked, false);
}

void add_ledger(std::string& text, document const& device, document const& end, std::size_t width) {
  document const& now = field(device, "now");
  document const& peak = field(device, "at_peak");
  std::array<document const*, 2> const columns{&now, &peak};
  std::uint64_t largest = 0;
  for (auto const* column : columns) {
    largest = std::max({largest, number_or_zero(*column, "reserved_bytes"),
                        number_or_zero(*column, "in_use_bytes"), number_or_zero(*column, "observed_bytes")});
  }
  std::array<ledger_column, 2> sums{ledger_column(largest), ledger_column(largest)};
  std::size_t const labels = width < page_width ? 33 : 36, tight = width < page_width ? 2 : 0;
  auto const line = [&](char const* sign, char const* label, std::string const& at_exit,
                        std::string const& at_peak, std::string const& remark) {
    std::string const figures = base::format("  {} {:<{}}{}{}", sign, label, labels,
                                             right(at_exit, 15 - tight), right(at_peak, 16 - tight));
    bool const fits = figures.size() + 3 + remark.size() <= width;
    text += trimmed(figures + (fits ? "   " + remark : "\n" + std::string(6, ' ') + remark));
  };
  auto const row = [&](ledger_row const& what, std::string const& remark) {
    std::array<std::string, 2> values;
    for (std::size_t i = 0; i < 2; ++i) {
      auto const value = number(*columns[i], what.key);
      bool const less = *what.sign == '-';
      values[i] = !value ? "-" : less ? sums[i].less(*value) : sums[i].row(*value);
    }
    line(what.sign, what.label, values[0], values[1], remark);
  };
  auto const sum = [&](char const* label, char const* key, std::string const& remark) {
    line("=", label, number(now, key) ? sums[0].sum() : "-", number(peak, key) ? sums[1].sum() : "-", remark);
  };

  for (auto const& what : reserved_rows) {
    std::string remark;
    std::uint64_t const rounding = number_or_zero(peak, "rounding_bytes");
    if (std::string_view(what.key) == "rounding_bytes" && rounding != 0) {
      remark = percent_text(rounding, number_or_zero(peak, "requested_bytes") + rounding) + " of handed out";
    }
    row(what, remark);
  }
  document const& overhead = field(device, "overhead");
  sum("reserved from the driver", "reserved_bytes",
      overhead.is_number() ? overhead_text(overhead.get<double>()) : "");
  // The peak's moment is chosen by routed memory: what was only seen may have been highest at another one.
  std::uint64_t const seen = number_or_zero(device, "highest_observed_bytes");
  if (seen != 0 || number_or_zero(now, "observed_bytes") != 0 ||
      number_or_zero(peak, "observed_bytes") != 0) {
    row({"+", "seen, not routed", "observed_bytes"}, seen != 0 ? "highest " + bytes_text(seen) : "");
  }
  if (!number(now, "in_use_bytes") && !number(peak, "in_use_bytes")) return;
  if (number_or_zero(now, "elsewhere_bytes") != 0 || number_or_zero(peak, "elsewhere_bytes") != 0)
    row({"-", "managed, on the host", "elsewhere_bytes"}, "");
  row({"+", "not seen by gpumem", "unseen_bytes"}, unseen_remark(device, end));
  auto const free = number(now, "free_bytes");
  sum("in use on the device", "in_use_bytes", free ? bytes_text(*free) + " free" : "");
}

void add_attempts(std::string& text, document const& device, std::size_t width) {
  constexpr std::pair<char const*, char const*> rungs[] = {
      {"rung_cached", "cached"},         {"rung_same_stream", "same stream"}, {"rung_carved", "carved"},
      {"rung_reaped", "reaped"},         {"rung_device_wait", "device wait"}, {"rung_waited", "waited"},
      {"rung_grown", "grown"},           {"rung_drained", "drained"},         {"rung_trimmed", "trimmed"},
      {"out_of_memory", "out of memory"}};
  document const& counters = field(device, "counters");
  std::uint64_t all = 0;
  for (auto const& [key, label] : rungs) all += number_or_zero(counters, key);
  if (all == 0) return;
  std::string line = "  attempts  ";
  for (auto const& [key, label] : rungs) {
    std::uint64_t const count = number_or_zero(counters, key);
    if (count == 0) continue;
    std::string const item = base::format("{} {} ({})", label, count_text(count), percent_text(count, all));
    if (line.size() + 2 + item.size() > width) {
      text += trimmed(line);
      line = "            ";
    }
    line += item + "  ";
  }
  text += trimmed(line);
  // Beside the others: the later chain has counted its own rung.
  std::uint64_t const spilled = number_or_zero(counters, "rung_fallback");
  if (spilled != 0) text += "  fallback  " + count_text(spilled) + " served by a later chain\n";
}

std::uint64_t value_at(document const& list, std::size_t index) {
  if (!list.is_array() || index >= list.size() || !list[index].is_number_unsigned()) return 0;
  return list[index].get<std::uint64_t>();
}

// Highest value in each column; a column without a sample keeps the level at which the one before it ended.
std::vector<std::uint64_t> columns_of(document const& line, char const* high, char const* last,
                                      std::uint64_t end_ns, std::size_t width) {
  std::vector<std::uint64_t> columns(width, 0);
  document const& times = field(line, "t_ns");
  std::uint64_t level = 0;
  std::size_t sample = 0;
  for (std::size_t c = 0; c < width; ++c) {
    std::uint64_t const column_end = static_cast<std::uint64_t>(
        static_cast<double>(end_ns) * static_cast<double>(c + 1) / static_cast<double>(width));
    columns[c] = level;
    while (sample < times.size() && (value_at(times, sample) < column_end || c + 1 == width)) {
      columns[c] = std::max(columns[c], value_at(field(line, high), sample));
      level = value_at(field(line, last), sample);
      ++sample;
    }
  }
  return columns;
}

std::string curve(std::vector<std::uint64_t> const& columns, std::uint64_t top, bool utf8) {
  constexpr std::string_view ascii[] = {"_", ".", ":", "-", "=", "+", "*", "#", "%"};
  constexpr std::string_view blocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::string line;
  for (std::uint64_t value : columns) {
    std::size_t level = 0;
    if (value != 0 && top != 0) {
      double const share = static_cast<double>(std::min(value, top)) / static_cast<double>(top);
      level = std::clamp<std::size_t>(static_cast<std::size_t>(share * 8 + 0.5), 1, 8);
    }
    line += utf8 ? blocks[level] : ascii[level];
  }
  return line;
}

// What a part may be follows from when it came; see coverage.hpp.
void add_unseen(std::string& text, document const& device) {
  auto const at_start = number(device, "unseen_at_start_bytes");
  auto const since = number(device, "unseen_since_bytes");
  if (!at_start || !since) return;
  std::string const name = base::format("device {}: ", number_or_zero(device, "device"));
  std::uint64_t const now = number_or_zero(field(device, "now"), "unseen_bytes");
  text += base::format("            {}{} from before the first allocation: context, other processes\n", name,
                       bytes_text(now - *since));
  if (*since == 0) return;
  text += base::format("            {}{} since then: code of kernels, the driver's rounding, other\n",
                       std::string(name.size(), ' '), bytes_text(*since));
  text += base::format("            {}processes, or a library that takes memory past the hooks\n",
                       std::string(name.size(), ' '));
}

std::string coverage_text(document const& hook) {
  std::string const route = words(hook, "route");
  std::uint64_t const calls = number_or_zero(hook, "calls");
  std::uint64_t const served = number_or_zero(hook, "served");
  if (route == "observed") return "seen only";
  if (served >= calls) return route;
  if (served == 0) return route + ": passthrough";
  return percent_text(served, calls) + " routed";
}

// A sentence with its label, in lines of the page's width that break at spaces.
void add_wrapped(std::string& text, std::string_view label, std::string_view sentence, std::size_t page) {
  std::size_t const width = page - 12 - label.size();
  for (bool first = true; !sentence.empty(); first = false) {
    std::size_t end = std::min(width, sentence.size());
    if (end < sentence.size()) {
      std::size_t const space = sentence.rfind(' ', end);
      if (space != sentence.npos && space != 0) end = space;
    }
    text += trimmed("            " + (first ? std::string(label) : std::string(label.size(), ' ')) +
                    std::string(sentence.substr(0, end)));
    sentence.remove_prefix(end);
    while (!sentence.empty() && sentence.front() == ' ') sentence.remove_prefix(1);
  }
}

// "libc10_cuda.so 61.20 GiB (91.3 %), train 5.80 GiB (8.7 %)"; empty: nothing is held, or nobody noted it.
std::string holders_text(document const& failure) {
  document const& holders = field(failure, "libraries");
  std::uint64_t const all = number_or_zero(failure, "held_bytes");
  std::string line;
  if (!holders.is_array() || all == 0) return line;
  for (auto const& holder : holders) {
    std::uint64_t const bytes = number_or_zero(holder, "held_bytes");
    line += base::format("{}{} {} ({})", line.empty() ? "" : ", ", library_name(holder), bytes_text(bytes),
                         percent_text(std::min(bytes, all), all));
  }
  return line;
}

// "3 x 2 GiB, 12 x 64 MiB, 1,204 below 1 MiB": so many of at least that size and less than twice as much.
std::string free_blocks_text(document const& failure) {
  document const& free = field(failure, "free_blocks");
  document const& sizes = field(free, "sizes");
  constexpr std::size_t shown = 5;
  std::string line;
  std::uint64_t smaller = 0, below = 0;
  for (std::size_t i = 0; sizes.is_array() && i < sizes.size(); ++i) {
    document const& size = sizes[sizes.size() - 1 - i];
    std::uint64_t const blocks = number_or_zero(size, "blocks"), from = number_or_zero(size, "from_bytes");
    if (i >= shown || from < 8 * base::kib) {
      smaller += blocks;
      below = std::max(below, from < 8 * base::kib ? 8 * base::kib : 2 * from);
      continue;
    }
    line += base::format("{}{} x {}", line.empty() ? "" : ", ", count_text(blocks),
                         std::string(base::print_exact_bytes(from).view()));
  }
  if (smaller != 0) {
    line += base::format("{}{} below {}", line.empty() ? "" : ", ", count_text(smaller),
                         std::string(base::print_exact_bytes(below).view()));
  }
  if (!line.empty() && field(free, "all_counted") == false) line += ", and more";
  return line;
}

}  // namespace

void add_devices(std::string& text, document const& from, text_options const& options) {
  document const& devices = field(from, "devices");
  if (!devices.is_array()) return;
  for (auto const& device : devices) {
    std::string title = base::format("DEVICE {}", number_or_zero(device, "device"));
    for (std::string const& part :
         {words(device, "name"), bytes_text(number_or_zero(device, "total_bytes"))}) {
      if (!part.empty() && part != "0 B") title += "  " + part;
    }
    auto const peak = number(device, "peak_at_ns");
    text += trimmed(base::format(
        "\n{}{}{}", left(title, options.width < page_width ? 39 : 44), right(when_written(from), 11),
        right(peak ? "at peak " + duration_text(*peak) : "", options.width < page_width ? 20 : 22)));
    add_ledger(text, device, field(from, "end"), options.width);
    add_attempts(text, device, options.width);
    std::uint64_t const cross = number_or_zero(field(device, "counters"), "cross_stream_frees");
    if (cross != 0) text += "  streams   " + count_text(cross) + " cross-stream frees\n";
    std::uint64_t const lost = number_or_zero(field(device, "counters"), "lost_blocks");
    if (lost != 0) {
      text += base::format("  contexts  {} block{}, {}, ended with their context, not freed before\n",
                           count_text(lost), lost == 1 ? "" : "s",
                           bytes_text(number_or_zero(field(device, "counters"), "lost_requested_bytes")));
    }
  }
}

void add_timeline(std::string& text, document const& from, text_options const& options) {
  document const& lines = field(from, "timeline");
  if (!lines.is_array()) return;
  constexpr std::size_t width = 64;
  constexpr std::uint64_t shortest_timeline =
      500'000'000;  // ns: a curve of less tells no phases of a program
  for (auto const& line : lines) {
    document const& times = field(line, "t_ns");
    if (!times.is_array() || times.size() < 2) continue;
    std::uint64_t const end =
        std::max(number_or_zero(field(from, "end"), "duration_ns"), value_at(times, times.size() - 1) + 1);
    if (end < shortest_timeline) continue;
    auto const reserved = columns_of(line, "reserved_bytes", "reserved_last_bytes", end, width);
    auto const requested = columns_of(line, "requested_bytes", "requested_last_bytes", end, width);
    std::uint64_t const top = std::max(*std::max_element(reserved.begin(), reserved.end()),
                                       *std::max_element(requested.begin(), requested.end()));
    if (top == 0) continue;
    text += base::format("\nTIMELINE device {}  0:00 to {}, one column = {:.3g} s, top = {}\n",
                         number_or_zero(line, "device"), duration_text(end, false),
                         static_cast<double>(end) / 1e9 / static_cast<double>(width), bytes_text(top));
    text += trimmed("  reserved   " + curve(reserved, top, options.utf8));
    text += trimmed("  requested  " + curve(requested, top, options.utf8));
  }
}

void add_calls(std::string& text, document const& from, text_options const& options) {
  document const& hooks = field(field(from, "intercept"), "hooks");
  auto const shown = [](document const& hook) { return words(hook, "kind") != "other"; };
  if (!hooks.is_array() || std::none_of(hooks.begin(), hooks.end(), shown)) {
    text += "\nno memory calls were seen\n";
    return;
  }
  bool const wide = options.width >= page_width;  // else the driver's name alone
  text += base::format("\n{}{}{}{}   route\n", left("CALLS", wide ? 40 : 23), right("calls", 13),
                       right("bytes", 12), right("failed", 8));
  std::uint64_t calls = 0, routed = 0, only_seen = 0, only_seen_bytes = 0;
  for (auto const& hook : hooks) {
    std::uint64_t const here = number_or_zero(hook, "calls"), served = number_or_zero(hook, "served");
    std::uint64_t const bytes = number_or_zero(hook, "requested_bytes"),
                        failed = number_or_zero(hook, "failed");
    if (!shown(hook)) continue;
    text += trimmed(base::format("  {} {}{}{}{}   {}", left(words(hook, "symbol"), 20),
                                 wide ? left(words(hook, "runtime"), 17) : "", right(count_text(here), 13),
                                 right(bytes == 0 ? "-" : bytes_text(bytes), 12),
                                 right(count_text(failed), 8), coverage_text(hook)));
    if (words(hook, "kind") == "free") continue;
    calls += here;
    routed += std::min(served, here);
    if (served == 0) only_seen += here, only_seen_bytes += bytes;
  }
  if (calls == 0) return;
  std::string line = base::format("  coverage  {} of {} allocations routed ({})", count_text(routed),
                                  count_text(calls), percent_text(routed, calls));
  std::string const rest =
      only_seen == 0 ? ""
                     : base::format("{} seen only ({})", count_text(only_seen), bytes_text(only_seen_bytes));
  if (!rest.empty())
    line += (line.size() + 2 + rest.size() <= options.width ? ", " : ",\n            ") + rest;
  std::uint64_t unseen = 0;
  for (auto const& device : field(from, "devices"))
    unseen += number_or_zero(field(device, "now"), "unseen_bytes");
  text += line + "\n";
  if (unseen == 0) return;
  text += base::format("  not seen  {} of device memory in use\n", bytes_text(unseen));
  for (auto const& device : field(from, "devices")) add_unseen(text, device);
}

void add_chains(std::string& text, document const& from, text_options const& options) {
  document const& chains = field(from, "chains");
  if (!chains.is_array()) return;
  bool const wide = options.width >= page_width;
  std::size_t const names = wide ? 32 : 20, counts = wide ? 13 : 12, shares = wide ? 10 : 9;
  for (auto const& chain : chains) {
    document const& nodes = field(chain, "nodes");
    if (!nodes.is_array() || nodes.empty()) continue;
    bool const rules = words(chain, "route") == "rules";
    std::string title = rules ? "RULES device" : "CHAIN " + words(chain, "route");
    if (words(chain, "route") != "host") title += base::format(" {}", number_or_zero(chain, "device"));
    text += base::format("\n{}{}{}{}{}{}{}\n", left(title, names), right("requests", counts),
                         right("hits", shares), right("upstream", shares), right("failed", wide ? 8 : 7),
                         right("handed out", 12), right("now", 11));
    for (auto const& node : nodes) {
      std::string const indent(2 + 2 * std::min<std::uint64_t>(number_or_zero(node, "depth"), 8), ' ');
      std::string const name = words(node, "name"), type = rules ? name : words(node, "type");
      std::uint64_t const requests = number_or_zero(node, "requests"), hits = number_or_zero(node, "hits");
      text += trimmed(left(indent + name + (type == name ? "" : " (" + type + ")"), names) +
                      right(count_text(requests), counts) +
                      right(hits == 0 ? "-" : percent_text(hits, requests), shares) +
                      right(count_text(number_or_zero(node, "upstream")), shares) +
                      right(count_text(number_or_zero(node, "failed")), wide ? 8 : 7) +
                      right(bytes_text(number_or_zero(node, "handed_out_bytes")), 12) +
                      right(rules ? "-" : bytes_text(number_or_zero(node, "now_bytes")), 11));
      std::string const set = words(node, "options");
      if (!set.empty()) {
        std::string const line = indent + "  " + set;
        text += line.size() > options.width ? left(line, options.width) + "\n" : line + "\n";
      }
      std::uint64_t const aged = number_or_zero(node, "aged_bytes"),
                          unearned = number_or_zero(node, "unearned_bytes");
      if (aged + unearned != 0) {
        text += indent + "  went back " + bytes_text(aged) + " for its age, " + bytes_text(unearned) +
                " as its size had not come back\n";
      }
      if (number_or_zero(node, "highest_bytes") != 0) {
        text += indent + "  spilled " + count_text(hits) + (hits == 1 ? " request, " : " requests, ") +
                bytes_text(number_or_zero(node, "handed_out_bytes")) + "; now " +
                bytes_text(number_or_zero(node, "now_bytes")) + ", at most " +
                bytes_text(number_or_zero(node, "highest_bytes")) + "\n";
      }
      add_node_figures(text, from, node, indent, options);
    }
  }
}

void add_sizes(std::string& text, document const& from, text_options const& options) {
  document const& sizes = field(from, "sizes");
  if (!sizes.is_array() || sizes.empty()) return;
  constexpr std::uint64_t limits[] = {base::kib,      16 * base::kib, 256 * base::kib,  4 * base::mib,
                                      64 * base::mib, base::gib,      ~std::uint64_t{0}};
  std::array<std::uint64_t, std::size(limits)> counts{};
  std::uint64_t all = 0;
  for (auto const& size : sizes) {
    std::uint64_t const limit = number(size, "up_to_bytes").value_or(~std::uint64_t{0});
    auto const group = std::lower_bound(std::begin(limits), std::end(limits), limit) - std::begin(limits);
    counts[static_cast<std::size_t>(group)] += number_or_zero(size, "requests");
    all += number_or_zero(size, "requests");
  }
  std::uint64_t const most = *std::max_element(counts.begin(), counts.end());
  if (most == 0) return;
  double const longest = options.width < page_width ? 38 : 40;
  text += "\nSIZES requested\n";
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    bool const open_ended = i + 1 == counts.size();
    std::string const limit(base::print_exact_bytes(open_ended ? base::gib : limits[i]).view());
    auto const bar =
        static_cast<std::size_t>(static_cast<double>(counts[i]) / static_cast<double>(most) * longest + 0.5);
    text += base::format("  {} {}{}{}  {}\n", open_ended ? "> " : "<=", right(limit, 8),
                         right(count_text(counts[i]), 16), right(percent_text(counts[i], all), 10),
                         std::string(std::max<std::size_t>(bar, 1), '#'));
  }
}

void add_failures(std::string& text, document const& from, text_options const& options) {
  document const& failures = field(from, "failures");
  if (!failures.is_array() || failures.empty()) return;
  constexpr std::size_t shown = 3;
  std::uint64_t const all = failures.size() + number_or_zero(field(from, "truncated"), "failures");
  text += base::format("\nFAILURES {}", count_text(all));
  if (all > shown) text += base::format(", the first {} shown", std::min(failures.size(), shown));
  text += '\n';
  for (std::size_t i = 0; i < std::min(failures.size(), shown); ++i) {
    document const& failure = failures[i];
    std::uint64_t const code = number_or_zero(failure, "error");
    auto const stream = number(failure, "stream");
    text += base::format("  {}  {}  {}  -> {}\n", duration_text(number_or_zero(failure, "t_ns")),
                         words(failure, "api"), bytes_text(number_or_zero(failure, "requested_bytes")),
                         code == 2 ? "OUT_OF_MEMORY (2)" : base::format("error {}", code));
    text += base::format("            device {}, {}thread {}\n", number_or_zero(failure, "device"),
                         stream ? base::format("stream {:#x}, ", *stream) : "",
                         number_or_zero(failure, "thread"));
    add_wrapped(text, "refused by  ", words(failure, "reason"), options.width);
    text += base::format("            handed out {}, cached {}, largest free block {}\n",
                         bytes_text(number_or_zero(failure, "handed_out_bytes")),
                         bytes_text(number_or_zero(failure, "cached_bytes")),
                         bytes_text(number_or_zero(failure, "largest_free_bytes")));
    add_wrapped(text, "free blocks ", free_blocks_text(failure), options.width);
    add_wrapped(text, "asked at    ", failure_place_text(from, failure), options.width);
    add_wrapped(text, "phase       ", words(failure, "phase"), options.width);
    add_wrapped(text, "held by     ", holders_text(failure), options.width);
    add_wrapped(text, "held at     ", failure_sites_text(from, failure), options.width);
    add_wrapped(text, "held for    ", failure_categories_text(failure), options.width);
    add_wrapped(text, "try         ", words(failure, "remedy"), options.width);
  }
}

}  // namespace gpumem::report
