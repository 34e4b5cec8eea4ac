// The cost of five processes compared with one, and of a second handler and a second emitter
// compared with one of each: rates of ingest and delivery, interleaved in one run.
//
//   tools/dev bench separate [--events=100000] [and the flags of bench_run.h]
//
// All three platforms run all the time, each with its own data; two of them are idle. Client,
// receiver, platforms and disk share the machine. On two cores each further process costs work.

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "tests/bench/beds/delivery_peers.h"
#include "tests/bench/beds/platform_bed.h"
#include "tests/bench/figures/bench_run.h"
#include "tests/bench/raw/raw_limits.h"
#include "tests/bench/stages/path_stages.h"
#include "tests/integration/api_client.h"

ABSL_FLAG(uint64_t, events, 100'000, "of each rate");

namespace escapement::bench {
namespace {

constexpr size_t kPayloadBytes = 500;
constexpr int kRawCurlInFlight = 64;

struct Candidate {
  std::string name;
  std::unique_ptr<PlatformBed> bed;
  std::unique_ptr<PathStages> stages;
};

// A rate that is measured on every platform, and how.
struct Rate {
  std::string name;
  std::string raw_name;
  std::function<double()> raw;
  std::function<absl::StatusOr<double>(PathStages&)> measure;
};

class SeparateBench {
 public:
  SeparateBench(const BenchSetting& setting, ReceiverProcess* receiver)
      : setting_(setting),
        receiver_(receiver),
        events_(absl::GetFlag(FLAGS_events) / (setting.quick ? 2 : 1)),
        raw_store_(setting.folder + "/raw") {}

  absl::Status Start() {
    for (const auto& [name, separate, count] :
         {std::tuple("standalone", false, 1), {"five processes", true, 1}, {kTwoOfEach, true, 2}}) {
      auto bed = std::make_unique<PlatformBed>(
          PlatformBed::Options{.bin = setting_.bin,
                               .folder = absl::StrCat(setting_.folder, "/", candidates_.size()),
                               .separate = separate,
                               .handlers = count,
                               .emitters = count});
      RETURN_IF_ERROR(bed->Start());
      auto stages = std::make_unique<PathStages>(
          PathStages::Options{.payload_bytes = kPayloadBytes}, bed.get(), receiver_);
      candidates_.push_back({name, std::move(bed), std::move(stages)});
    }
    return absl::OkStatus();
  }

  void Run(Figures& figures) {
    // A new platform is slower than one that has worked for a while.
    for (Candidate& candidate : candidates_) {
      if (const auto warm = candidate.stages->OneOffRate(Grpc(), events_ / 4); !warm.ok())
        figures.AddFailure(candidate.name, warm.status());
    }
    for (int i = 0; i < setting_.repetitions; ++i) {
      for (const Rate& rate : Rates()) {
        if (setting_.Wanted(rate.name)) Measure(rate, figures);
      }
    }
  }

 private:
  static constexpr char kTwoOfEach[] = "seven, with 2 handlers and 2 emitters";

  v1::Target Grpc() const { return integration::GrpcTo(receiver_->grpc_target()); }

  std::vector<Rate> Rates() {
    const v1::Target http = integration::HttpTo(receiver_->http_origin() + "/bench");
    return {{"ingest", "RocksDB, synced batches of 1,000",
             [this] { return raw_store_.PutRows(events_, kPayloadBytes); },
             [this](PathStages& stages) { return stages.IngestRate(events_); }},
            {"delivery, gRPC", "bare gRPC stream",
             [this] { return RawGrpcStream(receiver_->grpc_target(), events_, kPayloadBytes); },
             [this](PathStages& stages) { return stages.OneOffRate(Grpc(), events_); }},
            {"delivery, HTTP", "bare libcurl multi",
             [this] {
               return RawCurl(receiver_->http_origin(), events_, kPayloadBytes, kRawCurlInFlight);
             },
             [this, http](PathStages& stages) { return stages.OneOffRate(http, events_); }}};
  }

  void Measure(const Rate& rate, Figures& figures) {
    const double raw = rate.raw();
    std::map<std::string, double> measured;
    for (Candidate& candidate : candidates_) {
      const std::string row = absl::StrCat(rate.name, ": ", candidate.name);
      const auto value = rate.measure(*candidate.stages);
      // Background work (compaction…) of this platform must not disturb the next one.
      if (absl::Status status = candidate.bed->AwaitIdle(); !status.ok())
        figures.AddFailure(row + ": until idle", status);
      if (!value.ok()) {
        figures.AddFailure(row, value.status());
        continue;
      }
      measured[candidate.name] = *value;
      figures.Add(row, "/s", *value);
      figures.AddRaw(row, "/s", rate.raw_name, raw);
    }
    if (measured.size() < candidates_.size()) return;
    figures.Add(rate.name + ": five processes, of standalone", "%",
                100 * measured["five processes"] / measured["standalone"], {.at_least = 60});
    figures.Add(rate.name + ": two of each, of five processes", "%",
                100 * measured[kTwoOfEach] / measured["five processes"], {.at_least = 90});
  }

  const BenchSetting& setting_;
  ReceiverProcess* const receiver_;
  const uint64_t events_;
  RawStore raw_store_;
  std::vector<Candidate> candidates_;
};

absl::Status Run(const BenchSetting& setting, Figures& figures) {
  ASSIGN_OR_RETURN(auto receiver, ReceiverProcess::Start(setting.bin));
  SeparateBench bench(setting, receiver.get());
  RETURN_IF_ERROR(bench.Start());
  bench.Run(figures);
  return absl::OkStatus();
}

}  // namespace
}  // namespace escapement::bench

int main(int argc, char** argv) {
  return escapement::bench::RunBench(
      argc, argv,
      {.name = "separate",
       .usage = "rates of one process, of five and of seven, interleaved",
       .repetitions = 5,
       .run = escapement::bench::Run});
}
