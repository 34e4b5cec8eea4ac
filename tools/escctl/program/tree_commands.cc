#include <memory>
#include <string>

#include "tools/escctl/program/program.h"

namespace escapement::escctl {

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
