// The man pages; see documents.hpp. Sections as man-pages(7) orders them.
#include <CLI/CLI.hpp>
#include <string_view>

#include "shim/cli/command_line/documents.hpp"

namespace gpumem::cli {
namespace {

struct variable {
  char const *name, *values, *text;
};
constexpr variable variables[] = {
#define GPUMEM_VARIABLE(name, values, text) {name, values, text},
#include "config/schema/schema.def"
#undef GPUMEM_VARIABLE
};

// A line of roff text: nothing in it is a command.
std::string plain(std::string_view text) {
  std::string result;
  for (char const c : text) {
    if ((c == '.' || c == '\'') && (result.empty() || result.back() == '\n')) result += "\\&";
    if (c == '\\') {
      result += "\\e";
    } else if (c == '-') {
      result += "\\-";
    } else {
      result += c;
    }
  }
  return result;
}

std::string as_it_is(std::string const& text) {
  return ".nf\n" + plain(text) + "\n.fi\n";
}

std::string option_text(CLI::Option const& option) {
  std::string names;
  for (auto const& name : option.get_snames()) names += (names.empty() ? "-" : ", -") + name;
  for (auto const& name : option.get_lnames()) names += (names.empty() ? "--" : ", --") + name;
  std::string const value = option.get_items_expected_max() > 0 ? option.get_type_name() : "";
  if (names.empty()) return ".TP\n.I " + plain(value) + "\n" + plain(option.get_description()) + "\n";
  return ".TP\n.B " + plain(names) + (value.empty() ? "" : " " + plain(value)) + "\n" +
         plain(option.get_description()) + "\n";
}

std::string options_of(CLI::App const& app) {
  std::string text = ".SH OPTIONS\n";
  for (CLI::Option const* option : app.get_options()) text += option_text(*option);
  return text;
}

std::string one_line(std::string text) {
  for (char& c : text) c = c == '\n' ? ' ' : c;
  return text;
}

std::string head(std::string const& name, std::string const& does) {
  std::string upper = name;
  for (char& c : upper) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return ".TH " + plain(upper) + " 1 \"\" \"gpumem " GPUMEM_VERSION "\" \"User Commands\"\n.SH NAME\n" +
         plain(name) + " \\- " + plain(one_line(does)) + "\n";
}

std::string synopsis(CLI::App const& verb) {
  std::string text = ".SH SYNOPSIS\n.B gpumem " + verb.get_name() + "\n[OPTIONS]";
  for (CLI::Option const* option : verb.get_options()) {
    if (option->get_positional()) text += " [" + plain(option->get_type_name()) + "]";
  }
  return text + (verb.get_name() == "check" ? " [\\-\\- PROGRAM]\n" : "\n");
}

}  // namespace

std::string man_page(command_line const& line, CLI::App const* verb) {
  if (verb != nullptr) {
    return head("gpumem-" + verb->get_name(), verb->get_description()) + synopsis(*verb) +
           ".SH DESCRIPTION\n" + plain(verb->get_description()) + ".\n" + options_of(*verb) + ".SH NOTES\n" +
           as_it_is(verb->get_footer()) + ".SH SEE ALSO\n.BR gpumem (1)\n";
  }
  std::string text = head("gpumem", "memory resources of RAPIDS RMM for unmodified CUDA programs") +
                     ".SH SYNOPSIS\n.B gpumem\n[OPTIONS] VERB ...\n.SH DESCRIPTION\n" +
                     plain(line.app->get_description()) + "\n.SH VERBS\n";
  std::string also;
  for (CLI::App const* each : line.app->get_subcommands(nullptr)) {
    text += ".TP\n.B " + each->get_name() + "\n" + plain(each->get_description()) + "\n";
    also += (also.empty() ? ".BR gpumem\\-" : ",\n.BR gpumem\\-") + each->get_name() + " (1)";
  }
  text += options_of(*line.app) + ".SH ENVIRONMENT\n";
  for (auto const& each : variables) {
    text += ".TP\n.B " + plain(each.name) + "\n" + plain(each.text) +
            (*each.values == 0 ? "" : plain(" (" + std::string(each.values) + ")")) + "\n";
  }
  return text + ".SH NOTES\n" + as_it_is(line.app->get_footer()) + ".SH SEE ALSO\n" + also + "\n";
}

}  // namespace gpumem::cli
