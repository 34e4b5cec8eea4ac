#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "tools/escctl/program/program.h"

namespace escapement::escctl {
namespace {

constexpr char kFile[] = "<file>";  // instead of choices: complete names of files

constexpr char kBash[] = R"sh(# bash completion for escctl, made by: escctl completion bash
@VALUES@_escctl() {
  local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}"
  local at='' word skip='' commands='' flags='' values
  # bash splits --flag=value into three words.
  if [[ $cur == '=' ]]; then
    cur=''
  elif [[ $prev == '=' ]]; then
    prev="${COMP_WORDS[COMP_CWORD-2]}"
  fi
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    if [[ -n $skip ]]; then
      skip=''
    elif [[ $word == -* ]]; then
      _escctl_values "$at" "$word" >/dev/null && skip=1
    else
      case "${at:+$at }$word" in
        @PATHS@) at="${at:+$at }$word" ;;
      esac
    fi
  done
  COMPREPLY=()
  if [[ $prev == -* ]] && values="$(_escctl_values "$at" "$prev")"; then
    if [[ $values == '@FILE@' ]]; then
      mapfile -t COMPREPLY < <(compgen -f -- "$cur")
    else
      mapfile -t COMPREPLY < <(compgen -W "$values" -- "$cur")
    fi
    return
  fi
  case "$at" in
@CASES@  esac
  if [[ $cur == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$flags @FLAGS@" -- "$cur" | sort -u)
  else
    mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$cur")
  fi
}
complete -F _escctl escctl
)sh";

constexpr char kZsh[] = R"sh(#compdef escctl
# zsh completion for escctl, made by: escctl completion zsh
@VALUES@_escctl() {
  local at='' word skip='' values
  local -a commands flags choices
  for word in "${(@)words[2,CURRENT-1]}"; do
    if [[ -n $skip ]]; then
      skip=''
    elif [[ $word == -* ]]; then
      _escctl_values "$at" "$word" >/dev/null && skip=1
    else
      case "${at:+$at }$word" in
        @PATHS@) at="${at:+$at }$word" ;;
      esac
    fi
  done
  if [[ -n $skip ]]; then
    values="$(_escctl_values "$at" "$words[CURRENT-1]")"
    if [[ $values == '@FILE@' ]]; then
      _files
    else
      choices=(${=values})
      _describe 'value' choices
    fi
    return
  fi
  case "$at" in
@CASES@  esac
  [[ -n $at ]] && flags+=(@FLAGS@)
  if [[ $words[CURRENT] == -* ]]; then
    _describe -o 'flag' flags
  else
    _describe 'command' commands
  fi
}
if [[ $funcstack[1] == _escctl ]]; then
  _escctl "$@"
else
  compdef _escctl escctl
fi
)sh";

// In single quotes, for bash and zsh.
std::string Quoted(absl::string_view text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

std::string FishQuoted(absl::string_view text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"'", "\\'"}}), "'");
}

std::string ValuesOf(const FlagNode& flag) {
  return flag.takes_file ? kFile : absl::StrJoin(flag.choices, " ");
}

// A function for bash and zsh: prints the values of the flag $2 of the command $1, and fails if the
// flag takes no value.
std::string ValueFunction(const CommandNode& program) {
  std::string text = "_escctl_values() {\n  case \"$1 $2\" in\n";
  // The flags of commands go before those of the program, which have the same name.
  const auto add = [&text](const CommandNode& command, absl::string_view prefix) {
    for (const FlagNode& flag : command.flags) {
      std::vector<std::string> patterns;
      for (const std::string& name : flag.names)
        patterns.push_back(absl::StrCat(prefix, Quoted(absl::StrCat(" ", name))));
      absl::StrAppend(&text, "    ", absl::StrJoin(patterns, " | "), ") ",
                      flag.takes_value ? absl::StrCat("echo ", Quoted(ValuesOf(flag)))
                                       : std::string("return 1"),
                      " ;;\n");
    }
  };
  for (const CommandNode& group : program.commands) {
    VisitCommands(group, [&](const CommandNode& command) { add(command, Quoted(command.path)); });
  }
  add(program, "*");
  return absl::StrCat(text, "    *) return 1 ;;\n  esac\n}\n");
}

// A pattern of all paths, for `case`.
std::string PathsPattern(const CommandNode& program) {
  std::vector<std::string> paths;
  for (const CommandNode& group : program.commands)
    VisitCommands(group,
                  [&](const CommandNode& command) { paths.push_back(Quoted(command.path)); });
  return absl::StrJoin(paths, " | ");
}

std::string FlagWords(const CommandNode& command) {
  std::vector<std::string> words;
  for (const FlagNode& flag : command.flags)
    words.insert(words.end(), flag.names.begin(), flag.names.end());
  return absl::StrJoin(words, " ");
}

std::string CommandWords(const CommandNode& command) {
  std::vector<std::string> words;
  for (const CommandNode& child : command.commands) words.push_back(child.name);
  for (const ArgumentNode& argument : command.arguments)
    words.insert(words.end(), argument.choices.begin(), argument.choices.end());
  return absl::StrJoin(words, " ");
}

// "name:description" as _describe of zsh takes it.
std::string Described(absl::string_view name, absl::string_view description) {
  return Quoted(absl::StrCat(absl::StrReplaceAll(name, {{":", "\\:"}}), ":", description));
}

std::string ZshWords(const CommandNode& command) {
  std::vector<std::string> words;
  for (const CommandNode& child : command.commands)
    words.push_back(Described(child.name, child.summary));
  for (const ArgumentNode& argument : command.arguments) {
    for (const std::string& choice : argument.choices)
      words.push_back(Described(choice, argument.description));
  }
  return absl::StrJoin(words, " ");
}

std::string ZshFlags(const CommandNode& command) {
  std::vector<std::string> words;
  for (const FlagNode& flag : command.flags) {
    for (const std::string& name : flag.names) words.push_back(Described(name, flag.description));
  }
  return absl::StrJoin(words, " ");
}

}  // namespace

std::string BashCompletion(const CommandNode& program) {
  std::string cases;
  VisitCommands(program, [&](const CommandNode& command) {
    absl::StrAppend(&cases, "    ", Quoted(command.path),
                    ") commands=", Quoted(CommandWords(command)),
                    " flags=", Quoted(FlagWords(command)), " ;;\n");
  });
  return absl::StrReplaceAll(kBash, {{"@VALUES@", ValueFunction(program)},
                                     {"@PATHS@", PathsPattern(program)},
                                     {"@FILE@", kFile},
                                     {"@CASES@", cases},
                                     {"@FLAGS@", FlagWords(program)}});
}

std::string ZshCompletion(const CommandNode& program) {
  std::string cases;
  VisitCommands(program, [&](const CommandNode& command) {
    absl::StrAppend(&cases, "    ", Quoted(command.path), ")\n      commands=(", ZshWords(command),
                    ")\n      flags=(", ZshFlags(command), ")\n      ;;\n");
  });
  return absl::StrReplaceAll(kZsh, {{"@VALUES@", ValueFunction(program)},
                                    {"@PATHS@", PathsPattern(program)},
                                    {"@FILE@", kFile},
                                    {"@CASES@", cases},
                                    {"@FLAGS@", ZshFlags(program)}});
}

std::string FishCompletion(const CommandNode& program) {
  std::vector<std::string> paths;
  std::vector<std::string> value_flags;
  VisitCommands(program, [&](const CommandNode& command) {
    if (!command.path.empty()) paths.push_back(FishQuoted(command.path));
    for (const FlagNode& flag : command.flags) {
      if (!flag.takes_value) continue;
      value_flags.insert(value_flags.end(), flag.names.begin(), flag.names.end());
    }
  });
  std::string text = absl::StrCat(
      "# fish completion for escctl, made by: escctl completion fish\n",
      "function __escctl_at\n  set -l at ''\n  set -l skip 0\n",
      "  for word in (commandline -opc)[2..-1]\n    if test $skip = 1\n      set skip 0\n",
      "    else if contains -- $word ", absl::StrJoin(value_flags, " "),
      "\n      set skip 1\n    else\n      set -l next (string trim -- \"$at $word\")\n",
      "      if contains -- $next ", absl::StrJoin(paths, " "),
      "\n        set at $next\n      end\n    end\n  end\n  test \"$at\" = \"$argv[1]\"\nend\n",
      "complete -c escctl -f\n");
  VisitCommands(program, [&](const CommandNode& command) {
    // The flags of the program hold everywhere.
    const std::string where =
        absl::StrCat(" -n ", FishQuoted(absl::StrCat("__escctl_at ", FishQuoted(command.path))));
    const std::string start = "complete -c escctl";
    for (const CommandNode& child : command.commands) {
      absl::StrAppend(&text, start, where, " -a ", child.name, " -d ", FishQuoted(child.summary),
                      "\n");
    }
    for (const ArgumentNode& argument : command.arguments) {
      if (!argument.choices.empty()) {
        absl::StrAppend(&text, start, where, " -a ",
                        FishQuoted(absl::StrJoin(argument.choices, " ")), "\n");
      }
    }
    for (const FlagNode& flag : command.flags) {
      absl::StrAppend(&text, start, command.path.empty() ? "" : where);
      for (const std::string& name : flag.names) {
        absl::StrAppend(&text, absl::StartsWith(name, "--") ? " -l " : " -s ",
                        name.substr(name.find_first_not_of('-')));
      }
      if (flag.takes_value) absl::StrAppend(&text, flag.takes_file ? " -r -F" : " -x");
      if (!flag.choices.empty())
        absl::StrAppend(&text, " -a ", FishQuoted(absl::StrJoin(flag.choices, " ")));
      absl::StrAppend(&text, " -d ", FishQuoted(flag.description), "\n");
    }
  });
  return text;
}

}  // namespace escapement::escctl
