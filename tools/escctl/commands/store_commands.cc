// escctl store …: commands for operators of the store.

#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/kv/wire/leader_search.h"
#include "escapement/v1/store_service.grpc.pb.h"
#include "tools/escctl/base/output.h"
#include "tools/escctl/base/session.h"
#include "tools/escctl/commands/commands.h"

namespace escapement::escctl {
namespace {

absl::Duration DurationOf(const google::protobuf::Duration& duration) {
  return absl::Seconds(duration.seconds()) + absl::Nanoseconds(duration.nanos());
}

std::string TimeText(const google::protobuf::Timestamp& timestamp) {
  const absl::Time time =
      absl::FromUnixSeconds(timestamp.seconds()) + absl::Nanoseconds(timestamp.nanos());
  return absl::FormatTime("%Y-%m-%d%ET%H:%M:%E3SZ", time, absl::UTCTimeZone());
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
  session.Print(
      FormatTable({"STORE TIME", "WALL CLOCK IS", "EMISSION", "SYNCHRONISED", "OTHER HOSTS"},
                  {{TimeText(clock.store_time()), Signed(DurationOf(clock.disagreement())),
                    Emission(clock), clock.synchronised() ? "yes" : "no",
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

// A process that only failed to answer has no role.
std::string RoleText(v1::StoreReplica::Role role) {
  if (role == v1::StoreReplica::ROLE_UNSPECIFIED) return "-";
  return absl::AsciiStrToLower(v1::StoreReplica::Role_Name(role));
}

std::string LeaderText(const v1::StoreStatus& status) {
  const v1::StoreReplication& log = status.replication();
  if (kv::OfLeader(status)) return log.leader_address();
  if (log.leader_address().empty()) return "none yet";
  return absl::StrCat("none now, so nothing is committed or sent; the last one was at ",
                      log.leader_address());
}

std::string Since(const google::protobuf::Duration& duration) {
  return absl::FormatDuration(absl::Trunc(DurationOf(duration), absl::Milliseconds(1)));
}

void PrintStatus(Session& session, const v1::StoreStatus& status) {
  if (session.format() != OutputFormat::kTable)
    return session.Print(FormatMessage(status, session.format()));
  std::vector<std::vector<std::string>> facts;
  if (status.has_store_time()) {
    facts.push_back({"store time", TimeText(status.store_time())});
    facts.push_back({"last commit", absl::StrCat(status.commit_seq())});
    facts.push_back({"commits", status.accepts_commits() ? "accepted" : "refused: no disk space"});
  }
  const v1::StoreReplication& log = status.replication();
  if (!status.has_replication()) {
    facts.push_back({"replicated", "no"});
    return session.Print(FormatTable({"STORE", ""}, facts));
  }
  facts.push_back({"leader", LeaderText(status)});
  facts.push_back({"epoch", absl::StrCat(log.epoch())});
  facts.push_back(
      {"log", absl::StrCat("row ", log.log_seq(), ", ", log.log_bytes() >> 20, " MiB in all")});
  facts.push_back({"last snapshot", log.snapshot_seq() == 0
                                        ? "none"
                                        : absl::StrCat("up to row ", log.snapshot_seq(), ", of ",
                                                       TimeText(log.snapshot_time()))});
  for (const std::string& problem : log.log_problems()) facts.push_back({"problem", problem});
  session.Print(FormatTable({"STORE", ""}, facts));
  std::vector<std::vector<std::string>> replicas;
  for (const v1::StoreReplica& replica : log.replicas()) {
    replicas.push_back({replica.store_id(), replica.address(), RoleText(replica.role()),
                        absl::StrCat(replica.applied_seq()),
                        absl::StrCat(replica.acknowledged_seq()), Since(replica.behind()),
                        Since(replica.reported_ago()), replica.problem()});
  }
  session.Print(FormatTable({"REPLICA", "ADDRESS", "ROLE", "HAS ROW", "ACKNOWLEDGED TO",
                             "BEHIND FOR", "REPORTED AGO", "PROBLEM"},
                            replicas));
}

void RunStatus(Session& session) {
  v1::StoreStatus status;
  const grpc::Status got =
      session.Call(&v1::StoreService::Stub::GetStatus, v1::GetStatusRequest(), status);
  if (!got.ok()) return session.Fail(got);
  PrintStatus(session, status);
}

void RunHandover(Session& session) {
  v1::HandOverResponse response;
  const grpc::Status done =
      session.Call(&v1::StoreService::Stub::HandOver, v1::HandOverRequest(), response);
  if (!done.ok()) return session.Fail(done);
  session.Say("the leader has ended its term; see escctl store status");
}

}  // namespace

void AddStoreCommands(CLI::App& app, Session& session) {
  CLI::App* group = app.add_subcommand("store", "the store, for operators");
  group->require_subcommand(1);
  group->fallthrough();
  group->add_subcommand("status", "show the store's state and, if it is replicated, its replicas")
      ->callback([&session] { RunStatus(session); });
  group
      ->add_subcommand("handover",
                       "let another process of a replicated store lead, for example before an "
                       "upgrade of the one that leads")
      ->callback([&session] { RunHandover(session); });
  AddSnapshotCommands(*group, session);
  CLI::App* clock =
      group->add_subcommand("clock", "show the store's time and how far the wall clock is from it");
  auto confirm = std::make_shared<bool>(false);
  clock->add_flag("--confirm", *confirm,
                  "the wall clock is right: store time steps forward to it or, if the wall clock "
                  "is behind, passes at half pace until it has caught up");
  clock->callback([confirm, &session] { RunClock(session, *confirm); });
}

}  // namespace escapement::escctl
