// escctl store …: commands for operators of the store.

#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "escapement/v1/store_service.grpc.pb.h"
#include "tools/escctl/commands.h"
#include "tools/escctl/output.h"
#include "tools/escctl/session.h"

namespace escapement::escctl {
namespace {

absl::Duration DurationOf(const google::protobuf::Duration& duration) {
  return absl::Seconds(duration.seconds()) + absl::Nanoseconds(duration.nanos());
}

// "+2.5s": the wall clock is ahead.
std::string Signed(absl::Duration duration) {
  return absl::StrCat(duration < absl::ZeroDuration() ? "" : "+", absl::FormatDuration(duration));
}

std::string Emission(const v1::StoreClock& clock) {
  if (clock.held())
    return absl::StrCat("held for ", absl::FormatDuration(DurationOf(clock.held_for())));
  return clock.has_slow_from() ? "runs at half pace" : "runs";
}

void PrintClock(Session& session, const v1::StoreClock& clock) {
  if (session.format() != OutputFormat::kTable)
    return session.Print(FormatMessage(clock, session.format()));
  const absl::Time time = absl::FromUnixSeconds(clock.store_time().seconds()) +
                          absl::Nanoseconds(clock.store_time().nanos());
  session.Print(
      FormatTable({"STORE TIME", "WALL CLOCK IS", "EMISSION", "SYNCHRONISED", "OTHER HOSTS"},
                  {{absl::FormatTime("%Y-%m-%d%ET%H:%M:%E3SZ", time, absl::UTCTimeZone()),
                    Signed(DurationOf(clock.disagreement())), Emission(clock),
                    clock.synchronised() ? "yes" : "no",
                    absl::StrCat(clock.hosts(), " (", clock.hosts_disagree(), " disagree)")}}));
}

void RunClock(Session& session, bool confirm) {
  using Stub = v1::StoreService::Stub;
  v1::StoreClock clock;
  const grpc::Status got = session.Call(&Stub::GetClock, v1::GetClockRequest(), clock);
  if (!got.ok()) return session.Fail(got);
  if (!confirm) {
    PrintClock(session, clock);
    if (clock.held()) session.Say("if the wall clock is right: escctl store clock --confirm");
    return;
  }
  // Confirm only the step that was there when the command was given.
  v1::ConfirmClockRequest request;
  *request.mutable_disagreement() = clock.disagreement();
  const grpc::Status confirmed = session.Call(&Stub::ConfirmClock, request, clock);
  if (!confirmed.ok()) return session.Fail(confirmed);
  PrintClock(session, clock);
  session.Say("the wall clock is confirmed");
}

}  // namespace

void AddStoreCommands(CLI::App& app, Session& session) {
  CLI::App* group = app.add_subcommand("store", "the store, for operators");
  group->require_subcommand(1);
  group->fallthrough();
  CLI::App* clock =
      group->add_subcommand("clock", "show the store's time and how far the wall clock is from it");
  auto confirm = std::make_shared<bool>(false);
  clock->add_flag("--confirm", *confirm,
                  "the wall clock is right: store time steps forward to it or, if the wall clock "
                  "is behind, passes at half pace until it has caught up");
  clock->callback([confirm, &session] { RunClock(session, *confirm); });
}

}  // namespace escapement::escctl
