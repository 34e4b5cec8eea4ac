// escctl: the command line of Escapement.
//
// Data goes to stdout, words to stderr. Exit codes: 0 done, 1 the server refused or could not be
// reached, 2 wrong usage.

#include "tools/escctl/apply/apply_command.h"
#include "tools/escctl/commands.h"
#include "tools/escctl/context/context_commands.h"

int main(int argc, char** argv) {
  using namespace escapement::escctl;
  CLI::App app("Schedules, policies, events and runs of an Escapement platform", "escctl");
  app.require_subcommand(1);
  app.fallthrough();
  Session session;
  session.AddFlags(app);
  AddApplyCommand(app, session);
  AddScheduleCommands(app, session);
  AddEventCommands(app, session);
  AddRunCommands(app, session);
  AddPolicyCommands(app, session);
  AddTokenCommands(app, session);
  AddStoreCommands(app, session);
  AddContextCommands(app, session);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const bool asked = error.get_exit_code() == 0;  // --help
    app.exit(error);
    return asked ? kExitOk : kExitUsage;
  }
  return session.exit_code();
}
