// escctl store …: what operators ask of the store.

#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "escapement/internal/v1/store.grpc.pb.h"
#include "tools/escctl/commands.h"
#include "tools/escctl/output.h"
#include "tools/escctl/session.h"

namespace escapement::escctl {
namespace {

namespace wire = ::escapement::internal::v1;

// "+2.5s": the wall clock is ahead.
std::string Signed(absl::Duration duration) {
  return absl::StrCat(duration < absl::ZeroDuration() ? "" : "+", absl::FormatDuration(duration));
}

void PrintClock(Session& session, const wire::StoreInfo& info) {
  if (session.format() != OutputFormat::kTable)
    return session.Print(FormatMessage(info, session.format()));
  const absl::Time time = absl::FromUnixMicros(info.store_time_micros());
  session.Print(FormatTable(
      {"STORE TIME", "WALL CLOCK IS", "EMISSION"},
      {{absl::FormatTime("%Y-%m-%d%ET%H:%M:%E3SZ", time, absl::UTCTimeZone()),
        Signed(absl::Microseconds(info.clock_disagreement_micros())),
        info.clock_hold() ? absl::StrCat("held for ", absl::FormatDuration(absl::Microseconds(
                                                          info.clock_held_micros())))
                          : "goes on"}}));
}

void RunClock(Session& session, bool confirm) {
  grpc::ClientContext context;
  session.Prepare(context);
  wire::StoreAdminService::Stub stub(session.channel());
  wire::StoreInfo info;
  const grpc::Status status = confirm
                                  ? stub.ConfirmClock(&context, wire::ConfirmClockRequest(), &info)
                                  : stub.GetStoreInfo(&context, wire::GetStoreInfoRequest(), &info);
  if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED)
    session.Say("escctl: there is no store at --server; give the port of a store or standalone");
  if (!status.ok()) return session.Fail(status);
  PrintClock(session, info);
  if (confirm) {
    session.Say("the wall clock is believed");
  } else if (info.clock_hold()) {
    session.Say("if the wall clock is right: escctl store clock --confirm");
  }
}

}  // namespace

void AddStoreCommands(CLI::App& app, Session& session) {
  CLI::App* group =
      app.add_subcommand("store", "the store; --server is the port of a store or standalone");
  group->require_subcommand(1);
  group->fallthrough();
  CLI::App* clock = group->add_subcommand(
      "clock", "the store's time, and whether the wall clock has stepped away from it");
  auto confirm = std::make_shared<bool>(false);
  clock->add_flag("--confirm", *confirm,
                  "the wall clock is right: store time steps forward to it, or is drawn back "
                  "slowly if it is ahead");
  clock->callback([confirm, &session] { RunClock(session, *confirm); });
}

}  // namespace escapement::escctl
