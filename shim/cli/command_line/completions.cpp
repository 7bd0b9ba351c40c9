// Completions for bash, zsh and fish; see documents.hpp. After the options of `run`, and after -- of
// `check`, a program and its own arguments follow, which that program's completion knows.
#include <CLI/CLI.hpp>

#include "shim/cli/command_line/documents.hpp"

namespace gpumem::cli {
namespace {

std::vector<CLI::App*> verbs_of(command_line const& line) {
  return line.app->get_subcommands(nullptr);
}

std::vector<std::string> names_of(CLI::Option const& option) {
  std::vector<std::string> names;
  for (auto const& name : option.get_snames()) names.push_back("-" + name);
  for (auto const& name : option.get_lnames()) names.push_back("--" + name);
  return names;
}

bool takes_value(CLI::Option const& option) {
  return option.get_items_expected_max() > 0;
}
bool may_stand_alone(CLI::Option const& option) {
  return option.get_items_expected_min() == 0;
}
bool takes_file(CLI::Option const& option) {
  return takes_value(option) && (option.get_type_name() == "FILE" || option.get_type_name() == "TEXT");
}

// "a b" of all names that `choose` takes.
template <typename Choose>
std::string words(CLI::App const& app, Choose choose, char const* between) {
  std::string result;
  for (CLI::Option const* option : app.get_options()) {
    if (!choose(*option)) continue;
    for (auto const& name : names_of(*option)) result += (result.empty() ? "" : between) + name;
  }
  return result;
}
std::string all_words(CLI::App const& app) {
  return words(
      app, [](CLI::Option const&) { return true; }, " ");
}

std::string without(std::string text, std::string const& unwanted, std::string const& instead) {
  for (std::size_t at = 0; (at = text.find_first_of(unwanted, at)) != std::string::npos; at += instead.size())
    text.replace(at, 1, instead);
  return text;
}

std::string short_text(std::string const& description) {
  return without(without(description, "\n", " "), "'\"`$\\:[]", "");
}

}  // namespace

std::string bash_completion(command_line const& line) {
  std::string names, cases;
  for (CLI::App const* verb : verbs_of(line)) {
    names += verb->get_name() + " ";
    auto const files = words(*verb, takes_file, "|");
    auto const values = words(
        *verb, [](CLI::Option const& o) { return takes_value(o) && !may_stand_alone(o) && !takes_file(o); },
        "|");
    auto const value = [](std::string const& of, char const* done) {
      return of.empty() ? "" : "      " + of + ") " + done + " return ;;\n";
    };
    cases += "  " + verb->get_name() + ")\n    options=\"" + all_words(*verb) +
             "\"\n    case \"$before\" in\n" + value(files, "COMPREPLY=($(compgen -f -- \"$word\"));") +
             value(values, "") + "    esac ;;\n";
  }
  return "# bash completion for gpumem, made of its command line.\n"
         "_gpumem() {\n"
         "  local word=\"${COMP_WORDS[COMP_CWORD]}\" before=\"${COMP_WORDS[COMP_CWORD-1]}\" "
         "verb=\"${COMP_WORDS[1]}\" options at\n"
         "  COMPREPLY=()\n"
         "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
         "    COMPREPLY=($(compgen -W \"" +
         names + "help " + all_words(*line.app) +
         "\" -- \"$word\"))\n"
         "    return\n"
         "  fi\n"
         "  # What stands after -- is a program.\n"
         "  for ((at = 2; at < COMP_CWORD; at++)); do\n"
         "    if [ \"${COMP_WORDS[at]}\" = -- ]; then\n"
         "      if declare -F _command_offset >/dev/null; then _command_offset $((at + 1)); else "
         "COMPREPLY=($(compgen -c -f -- \"$word\")); fi\n"
         "      return\n"
         "    fi\n"
         "  done\n"
         "  case \"$verb\" in\n"
         "  help) COMPREPLY=($(compgen -W \"" +
         names + "\" -- \"$word\")); return ;;\n" + cases +
         "  esac\n"
         "  case \"$word\" in\n"
         "  -*) COMPREPLY=($(compgen -W \"$options\" -- \"$word\")) ;;\n"
         "  *) if [ \"$verb\" = run ]; then COMPREPLY=($(compgen -c -f -- \"$word\")); else "
         "COMPREPLY=($(compgen -f -- \"$word\")); fi ;;\n"
         "  esac\n"
         "}\n"
         "complete -o filenames -F _gpumem gpumem\n";
}

std::string zsh_completion(command_line const& line) {
  std::string const after = " ";
  std::string verbs, cases;
  auto const specifications = [](CLI::App const& app) {
    std::string text;
    for (CLI::Option const* option : app.get_options()) {
      for (auto const& name : names_of(*option)) {
        text += " \\\n      '" + name + "[" + short_text(option->get_description()) + "]";
        if (takes_value(*option))
          text += std::string(may_stand_alone(*option) ? "::" : ":") +
                  "value:" + (takes_file(*option) ? "_files" : " ");
        text += "'";
      }
    }
    return text;
  };
  for (CLI::App const* verb : verbs_of(line)) {
    bool const run = verb->get_name() == "run";
    verbs += " '" + verb->get_name() + ":" + short_text(verb->get_description()) + "'";
    cases += "  " + verb->get_name() + ")\n    _arguments -S" + specifications(*verb) +
             (run ? " \\\n      '(-)1:program:_command_names -e' '*::arguments:_normal' ;;\n"
                  : " \\\n      '*:file:_files' ;;\n");
  }
  return "#compdef gpumem\n"
         "# zsh completion for gpumem, made of its command line.\n"
         "_gpumem() {\n"
         "  local -a verbs\n"
         "  verbs=(" +
         verbs +
         " 'help:Show the help of a verb')\n"
         "  if (( CURRENT == 2 )); then\n"
         "    _describe verb verbs\n"
         "    _arguments" +
         specifications(*line.app) +
         "\n"
         "    return\n"
         "  fi\n"
         "  local verb=$words[2]\n"
         "  shift words\n"
         "  (( CURRENT-- ))\n"
         "  case $verb in\n"
         "  help) _describe verb verbs ;;\n" +
         cases +
         "  esac\n"
         "}\n"
         "_gpumem \"$@\"\n";
}

std::string fish_completion(command_line const& line) {
  std::string text =
      "# fish completion for gpumem, made of its command line.\n"
      "function __gpumem_no_program\n"
      "    not contains -- -- (commandline -opc)\n"
      "end\n";
  auto const options = [&](CLI::App const& app, std::string const& where) {
    for (CLI::Option const* option : app.get_options()) {
      if (option->get_lnames().empty() && option->get_snames().empty()) continue;
      text += "complete -c gpumem -n '" + where + "'";
      for (auto const& name : option->get_snames()) text += " -s " + name;
      for (auto const& name : option->get_lnames()) text += " -l " + name;
      if (takes_value(*option) && !may_stand_alone(*option)) text += takes_file(*option) ? " -r -F" : " -x";
      text += " -d '" + short_text(option->get_description()) + "'\n";
    }
  };
  options(*line.app, "__fish_use_subcommand");
  text += "complete -c gpumem -n __fish_use_subcommand -f -a help -d 'Show the help of a verb'\n";
  for (CLI::App const* verb : verbs_of(line)) {
    text += "complete -c gpumem -n __fish_use_subcommand -f -a " + verb->get_name() + " -d '" +
            short_text(verb->get_description()) + "'\n";
    options(*verb, "__fish_seen_subcommand_from " + verb->get_name() + "; and __gpumem_no_program");
  }
  return text;
}

}  // namespace gpumem::cli
