// The platform over a store that is replicated through PostgreSQL, beside the same platform without
// replication and beside bare inserts, in the same run.
//
//   tools/dev bench replicated [--events=100000] [and the flags of bench_run.h]
//
// Each platform is one standalone process; the replicated one leads and has no follower.
// PostgreSQL, platforms, client and receiver share the machine.
//
// Restore: a store with a million pending events is moved into the log, which makes a snapshot.
// Then a process without any data is started. Measured is the time until it answers calls: it has
// the snapshot's files, and leads.

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "tests/bench/beds/delivery_peers.h"
#include "tests/bench/beds/platform_bed.h"
#include "tests/bench/figures/bench_run.h"
#include "tests/bench/figures/figures.h"
#include "tests/bench/raw/raw_limits.h"
#include "tests/bench/stages/path_stages.h"
#include "tests/fixtures/postgres/postgres.h"
#include "tests/fixtures/process/child_process.h"
#include "tests/integration/api_client.h"

ABSL_FLAG(uint64_t, events, 100'000, "of each stage that measures a rate");

namespace escapement::bench {
namespace {

constexpr size_t kPayloadBytes = 500;
constexpr uint64_t kEventsOfInsert = 1000;
constexpr uint64_t kInsertsInFlight = 8;
constexpr double kLatenessPerSecond = 1000;
constexpr uint64_t kRestoredEvents = 1'000'000;

struct Side {
  std::unique_ptr<PlatformBed> bed;
  std::unique_ptr<PathStages> stages;
};

absl::StatusOr<Side> MakeSide(PlatformBed::Options options, ReceiverProcess* receiver) {
  Side side;
  side.bed = std::make_unique<PlatformBed>(options);
  RETURN_IF_ERROR(side.bed->Start());
  side.stages = std::make_unique<PathStages>(PathStages::Options{.payload_bytes = kPayloadBytes},
                                             side.bed.get(), receiver);
  return side;
}

class ReplicatedBench {
 public:
  ReplicatedBench(const BenchSetting& setting, ReceiverProcess* receiver, Figures* figures)
      : setting_(setting),
        receiver_(receiver),
        figures_(figures),
        events_(absl::GetFlag(FLAGS_events) / (setting.quick ? 5 : 1)) {}

  absl::Status Run() {
    RETURN_IF_ERROR(Start());
    for (int i = 0; i < setting_.repetitions; ++i) {
      // They take turns to be first.
      const bool replicated_first = i % 2 == 0;
      setting_.Measure("ingest", *figures_, [&] { return Ingest(replicated_first); });
      setting_.Measure("deliver", *figures_, [&] { return Deliver(replicated_first); });
      setting_.Measure("lateness", *figures_, [&] { return MeasureLateness(); });
      setting_.Measure("restore", *figures_, [&] { return Restore(i); });
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Start() {
    ASSIGN_OR_RETURN(auto postgres, fixtures::Postgres::Start());
    postgres_ = std::move(postgres);
    ASSIGN_OR_RETURN(auto raw, RawPostgres::Open(postgres_->url()));
    raw_ = std::move(raw);
    ASSIGN_OR_RETURN(
        auto alone,
        MakeSide({.bin = setting_.bin, .folder = setting_.folder + "/alone"}, receiver_));
    alone_ = std::move(alone);
    // The advertised address is not used, because there is no follower.
    ASSIGN_OR_RETURN(
        auto replicated,
        MakeSide({.bin = setting_.bin,
                  .folder = setting_.folder + "/replicated",
                  .extra_arguments = {{"standalone",
                                       {absl::StrCat("--replicate_through=", postgres_->url()),
                                        "--store_id=bench", "--advertise=127.0.0.1:1"}}}},
                 receiver_));
    replicated_ = std::move(replicated);
    return absl::OkStatus();
  }

  absl::Status Quiet() {
    RETURN_IF_ERROR(alone_.bed->AwaitIdle());
    RETURN_IF_ERROR(replicated_.bed->AwaitIdle());
    return receiver_->Clear();
  }

  absl::StatusOr<double> RawRate() {
    ASSIGN_OR_RETURN(const auto inserts,
                     raw_->InsertRate(std::max<uint64_t>(events_ / kEventsOfInsert, 1),
                                      kEventsOfInsert * kPayloadBytes, kInsertsInFlight));
    return inserts * kEventsOfInsert;
  }

  absl::Status Ingest(bool replicated_first) {
    double raw = 0, rate = 0, alone = 0;
    for (const bool replicated : {replicated_first, !replicated_first}) {
      RETURN_IF_ERROR(Quiet());
      if (replicated) {
        ASSIGN_OR_RETURN(const auto inserted, RawRate());
        raw = inserted;
      }
      ASSIGN_OR_RETURN(const auto measured,
                       (replicated ? replicated_ : alone_).stages->IngestRate(events_));
      (replicated ? rate : alone) = measured;
    }
    const std::string name = "ingest: one-off events, durable";
    figures_->Add(name, "/s", rate);
    figures_->AddRaw(name, "/s", "bare inserts of 1,000 x 500 B", raw);
    figures_->Add(name + ": part of the bare inserts", "x", rate / raw, {.at_least = 0.6});
    figures_->Add(name + ": part of the rate without replication", "x", rate / alone);
    return absl::OkStatus();
  }

  absl::Status Deliver(bool replicated_first) {
    const v1::Target target = integration::GrpcTo(receiver_->grpc_target());
    double rate = 0, alone = 0;
    for (const bool replicated : {replicated_first, !replicated_first}) {
      RETURN_IF_ERROR(Quiet());
      ASSIGN_OR_RETURN(const auto measured,
                       (replicated ? replicated_ : alone_).stages->OneOffRate(target, events_));
      (replicated ? rate : alone) = measured;
    }
    const std::string name = "deliver one-off events: gRPC, durable Done";
    figures_->Add(name, "/s", rate);
    figures_->AddRaw(name, "/s", "without replication", alone);
    figures_->Add(name + ": part of the rate without replication", "x", rate / alone,
                  {.at_least = 0.5});
    return absl::OkStatus();
  }

  absl::Status MeasureLateness() {
    RETURN_IF_ERROR(Quiet());
    ASSIGN_OR_RETURN(const auto late, replicated_.stages->LatenessAt(
                                          integration::GrpcTo(receiver_->grpc_target()),
                                          kLatenessPerSecond, setting_.quick ? 2000 : 4000));
    AddLateness(absl::StrCat("lateness at ", kLatenessPerSecond, "/s: "), late, {.at_most = 5},
                *figures_);
    return absl::OkStatus();
  }

  absl::Status Restore(int repetition) {
    const std::string folder = absl::StrCat(setting_.folder, "/restore", repetition);
    const uint64_t events = kRestoredEvents / (setting_.quick ? 10 : 1);
    ASSIGN_OR_RETURN(auto source, MakeSide({.bin = setting_.bin, .folder = folder}, receiver_));
    RETURN_IF_ERROR(source.stages->IngestRate(events).status());
    const std::string data = source.bed->data_folder();
    RETURN_IF_ERROR(source.bed->Stop());
    const std::vector<std::string> replica = {
        absl::StrCat("--replicate_through=", postgres_->url()),
        absl::StrCat("--replicated_log=restore", repetition), "--store_id=bench",
        "--advertise=127.0.0.1:1"};
    RETURN_IF_ERROR(MoveIntoLog(data, replica, folder));

    PlatformBed restored({.bin = setting_.bin,
                          .folder = folder + "/replica",
                          .extra_arguments = {{"standalone", replica}}});
    const absl::Time began = absl::Now();
    RETURN_IF_ERROR(restored.Start());
    const absl::Duration took = absl::Now() - began;
    ASSIGN_OR_RETURN(const auto rows, restored.Metric("standalone", "escapement_store_rows"));
    if (rows < static_cast<double>(events)) return absl::InternalError("events are missing");
    figures_->Add(absl::StrCat("restore of ", events, " pending events: start to ready"), "s",
                  absl::ToDoubleSeconds(took), {.at_most = 30});
    return restored.Stop();
  }

  absl::Status MoveIntoLog(const std::string& data, std::vector<std::string> arguments,
                           const std::string& folder) {
    arguments.insert(arguments.end(), {"--move_into_log", "--data_dir=" + data});
    ASSIGN_OR_RETURN(auto move, integration::ChildProcess::Start(
                                    {.program = setting_.bin + "/services/standalone/standalone",
                                     .arguments = std::move(arguments),
                                     .log = folder + "/move.log"}));
    ASSIGN_OR_RETURN(const auto code, move->Wait(absl::Minutes(5)));
    return code == 0 ? absl::OkStatus() : absl::InternalError("--move_into_log failed");
  }

  const BenchSetting& setting_;
  ReceiverProcess* const receiver_;
  Figures* const figures_;
  const uint64_t events_;
  std::unique_ptr<fixtures::Postgres> postgres_;
  std::unique_ptr<RawPostgres> raw_;
  Side alone_;
  Side replicated_;
};

absl::Status Run(const BenchSetting& setting, Figures& figures) {
  ASSIGN_OR_RETURN(auto receiver, ReceiverProcess::Start(setting.bin));
  return ReplicatedBench(setting, receiver.get(), &figures).Run();
}

}  // namespace
}  // namespace escapement::bench

int main(int argc, char** argv) {
  return escapement::bench::RunBench(
      argc, argv,
      {.name = "replicated",
       .usage = "the platform over a store that is replicated through PostgreSQL",
       .repetitions = 3,
       .run = escapement::bench::Run});
}
