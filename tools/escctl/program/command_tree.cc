#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tools/escctl/program/program.h"

namespace escapement::escctl {

namespace {

// CLI11 shows the values of IsMember as "TEXT:{table,json,yaml}".
std::vector<std::string> ChoicesOf(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const size_t begin = type.find('{');
  const size_t end = type.rfind('}');
  if (begin == std::string::npos || end == std::string::npos) return {};
  return absl::StrSplit(type.substr(begin + 1, end - begin - 1), ',');
}

FlagNode ReadFlag(const CLI::Option& option) {
  FlagNode flag;
  for (const std::string& name : option.get_lnames()) flag.names.push_back("--" + name);
  for (const std::string& name : option.get_snames()) flag.names.push_back("-" + name);
  flag.takes_value = option.get_items_expected_max() > 0;
  if (flag.takes_value) flag.choices = ChoicesOf(option);
  for (const char* name : {"file", "key-file", "tls-ca", "tls-cert", "tls-key"})
    flag.takes_file = flag.takes_file || option.check_lname(name);
  flag.required = option.get_required();
  flag.default_value = option.get_default_str();
  flag.environment = option.get_envname();
  flag.description = option.get_description();
  return flag;
}

ArgumentNode ReadArgument(const CLI::Option& option) {
  return {.name = option.get_name(true),
          .required = option.get_required(),
          .repeated = option.get_items_expected_max() > 1,
          .choices = ChoicesOf(option),
          .description = option.get_description()};
}

}  // namespace

std::string PathOf(const CLI::App& app) {
  if (app.get_parent() == nullptr) return "";
  const std::string parent = PathOf(*app.get_parent());
  return parent.empty() ? app.get_name() : absl::StrCat(parent, " ", app.get_name());
}

CommandNode ReadCommandTree(const CLI::App& app) {
  CommandNode node;
  node.name = app.get_name();
  node.path = PathOf(app);
  node.description = app.get_description();
  node.summary = node.description.substr(0, node.description.find('\n'));
  node.examples = ExamplesOf(node.path);
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;  // hidden
    if (option->nonpositional()) {
      node.flags.push_back(ReadFlag(*option));
    } else {
      node.arguments.push_back(ReadArgument(*option));
    }
  }
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    node.commands.push_back(ReadCommandTree(*command));
  return node;
}

void VisitCommands(const CommandNode& node, const std::function<void(const CommandNode&)>& visit) {
  visit(node);
  for (const CommandNode& command : node.commands) VisitCommands(command, visit);
}

void AddTreeCommands(CLI::App& app, Session& session) {
  auto shell = std::make_shared<std::string>();
  CLI::App* completion =
      app.add_subcommand("completion", "print a script that completes commands and flags");
  completion->add_option("shell", *shell, "shell that the script is for")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  completion->callback([shell, &app, &session] {
    const CommandNode tree = ReadCommandTree(app);
    if (*shell == "bash") return session.Print(BashCompletion(tree));
    session.Print(*shell == "zsh" ? ZshCompletion(tree) : FishCompletion(tree));
  });
  CLI::App* man = app.add_subcommand("man", "print the manual page, in troff");
  man->callback([&app, &session] { session.Print(ManPage(ReadCommandTree(app))); });
}

}  // namespace escapement::escctl
