// The whole path on this machine. Each figure is beside its raw limit from the same run.
//
//   tools/dev bench path [--separate] [--events=100000] [and the flags of bench_run.h]
//
// Client, receiver, platform and disk share the machine.

#include <unistd.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "services/handler/delivery/grpc/grpc_transport.h"
#include "services/handler/delivery/http/http_transport.h"
#include "tests/bench/beds/delivery_peers.h"
#include "tests/bench/beds/platform_bed.h"
#include "tests/bench/beds/stored_schedules.h"
#include "tests/bench/figures/bench_run.h"
#include "tests/bench/figures/machine.h"
#include "tests/bench/raw/raw_limits.h"
#include "tests/bench/stages/path_stages.h"
#include "tests/fixtures/raw_call.h"
#include "tests/integration/api_client.h"

ABSL_FLAG(bool, separate, false, "five processes instead of standalone");
ABSL_FLAG(bool, platform, true, "false: raw limits and transports only");
ABSL_FLAG(uint64_t, events, 100'000, "of each stage that measures a rate");
ABSL_FLAG(uint64_t, batch, 1'000'000, "events of the batch");
ABSL_FLAG(uint64_t, payload_bytes, 500, "of each event");

namespace escapement::bench {
namespace {

constexpr double kMiB = 1 << 20;
constexpr double kLatenessPerSecond = 1000;
constexpr int kRawCurlInFlight = 64;
// Raw limits of the machine for which the design's rates were set. Where the fastest measured
// machine has less, its limit stands here.
constexpr double kRawRowsThere = 233e3;
constexpr double kRawRowsWithoutPayloadThere = 560e3;
constexpr double kRawGrpcThere = 128e3;
constexpr double kRawCurlThere = 53e3;
constexpr char kOneOffGrpc[] = "deliver one-off events: gRPC, durable Done";
constexpr char kBatches[] = "RocksDB, synced batches of 1,000";

// The bound for a rate that was set on a machine with this raw limit.
Bound RateOf(double per_second, double raw_there) {
  return {.at_least = per_second, .of_raw = per_second / raw_there};
}

class PathBench {
 public:
  PathBench(const BenchSetting& setting, PlatformBed* bed, ReceiverProcess* receiver,
            Figures* figures)
      : setting_(setting),
        bed_(bed),
        receiver_(receiver),
        figures_(figures),
        events_(absl::GetFlag(FLAGS_events) / (setting.quick ? 2 : 1)),
        payload_bytes_(absl::GetFlag(FLAGS_payload_bytes)),
        raw_store_(setting.folder + "/raw"),
        stages_({.payload_bytes = payload_bytes_}, bed, receiver) {}

  void Run(bool platform) {
    for (int i = 0; i < setting_.repetitions; ++i) {
      RunTransports();
      if (platform) RunPlatform(i);
    }
  }

 private:
  // Measures a row once, after its raw limit. Returns the rate; 0 if it was not measured.
  double Rate(absl::string_view row, absl::string_view raw_name, const std::function<double()>& raw,
              const std::function<absl::StatusOr<double>()>& measure, const Bound& bound = {}) {
    if (!setting_.Wanted(row)) return 0;
    AwaitQuiet();
    figures_->AddRaw(row, "/s", raw_name, raw());
    absl::Status status = receiver_->Clear();
    const auto measured = status.ok() ? measure() : status;
    if (!measured.ok()) {
      figures_->AddFailure(row, measured.status());
      return 0;
    }
    figures_->Add(row, "/s", *measured, bound);
    return *measured;
  }

  // Waits for background work that earlier rows left in this process (its own RocksDB) and in the
  // platform. If that takes very long, the measurement begins anyway.
  void AwaitQuiet() {
    const auto cpu_seconds = [this] {
      return (absl::GetFlag(FLAGS_platform) ? bed_->CpuSeconds() : 0) + CpuSecondsOf(getpid());
    };
    AwaitIdle(cpu_seconds).IgnoreError();
  }

  double RawGrpc() { return RawGrpcStream(receiver_->grpc_target(), events_, payload_bytes_); }
  double RawHttp() {
    return RawCurl(receiver_->http_origin(), events_, payload_bytes_, kRawCurlInFlight);
  }

  void RunTransports() {
    Rate(
        "transport alone: gRPC stream", "bare gRPC stream", [this] { return RawGrpc(); },
        [this]() -> absl::StatusOr<double> {
          handler::GrpcTransport transport(fixtures::OnLoopback<handler::GrpcTransport>());
          return TransportRate(transport, receiver_->grpc_target(), events_, payload_bytes_, 4096);
        });
    Rate(
        "transport alone: HTTP", "bare libcurl multi", [this] { return RawHttp(); },
        [this]() -> absl::StatusOr<double> {
          handler::HttpTransport transport(fixtures::OnLoopback<handler::HttpTransport>());
          return TransportRate(transport, receiver_->http_origin() + "/bench", events_,
                               payload_bytes_, 4096);
        });
  }

  void RunPlatform(int repetition) {
    const v1::Target grpc = integration::GrpcTo(receiver_->grpc_target());
    const v1::Target http = integration::HttpTo(receiver_->http_origin() + "/bench");
    const auto raw_rows = [this] { return raw_store_.PutRows(events_, payload_bytes_); };
    const auto raw_grpc = [this] { return RawGrpc(); };
    const auto raw_http = [this] { return RawHttp(); };
    const auto run = [this](const v1::Target& target) -> absl::StatusOr<double> {
      ASSIGN_OR_RETURN(const auto result, stages_.RunRate(target, events_));
      return result.per_second;
    };
    Rate(
        "ingest: one-off events, durable", kBatches, raw_rows,
        [this] { return stages_.IngestRate(events_); }, RateOf(150e3, kRawRowsThere));
    Rate(
        "ingest: one-off events, client-chosen ids, durable", kBatches, raw_rows,
        [this] { return stages_.IngestRate(events_, Ids::kClientChosen); },
        RateOf(90e3, kRawRowsThere));
    Rate(
        "ingest: one-off events that replace others, durable", kBatches, raw_rows,
        [this] { return stages_.IngestRate(events_, Ids::kReplaced); },
        RateOf(54e3, kRawRowsThere));
    Rate(
        "emission: children to durable event rows", "RocksDB, synced batches of 1,000, no payload",
        [this] { return raw_store_.PutRows(events_, 0); },
        [this, repetition] { return EmissionRate(repetition); },
        RateOf(250e3, kRawRowsWithoutPayloadThere));
    const double single = Rate(
        kOneOffGrpc, "bare gRPC stream", raw_grpc,
        [this, grpc] { return stages_.OneOffRate(grpc, events_); }, RateOf(100e3, kRawGrpcThere));
    Rate(
        "deliver a run: gRPC, durable Done", "bare gRPC stream", raw_grpc,
        [run, grpc] { return run(grpc); }, RateOf(100e3, kRawGrpcThere));
    Rate(
        "deliver one-off events: HTTP, durable Done", "bare libcurl multi", raw_http,
        [this, http] { return stages_.OneOffRate(http, events_); }, RateOf(40e3, kRawCurlThere));
    Rate(
        "deliver a run: HTTP, durable Done", "bare libcurl multi", raw_http,
        [run, http] { return run(http); }, RateOf(40e3, kRawCurlThere));
    constexpr absl::string_view kChurn = "bare: put, then Done and delete";
    if (setting_.Wanted(kChurn))
      figures_->AddRaw(kChurn, "/s", kBatches, raw_store_.ChurnRows(events_, payload_bytes_));
    if (setting_.Wanted("batch")) MeasureBatch(grpc, single);
    if (setting_.Wanted("lateness")) MeasureLateness(grpc);
  }

  // Runs in this process: the emitter's own windows over a store whose schedules are all due.
  absl::StatusOr<double> EmissionRate(int repetition) {
    if (stored_ == nullptr) {
      ASSIGN_OR_RETURN(
          auto made,
          StoredSchedules::Make({.folder = setting_.folder + "/schedules",
                                 .schedules = static_cast<int64_t>(events_) * setting_.repetitions,
                                 .due_per_window = static_cast<int64_t>(events_),
                                 .windows = setting_.repetitions}));
      stored_ = std::move(made);
      if (const auto created = stored_->Create(); !created.ok()) return created.status();
    }
    ASSIGN_OR_RETURN(const auto emitted, stored_->Emit(repetition));
    if (emitted.occurrences != static_cast<int64_t>(events_))
      return absl::InternalError(absl::StrCat(emitted.occurrences, " occurrences"));
    return static_cast<double>(events_) / emitted.seconds;
  }

  // `single`: this repetition's rate of one-off events; 0 if it was not measured.
  void MeasureBatch(const v1::Target& target, double single) {
    const uint64_t batch = absl::GetFlag(FLAGS_batch) / (setting_.quick ? 10 : 1);
    const std::string name = absl::StrCat("a batch of ", batch, ": ");
    AwaitQuiet();
    const uint64_t before = bed_->ResidentBytes();
    const auto result = stages_.RunRate(target, batch);
    if (!result.ok()) return figures_->AddFailure(name, result.status());
    figures_->Add(name + "set off, its rows durable", "ms", result->trigger_seconds * 1e3,
                  {.at_most = 10});
    figures_->Add(name + "delivered, gRPC", "/s", result->per_second);
    if (single > 0) {
      figures_->Add(name + "rate as part of one-off events'", "%",
                    100 * result->per_second / single, {.at_least = 90});
    }
    figures_->Add(
        name + "resident memory more at its end", "MiB",
        (static_cast<double>(bed_->ResidentBytes()) - static_cast<double>(before)) / kMiB);
  }

  void MeasureLateness(const v1::Target& target) {
    const std::string name = absl::StrCat("lateness at ", kLatenessPerSecond, "/s: ");
    AwaitQuiet();
    const auto late = stages_.LatenessAt(target, kLatenessPerSecond, setting_.quick ? 2000 : 4000);
    if (!late.ok()) return figures_->AddFailure(name, late.status());
    AddLateness(name, *late, {.at_most = 2}, *figures_);
  }

  const BenchSetting& setting_;
  PlatformBed* const bed_;
  ReceiverProcess* const receiver_;
  Figures* const figures_;
  const uint64_t events_;
  const size_t payload_bytes_;
  RawStore raw_store_;
  PathStages stages_;
  std::unique_ptr<StoredSchedules> stored_;
};

absl::Status Run(const BenchSetting& setting, Figures& figures) {
  ASSIGN_OR_RETURN(auto receiver, ReceiverProcess::Start(setting.bin));
  const bool platform = absl::GetFlag(FLAGS_platform);
  PlatformBed bed({.bin = setting.bin,
                   .folder = setting.folder + "/platform",
                   .separate = absl::GetFlag(FLAGS_separate)});
  RETURN_IF_ERROR(platform ? bed.Start() : absl::OkStatus());
  PathBench(setting, &bed, receiver.get(), &figures).Run(platform);
  return absl::OkStatus();
}

}  // namespace
}  // namespace escapement::bench

int main(int argc, char** argv) {
  return escapement::bench::RunBench(
      argc, argv,
      {.name = "path",
       .usage = "measures the whole path beside the raw limits of this machine",
       .repetitions = 3,
       .run = escapement::bench::Run});
}
