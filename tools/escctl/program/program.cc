#include "tools/escctl/program/program.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/version/version.h"
#include "tools/escctl/apply/applier.h"
#include "tools/escctl/commands/commands.h"

namespace escapement::escctl {
namespace {

// How many letters must be put in, left out, exchanged or swapped with the next one to make one
// word of the other (optimal string alignment).
size_t Distance(absl::string_view a, absl::string_view b) {
  std::vector<std::vector<size_t>> cost(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      size_t& best = cost[i][j];
      if (i == 0 || j == 0) {
        best = i + j;
        continue;
      }
      best = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1,
                       cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        best = std::min(best, cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

// "; did you mean X?" if one of the known words is near.
std::string Suggestion(const std::string& word, const std::vector<std::string>& known) {
  if (word.size() > 40) return "";
  const std::string* best = nullptr;
  size_t least = std::max<size_t>(2, word.size() / 3) + 1;
  for (const std::string& one : known) {
    const size_t distance = absl::StartsWith(one, word) ? 1 : Distance(word, one);
    if (distance < least && distance < one.size() - (one[0] == '-' ? 2 : 0)) {
      least = distance;
      best = &one;
    }
  }
  return best == nullptr ? "" : absl::StrCat("; did you mean ", *best, "?");
}

// A sentence about a word that no command takes.
std::string UnknownWord(const CLI::App& command, const std::string& word) {
  std::vector<std::string> known;
  if (absl::StartsWith(word, "-")) {
    for (const CLI::App* app = &command; app != nullptr; app = app->get_parent()) {
      for (const CLI::Option* option : app->get_options()) {
        for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
      }
    }
    const std::string flag = word.substr(0, word.find('='));
    return absl::StrCat("there is no flag ", flag, Suggestion(flag, known));
  }
  for (const CLI::App* one : command.get_subcommands([](const CLI::App*) { return true; }))
    known.push_back(one->get_name());
  if (known.empty()) return absl::StrCat("'", word, "' was not expected");
  return absl::StrCat("there is no command '", word, "'", Suggestion(word, known));
}

// One line that says what is wrong and where help is.
std::string UsageWords(const CLI::App& app, const CLI::Error& error) {
  const CLI::App& command = CommandOf(app);
  const std::string path = PathOf(command);
  const std::string help = absl::StrCat("escctl ", path, path.empty() ? "" : " ", "--help");
  std::string words = absl::StrReplaceAll(error.what(), {{"\n", " "}, {"subcommand", "command"}});
  if (const auto unknown = app.remaining(/*recurse=*/true); !unknown.empty())
    words = UnknownWord(command, unknown.front());
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
  AddCalendarCommands(app, session);
  AddSubscriptionCommands(app, session);
  AddTokenCommands(app, session);
  AddTargetCommands(app, session);
  AddStatisticsCommand(app, session);
  AddTenantCommands(app, session);
  AddCellCommands(app, session);
  AddQuotaCommands(app, session);
  AddKeyCommands(app, session);
  AddAuditCommands(app, session);
  AddStoreCommands(app, session);
  AddAdminCommands(app, session);
  AddDoctorCommand(app, session);
  AddWhyCommand(app, session);
  AddTopCommand(app, session);
  AddForecastCommand(app, session);
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
  const CLI::Option* const dry = CommandOf(app).get_option_no_throw("--validate-only");
  if (dry != nullptr && dry->count() > 0 && session.exit_code() == kExitOk)
    session.Say("escctl: (dry run) nothing was changed");
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    session.Say(absl::StrCat("escctl: cannot write the output: ", std::strerror(errno)));
    return session.exit_code() == kExitOk ? kExitFailed : session.exit_code();
  }
  return session.exit_code();
}

}  // namespace escapement::escctl
