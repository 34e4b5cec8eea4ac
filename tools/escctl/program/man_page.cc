#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tools/escctl/program/program.h"

namespace escapement::escctl {
namespace {

// Text of one line that troff shows as it is.
std::string Escape(absl::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '\\':
        escaped += "\\e";
        break;
      case '-':
        escaped += "\\-";
        break;
      case '\'':
        escaped += "\\(aq";
        break;
      case '`':
        escaped += "\\(ga";
        break;
      case '~':
        escaped += "\\(ti";
        break;
      case '^':
        escaped += "\\(ha";
        break;
      default:
        escaped += c;
    }
  }
  // At the beginning of a line a dot begins a request.
  return absl::StartsWith(escaped, ".") ? absl::StrCat("\\&", escaped) : escaped;
}

std::string Bold(absl::string_view text) { return absl::StrCat("\\fB", Escape(text), "\\fR"); }
std::string Italic(absl::string_view text) { return absl::StrCat("\\fI", Escape(text), "\\fR"); }

// Lines that are not filled.
void AppendVerbatim(const std::vector<std::string>& lines, std::string& page) {
  absl::StrAppend(&page, ".PP\n.RS 4\n.nf\n");
  for (const std::string& line : lines) absl::StrAppend(&page, Escape(line), "\n");
  absl::StrAppend(&page, ".fi\n.RE\n");
}

// Paragraphs; those whose lines are indented are not filled.
void AppendText(absl::string_view text, std::string& page) {
  for (const absl::string_view paragraph : absl::StrSplit(text, "\n\n")) {
    if (absl::StartsWith(paragraph, "  ")) {
      AppendVerbatim(absl::StrSplit(paragraph, '\n'), page);
      continue;
    }
    absl::StrAppend(&page, ".PP\n");
    for (const absl::string_view line : absl::StrSplit(paragraph, '\n'))
      absl::StrAppend(&page, Escape(line), "\n");
  }
}

void AppendFlags(const CommandNode& command, std::string& page) {
  for (const FlagNode& flag : command.flags) {
    std::vector<std::string> names;
    for (const std::string& name : flag.names) names.push_back(Bold(name));
    absl::StrAppend(&page, ".TP\n", absl::StrJoin(names, ", "));
    if (!flag.choices.empty()) {
      absl::StrAppend(&page, " ", Italic(absl::StrJoin(flag.choices, "|")));
    } else if (flag.takes_value) {
      absl::StrAppend(&page, " ", Italic(flag.takes_file ? "file" : "value"));
    }
    absl::StrAppend(&page, "\n", Escape(flag.description));
    if (flag.required) absl::StrAppend(&page, " (required)");
    if (!flag.default_value.empty())
      absl::StrAppend(&page, " (default: ", Escape(flag.default_value), ")");
    if (!flag.environment.empty())
      absl::StrAppend(&page, " (environment: ", Escape(flag.environment), ")");
    absl::StrAppend(&page, "\n");
  }
}

void AppendCommand(const CommandNode& command, std::string& page) {
  std::string title = absl::StrCat("escctl ", command.path);
  for (const ArgumentNode& argument : command.arguments) {
    const std::string name = absl::StrCat(argument.name, argument.repeated ? "..." : "");
    absl::StrAppend(&title, " ", argument.required ? name : absl::StrCat("[", name, "]"));
  }
  absl::StrAppend(&page, ".SS ", Escape(title), "\n");
  AppendText(command.description, page);
  AppendVerbatim(command.examples, page);
  for (const ArgumentNode& argument : command.arguments)
    absl::StrAppend(&page, ".TP\n", Italic(argument.name), "\n", Escape(argument.description),
                    "\n");
  AppendFlags(command, page);
}

}  // namespace

std::string ManPage(const CommandNode& program) {
  std::string page =
      absl::StrCat(".TH ESCCTL 1 \"\" Escapement \"User Commands\"\n.SH NAME\n",
                   "escctl \\- the command line of Escapement\n.SH SYNOPSIS\n", Bold("escctl"),
                   " [", Italic("flags"), "] ", Italic("command"), " ...\n.SH DESCRIPTION\n");
  AppendText(program.description, page);
  absl::StrAppend(&page, ".PP\nData goes to stdout, other text to stderr.\n");
  AppendVerbatim(program.examples, page);
  absl::StrAppend(&page, ".SH FLAGS\nThese flags may stand before or behind any command.\n");
  AppendFlags(program, page);
  absl::StrAppend(&page, ".SH COMMANDS\n");
  for (const CommandNode& group : program.commands) {
    VisitCommands(group, [&](const CommandNode& command) {
      if (command.commands.empty()) AppendCommand(command, page);
    });
  }
  absl::StrAppend(&page, ".SH ENVIRONMENT\n");
  for (const FlagNode& flag : program.flags) {
    if (flag.environment.empty()) continue;
    absl::StrAppend(&page, ".TP\n", Bold(flag.environment), "\n", Escape(flag.description),
                    "; the flag ", Bold(flag.names[0]), " goes before it\n");
  }
  absl::StrAppend(&page, ".TP\n", Bold("ESCAPEMENT_KEY"),
                  "\nAPI key itself; a key file goes before it\n.TP\n",
                  Bold("ESCAPEMENT_CONFIG_DIR"), "\nfolder of ", Italic("escctl.yaml"),
                  ", which holds the contexts; default: ", Italic("~/.config/escapement"),
                  "\n.SH EXIT STATUS\n.TP\n0\ndone\n.TP\n1\n",
                  "the server refused something, or another error\n.TP\n2\nwrong usage\n.TP\n3\n",
                  "there is no such thing\n.TP\n4\nno key, or one that may not do this\n.TP\n5\n",
                  "the server was not reached, or did not answer in time\n");
  return page;
}

}  // namespace escapement::escctl
