#include "tests/conformance/log/log_rig.h"

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/check.h"
#include "common/base/hash.h"
#include "common/base/status_macros.h"
#include "common/kv/log/memory/mem_log.h"
#include "common/kv/log/memory/mem_log_engine.h"
#include "common/sim/sim_process.h"
#include "common/sim/sim_world.h"

namespace escapement::kv {

LogState LogRig::State(size_t replica) {
  auto state =
      Call<absl::StatusOr<LogState>>([&](auto done) { log(replica).ReadState(std::move(done)); });
  CHECK(state.ok()) << state.status().ToString();
  return *state;
}

absl::StatusOr<LeadResult> LogRig::TryLead(size_t replica, const LogState& seen,
                                           const std::string& owner) {
  return Call<absl::StatusOr<LeadResult>>([&](auto done) {
    log(replica).Lead({seen, owner, owner + ":7400"}, std::move(done));
  });
}

LeadResult LogRig::Lead(size_t replica, const std::string& owner) {
  auto result = TryLead(replica, State(replica), owner);
  CHECK(result.ok()) << result.status().ToString();
  return *result;
}

std::shared_ptr<LogAnswer<AppendResult>> LogRig::StartAppend(size_t replica,
                                                             AppendRequest request) {
  auto answer = std::make_shared<LogAnswer<AppendResult>>();
  log(replica).Append(std::move(request), LogAnswer<AppendResult>::Into(answer));
  return answer;
}

AppendResult LogRig::Append(size_t replica, AppendRequest request) {
  return Wait(StartAppend(replica, std::move(request)));
}

AppendResult LogRig::AppendSurely(size_t replica, const AppendRequest& request) {
  using Outcome = AppendResult::Outcome;
  while (true) {
    AppendResult result = Append(replica, request);
    if (result.outcome != Outcome::kUnknown && result.outcome != Outcome::kNotApplied)
      return result;
  }
}

absl::StatusOr<ReadResult> LogRig::Read(size_t replica, ReadRequest request) {
  return Call<absl::StatusOr<ReadResult>>(
      [&](auto done) { log(replica).Read(request, std::move(done)); });
}

absl::Status LogRig::PutPart(size_t replica, SnapshotPart part) {
  return Call<absl::Status>(
      [&](auto done) { log(replica).PutPart(std::move(part), std::move(done)); });
}

absl::Status LogRig::PutSnapshot(size_t replica, Snapshot snapshot) {
  return Call<absl::Status>(
      [&](auto done) { log(replica).PutSnapshot(std::move(snapshot), std::move(done)); });
}

absl::StatusOr<std::vector<SnapshotFile>> LogRig::MissingFiles(size_t replica,
                                                               std::vector<SnapshotFile> files) {
  return Call<absl::StatusOr<std::vector<SnapshotFile>>>(
      [&](auto done) { log(replica).MissingFiles(std::move(files), std::move(done)); });
}

absl::Status LogRig::PutFile(size_t replica, absl::string_view bytes) {
  for (SnapshotPart& part : PartsOf(bytes)) RETURN_IF_ERROR(PutPart(replica, std::move(part)));
  return absl::OkStatus();
}

std::vector<Snapshot> LogRig::Snapshots(size_t replica) {
  auto snapshots = Call<absl::StatusOr<std::vector<Snapshot>>>(
      [&](auto done) { log(replica).ListSnapshots(std::move(done)); });
  CHECK(snapshots.ok()) << snapshots.status().ToString();
  return *snapshots;
}

absl::StatusOr<std::string> LogRig::ReadPart(size_t replica, SnapshotFile file, uint32_t index) {
  return Call<absl::StatusOr<std::string>>(
      [&](auto done) { log(replica).ReadPart(std::move(file), index, std::move(done)); });
}

absl::Status LogRig::PutReport(size_t replica, const std::string& name,
                               const std::string& details) {
  return Call<absl::Status>(
      [&](auto done) { log(replica).PutReport(name, details, std::move(done)); });
}

absl::StatusOr<std::vector<ReplicaReport>> LogRig::Reports(size_t replica) {
  return Call<absl::StatusOr<std::vector<ReplicaReport>>>(
      [&](auto done) { log(replica).ListReports(std::move(done)); });
}

absl::StatusOr<TrimResult> LogRig::Trim(size_t replica, uint32_t snapshots_kept) {
  return Call<absl::StatusOr<TrimResult>>(
      [&](auto done) { log(replica).Trim(snapshots_kept, std::move(done)); });
}

absl::Status LogRig::TrimAll(size_t replica, uint32_t snapshots_kept) {
  while (true) {
    const auto trimmed = Trim(replica, snapshots_kept);
    if (!trimmed.ok() || !trimmed->more) return trimmed.status();
  }
}

AppendRequest Rows(const LogTerm& term, const LogPosition& after,
                   const std::vector<std::string>& rows) {
  AppendRequest request{term, after, {}};
  LogPosition end = after;
  for (const std::string& row : rows) {
    request.rows.push_back(NextRow(end, term.epoch, std::make_shared<const std::string>(row)));
    end = request.rows.back().position;
  }
  return request;
}

LogPosition EndOf(const AppendRequest& request) { return request.rows.back().position; }

SnapshotFile FileOf(absl::string_view bytes) {
  // A stand-in for SHA-256: the log does not look into hashes.
  const std::string half(StableHash128(bytes).bytes());
  return {half + half, bytes.size()};
}

std::vector<SnapshotPart> PartsOf(absl::string_view bytes) {
  std::vector<SnapshotPart> parts;
  for (uint32_t i = 0; i < SnapshotParts(bytes.size()); ++i) {
    parts.push_back(
        {FileOf(bytes), i, std::string(bytes.substr(i * kSnapshotPartBytes, kSnapshotPartBytes))});
  }
  return parts;
}

namespace {

class MemRig final : public LogRig {
 public:
  MemRig() : world_(/*seed=*/1), engine_process_(world_, "engine"), engine_(engine_process_) {
    for (size_t i = 0; i < kReplicas; ++i) {
      const std::string name = absl::StrCat("replica-", i);
      processes_.push_back(std::make_unique<sim::SimProcess>(world_, name));
      logs_.push_back(
          std::make_unique<MemLog>(*processes_.back(), engine_, MemLog::Options{.name = name}));
    }
  }

  SharedLog& log(size_t replica) override { return *logs_.at(replica); }
  void Disconnect(size_t replica) override {
    world_.After(absl::Microseconds(world_.events_run() % 1000), "disconnect",
                 [this, replica] { engine_.Disconnect(absl::StrCat("replica-", replica)); });
  }
  void Await(absl::Mutex& mu, absl::FunctionRef<bool()> done) override {
    const bool came = world_.RunUntil(
        [&] {
          absl::MutexLock lock(&mu);
          return done();
        },
        absl::Minutes(1));
    CHECK(came) << "no answer";
  }

 private:
  sim::SimWorld world_;
  sim::SimProcess engine_process_;
  MemLogEngine engine_;
  std::vector<std::unique_ptr<sim::SimProcess>> processes_;
  std::vector<std::unique_ptr<MemLog>> logs_;
};

}  // namespace

std::unique_ptr<LogRig> MakeMemRig() { return std::make_unique<MemRig>(); }

}  // namespace escapement::kv
