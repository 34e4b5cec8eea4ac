// How late events arrive (receipt less due time) under light load, half of full load and full load,
// beside a bare timer of this process at the same time.
//
// Full load is the rate that the platform delivers when more events fall due than it can deliver,
// at evenly spread instants. The offered rate is the rate of events that are due all at once, since
// those go out in larger batches. Half of that rate is measured, too.
//
//   tools/dev bench lateness [--modes=standalone,separate] [--seconds=10] [flags of bench_run.h]
//
// The load is one-off events of 500 B, stored before the first is due, due at evenly spread
// instants; they go over a gRPC stream. Client, receiver, platform and disk share the machine.

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

ABSL_FLAG(std::vector<std::string>, modes, (std::vector<std::string>{"standalone", "separate"}),
          "one process and five, in turn");
ABSL_FLAG(double, light_per_second, 1000, "the light load");
ABSL_FLAG(double, seconds, 10, "of each load");
ABSL_FLAG(uint64_t, rate_events, 200'000, "that are due at once");

namespace escapement::bench {
namespace {

constexpr size_t kPayloadBytes = 500;

struct Load {
  std::string name;
  double per_second = 0;
  Bound p99;
};

class LatenessBench {
 public:
  LatenessBench(const BenchSetting& setting, PlatformBed* bed, ReceiverProcess* receiver)
      : quick_(setting.quick),
        bed_(bed),
        receiver_(receiver),
        target_(integration::GrpcTo(receiver->grpc_target())),
        stages_({.payload_bytes = kPayloadBytes}, bed, receiver) {}

  absl::Status Measure(Figures& figures) {
    const std::string name = bed_->mode() + ", ";
    const uint64_t events = absl::GetFlag(FLAGS_rate_events) / (quick_ ? 4 : 1);
    figures.AddRaw(name + "due at once", "/s", "bare gRPC stream",
                   RawGrpcStream(receiver_->grpc_target(), events, kPayloadBytes));
    ASSIGN_OR_RETURN(const auto at_once, stages_.OneOffRate(target_, events));
    figures.Add(name + "due at once", "/s", at_once);
    ASSIGN_OR_RETURN(const auto full, Measure(name, {"full load", at_once, {}}, figures));
    figures.Add(name + "full load", "/s", full);
    const double light = absl::GetFlag(FLAGS_light_per_second);
    for (const Load& load : {Load{absl::StrCat(light, "/s"), light, {.at_most = 2}},
                             Load{"half of full load", full / 2, {.at_most = 10}},
                             Load{"half of the rate of what is due at once", at_once / 2, {}}}) {
      if (const auto done = Measure(name, load, figures); !done.ok()) return done.status();
    }
    return absl::OkStatus();
  }

 private:
  // Returns the arrivals in a second, from the first due time to the last receipt.
  absl::StatusOr<double> Measure(const std::string& name, const Load& load, Figures& figures) {
    bed_->AwaitIdle().IgnoreError();  // ends the background work of the load before
    const double seconds = absl::GetFlag(FLAGS_seconds) / (quick_ ? 5 : 1);
    const auto events = static_cast<uint64_t>(load.per_second * seconds);
    ASSIGN_OR_RETURN(const auto late, stages_.LatenessAt(target_, load.per_second, events));
    AddLateness(absl::StrCat(name, load.name, ": "), late, load.p99, figures);
    return static_cast<double>(events) / (seconds + late.last / 1e6);
  }

  const bool quick_;
  PlatformBed* const bed_;
  ReceiverProcess* const receiver_;
  const v1::Target target_;
  PathStages stages_;
};

absl::Status Run(const BenchSetting& setting, Figures& figures) {
  ASSIGN_OR_RETURN(auto receiver, ReceiverProcess::Start(setting.bin));
  std::vector<std::unique_ptr<PlatformBed>> beds;
  for (const std::string& mode : absl::GetFlag(FLAGS_modes)) {
    beds.push_back(std::make_unique<PlatformBed>(
        PlatformBed::Options{.bin = setting.bin,
                             .folder = absl::StrCat(setting.folder, "/", mode),
                             .separate = mode == "separate"}));
    RETURN_IF_ERROR(beds.back()->Start());
  }
  for (int i = 0; i < setting.repetitions; ++i) {
    for (const auto& bed : beds) {
      setting.Measure(bed->mode(), figures, [&] {
        return LatenessBench(setting, bed.get(), receiver.get()).Measure(figures);
      });
    }
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace escapement::bench

int main(int argc, char** argv) {
  return escapement::bench::RunBench(
      argc, argv,
      {.name = "lateness",
       .usage = "how late events arrive under light, half and full load",
       .repetitions = 3,
       .run = escapement::bench::Run});
}
