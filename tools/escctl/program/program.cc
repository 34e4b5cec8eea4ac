#include "tools/escctl/program/program.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/version/version.h"
#include "tools/escctl/apply/applier.h"
#include "tools/escctl/commands/commands.h"

namespace escapement::escctl {
namespace {

// One line that says what is wrong and where help is.
std::string UsageWords(const CLI::App& app, const CLI::Error& error) {
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  const std::string path = PathOf(*command);
  const std::string help = absl::StrCat("escctl ", path, path.empty() ? "" : " ", "--help");
  std::string words = absl::StrReplaceAll(error.what(), {{"\n", " "}, {"subcommand", "command"}});
  // CLI11 spells out the largest number of all.
  const size_t range = words.find(" not in range 0.000000 to 1797");
  if (range != std::string::npos) words.replace(range, std::string::npos, " must be more than 0");
  return absl::StrCat(words, "; see: ", help);
}

}  // namespace

void AddAllCommands(CLI::App& app, Session& session) {
  app.description("Schedules, policies, events and runs of an Escapement platform");
  app.name("escctl");
  app.set_version_flag("--version", VersionLine("escctl"), "print the version and exit");
  app.require_subcommand(1);
  app.fallthrough();
  app.formatter(NewHelpFormatter());
  session.AddFlags(app);
  AddApplyCommand(app, session);
  AddScheduleCommands(app, session);
  AddEventCommands(app, session);
  AddRunCommands(app, session);
  AddDeadLetterCommands(app, session);
  AddOperationCommands(app, session);
  AddPolicyCommands(app, session);
  AddTokenCommands(app, session);
  AddTargetCommands(app, session);
  AddTenantCommands(app, session);
  AddQuotaCommands(app, session);
  AddKeyCommands(app, session);
  AddAuditCommands(app, session);
  AddStoreCommands(app, session);
  AddAdminCommands(app, session);
  AddTopCommand(app, session);
  AddContextCommands(app, session);
  AddTreeCommands(app, session);
}

int RunProgram(int argc, char** argv) {
  CLI::App app;
  Session session;
  AddAllCommands(app, session);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {  // --help, --version
      app.exit(error);
      return kExitOk;
    }
    session.FailUsage(UsageWords(app, error));
  }
  return session.exit_code();
}

}  // namespace escapement::escctl
