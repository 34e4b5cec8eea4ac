#include "tests/e2e/chaos/replicated/shaken_postgres.h"

#include <signal.h>

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "tests/integration/platform.h"

namespace escapement::chaos {
namespace {

using fixtures::Postgres;

constexpr absl::Duration kSyncedWithin = absl::Seconds(60);
// The standby of a promoted server has this name, too. So each primary waits for its standby.
constexpr char kStandbys[] = "synchronous_standby_names=standby";
// Stores' connections that append have an application name that begins so.
constexpr char kWriters[] =
    "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'escapement-writer-%'";

}  // namespace

absl::StatusOr<std::unique_ptr<ShakenPostgres>> ShakenPostgres::Start() {
  std::unique_ptr<ShakenPostgres> pair(new ShakenPostgres());
  ASSIGN_OR_RETURN(auto primary, Postgres::Start());
  pair->primary_ = std::move(primary);
  RETURN_IF_ERROR(pair->AddStandby());
  RETURN_IF_ERROR(
      pair->primary_->Sql("ALTER SYSTEM SET synchronous_standby_names = 'standby'").status());
  RETURN_IF_ERROR(pair->primary_->Sql("SELECT pg_reload_conf()").status());
  RETURN_IF_ERROR(pair->AwaitSynced(kSyncedWithin));
  return pair;
}

absl::Status ShakenPostgres::AddStandby() {
  ASSIGN_OR_RETURN(auto standby, Postgres::StartStandby(*primary_, {.settings = {kStandbys}}));
  standby_ = std::move(standby);
  return absl::OkStatus();
}

bool ShakenPostgres::Synced() {
  if (standby_ == nullptr) return false;
  const auto count = primary_->Sql(
      "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync' AND state = 'streaming'");
  return count.ok() && count->front().front() == "1";
}

absl::Status ShakenPostgres::AwaitSynced(absl::Duration timeout) {
  if (integration::Await([this] { return Synced(); }, timeout)) return absl::OkStatus();
  return absl::DeadlineExceededError(
      absl::StrCat("PostgreSQL has no synchronous standby\n", primary_->Log()));
}

absl::Status ShakenPostgres::Begin(const Fault& fault) {
  if (!Synced()) return absl::UnavailableError("the standby is not synchronous yet");
  if (fault.victim == "postgres.writer") return BeginWriters(fault.kind);
  if (fault.victim == "postgres.standby") return BeginServer(*standby_, fault.kind);
  const bool split = fault.kind == Fault::Kind::kSplit;
  if (!split && fault.kind != Fault::Kind::kPromote) return BeginServer(*primary_, fault.kind);
  if (!split) primary_->Crash();
  RETURN_IF_ERROR(standby_->Promote());
  if (split) old_ = std::move(primary_);
  primary_ = std::move(standby_);
  return split ? AddStandby() : absl::OkStatus();
}

absl::Status ShakenPostgres::BeginWriters(Fault::Kind kind) {
  ASSIGN_OR_RETURN(const auto rows, primary_->Sql(kWriters));
  writers_.clear();
  for (const auto& row : rows) {
    pid_t pid = 0;
    if (absl::SimpleAtoi(row.front(), &pid)) writers_.push_back(pid);
  }
  if (writers_.empty()) return absl::UnavailableError("no store has a connection that appends");
  const int signal = kind == Fault::Kind::kKill    ? SIGKILL
                     : kind == Fault::Kind::kPause ? SIGSTOP
                                                   : SIGTERM;
  for (const pid_t pid : writers_) kill(pid, signal);
  return absl::OkStatus();
}

absl::Status ShakenPostgres::BeginServer(Postgres& server, Fault::Kind kind) {
  switch (kind) {
    case Fault::Kind::kKill:
      return server.KillPostmaster();
    case Fault::Kind::kPause:
      server.SignalAll(SIGSTOP);
      return absl::OkStatus();
    default:
      server.Crash();
      return absl::OkStatus();
  }
}

absl::Status ShakenPostgres::EndServer(Postgres& server, Fault::Kind kind) {
  if (kind != Fault::Kind::kPause) return server.Restart();
  server.SignalAll(SIGCONT);
  return absl::OkStatus();
}

absl::Status ShakenPostgres::End(const Fault& fault) {
  if (fault.victim == "postgres.standby") return EndServer(*standby_, fault.kind);
  if (fault.kind == Fault::Kind::kPromote) return AddStandby();
  if (fault.kind == Fault::Kind::kSplit) {
    old_.reset();
    return absl::OkStatus();
  }
  if (fault.victim == "postgres") return EndServer(*primary_, fault.kind);
  if (fault.kind == Fault::Kind::kPause) {
    for (const pid_t pid : writers_) kill(pid, SIGCONT);
  }
  return absl::OkStatus();
}

}  // namespace escapement::chaos
