// The whole path on this machine, each figure beside the raw limit that was measured in the same
// run.
//
//   bazel run -c opt //tests/bench:path -- [--separate] [--repetitions=3] [--only=ingest] [--json]
//
// Client, receiver, platform and disk share the machine. Every process has a port of its own choice
// and data in a temporary folder, which is removed at the end. Exit code: 0, or 1 if a stage
// failed.

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "services/handler/grpc_transport.h"
#include "services/handler/http_transport.h"
#include "tests/bench/path_stages.h"
#include "tests/bench/raw_send.h"
#include "tests/bench/raw_store.h"
#include "tests/bench/receiver_process.h"
#include "tests/bench/report.h"
#include "tests/bench/transport_rates.h"
#include "tests/integration/api_client.h"

ABSL_FLAG(std::string, bin, ".", "the folder that holds services/ and tests/ as built");
ABSL_FLAG(bool, separate, false,
          "store, master, emitter and handler as processes of their own instead of standalone");
ABSL_FLAG(bool, platform, true, "false: raw limits and transports only");
ABSL_FLAG(int, repetitions, 1, "medians of so many, interleaved");
ABSL_FLAG(uint64_t, events, 100'000, "of each stage that measures a rate");
ABSL_FLAG(uint64_t, payload_bytes, 500, "of each event");
ABSL_FLAG(std::string, only, "", "only rows whose name contains this");
ABSL_FLAG(bool, json, false, "print JSON instead of a table");

namespace escapement::bench {
namespace {

constexpr double kLatenessPerSecond = 1000;
constexpr uint64_t kLatenessEvents = 4000;
constexpr int kRawCurlInFlight = 64;

class PathBench {
 public:
  PathBench(std::string folder, ReceiverProcess* receiver)
      : folder_(std::move(folder)),
        receiver_(receiver),
        events_(absl::GetFlag(FLAGS_events)),
        payload_bytes_(absl::GetFlag(FLAGS_payload_bytes)),
        raw_store_(folder_ + "/raw"),
        stages_({.bin = absl::GetFlag(FLAGS_bin),
                 .folder = folder_,
                 .separate = absl::GetFlag(FLAGS_separate),
                 .payload_bytes = payload_bytes_},
                receiver) {}

  absl::Status StartPlatform() { return stages_.Start(); }

  void Run(bool platform) {
    const auto repeat = absl::GetFlag(FLAGS_repetitions);
    for (int i = 0; i < repeat; ++i) {
      RunTransports();
      if (platform) RunPlatform();
    }
  }

  const Report& report() const { return report_; }

 private:
  static bool Wanted(absl::string_view row) {
    return absl::StrContains(row, absl::GetFlag(FLAGS_only));
  }

  // Measures a row once: the raw limit first.
  void Rate(absl::string_view row, absl::string_view raw_name, const std::function<double()>& raw,
            const std::function<absl::StatusOr<double>()>& measure) {
    if (!Wanted(row)) return;
    report_.AddRow(row, Unit::kPerSecond, raw_name);
    report_.AddRaw(row, raw());
    if (absl::Status status = receiver_->Clear(); !status.ok())
      return report_.AddFailure(row, status.ToString());
    const auto measured = measure();
    if (!measured.ok()) return report_.AddFailure(row, measured.status().ToString());
    report_.AddMeasured(row, *measured);
  }

  double RawGrpc() { return RawGrpcStream(receiver_->grpc_target(), events_, payload_bytes_); }
  double RawHttp() {
    return RawCurl(receiver_->http_origin(), events_, payload_bytes_, kRawCurlInFlight);
  }

  void RunTransports() {
    Rate(
        "transport alone: gRPC stream", "bare gRPC stream", [this] { return RawGrpc(); },
        [this]() -> absl::StatusOr<double> {
          handler::GrpcTransport transport({});
          return TransportRate(transport, receiver_->grpc_target(), events_, payload_bytes_, 4096);
        });
    Rate(
        "transport alone: HTTP", "bare libcurl multi", [this] { return RawHttp(); },
        [this]() -> absl::StatusOr<double> {
          handler::HttpTransport transport({});
          return TransportRate(transport, receiver_->http_origin() + "/bench", events_,
                               payload_bytes_, 4096);
        });
  }

  void RunPlatform() {
    const v1::Target grpc = integration::GrpcTo(receiver_->grpc_target());
    const v1::Target http = integration::HttpTo(receiver_->http_origin() + "/bench");
    Rate(
        "ingest: one-off events, durable", "RocksDB, synced batches of 1,000",
        [this] { return raw_store_.PutRows(events_, payload_bytes_); },
        [this] { return stages_.IngestRate(events_); });
    Rate(
        "deliver one-off events: gRPC, durable Done", "bare gRPC stream",
        [this] { return RawGrpc(); }, [this, grpc] { return stages_.OneOffRate(grpc, events_); });
    Rate(
        "deliver a run: gRPC, durable Done", "bare gRPC stream", [this] { return RawGrpc(); },
        [this, grpc] { return stages_.RunRate(grpc, events_); });
    Rate(
        "deliver one-off events: HTTP, durable Done", "bare libcurl multi",
        [this] { return RawHttp(); }, [this, http] { return stages_.OneOffRate(http, events_); });
    Rate(
        "deliver a run: HTTP, durable Done", "bare libcurl multi", [this] { return RawHttp(); },
        [this, http] { return stages_.RunRate(http, events_); });
    constexpr absl::string_view kChurn = "put, then Done and delete";
    if (Wanted(kChurn)) {
      report_.AddRow(kChurn, Unit::kPerSecond, "RocksDB, synced batches of 1,000");
      report_.AddRaw(kChurn, raw_store_.ChurnRows(events_, payload_bytes_));
    }
    if (Wanted("lateness")) MeasureLateness(grpc);
  }

  void MeasureLateness(const v1::Target& target) {
    const std::string row = absl::StrCat("lateness at ", kLatenessPerSecond, "/s: ");
    const fixtures::LatencyHistogram raw = RawTimer(kLatenessEvents, kLatenessPerSecond);
    const auto measured = stages_.LatenessAt(target, kLatenessPerSecond, kLatenessEvents);
    for (const auto& [name, raw_value] :
         {std::pair<std::string, int64_t>("p50", raw.Percentile(0.5)),
          {"p99", raw.Percentile(0.99)},
          {"max", raw.max()}}) {
      report_.AddRow(row + name, Unit::kMicros, "bare timer");
      report_.AddRaw(row + name, static_cast<double>(raw_value));
    }
    if (!measured.ok()) return report_.AddFailure(row + "p50", measured.status().ToString());
    report_.AddMeasured(row + "p50", measured->p50);
    report_.AddMeasured(row + "p99", measured->p99);
    report_.AddMeasured(row + "max", measured->max);
    if (measured->early > 0)
      report_.AddFailure(row + "p50", absl::StrCat(measured->early, " events were early"));
  }

  const std::string folder_;
  ReceiverProcess* const receiver_;
  const uint64_t events_;
  const size_t payload_bytes_;
  RawStore raw_store_;
  PathStages stages_;
  Report report_;
};

int Main(const std::string& folder) {
  auto receiver = ReceiverProcess::Start(absl::GetFlag(FLAGS_bin));
  if (!receiver.ok()) {
    std::cerr << "receiver: " << receiver.status() << "\n";
    return 1;
  }
  PathBench bench(folder, receiver->get());
  const bool platform = absl::GetFlag(FLAGS_platform);
  if (platform) {
    if (absl::Status status = bench.StartPlatform(); !status.ok()) {
      std::cerr << "platform: " << status << "\n";
      return 1;
    }
  }
  bench.Run(platform);
  std::cout << (absl::GetFlag(FLAGS_json) ? bench.report().Json() : bench.report().Table())
            << std::endl;
  return bench.report().failed() ? 1 : 0;
}

}  // namespace
}  // namespace escapement::bench

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("measures the whole path beside the raw limits of this machine");
  absl::ParseCommandLine(argc, argv);
  const char* tmp = std::getenv("TMPDIR");
  std::string folder = absl::StrCat(tmp == nullptr ? "/tmp" : tmp, "/escapement-bench-XXXXXX");
  if (mkdtemp(folder.data()) == nullptr) {
    std::cerr << "cannot make " << folder << "\n";
    return 1;
  }
  const int code = escapement::bench::Main(folder);
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return code;
}
