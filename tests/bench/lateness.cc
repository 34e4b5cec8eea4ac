// How late events arrive: receipt less due time, under light load, half and all of the rate of
// delivery that was measured just before, beside a bare timer of this process at the same time.
//
//   tools/dev bench lateness [--modes=standalone,separate] [--seconds=10] [flags of bench_run.h]
//
// Events are one-off ones with 500 B, stored before the first is due, due at evenly spread
// instants; they go over a gRPC stream. Client, receiver, platform and disk share the machine.

#include <memory>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "tests/bench/bench_run.h"
#include "tests/bench/path_stages.h"
#include "tests/bench/platform_bed.h"
#include "tests/bench/raw_send.h"
#include "tests/bench/receiver_process.h"
#include "tests/integration/api_client.h"

ABSL_FLAG(std::vector<std::string>, modes, (std::vector<std::string>{"standalone", "separate"}),
          "one process and five, in turn");
ABSL_FLAG(double, light_per_second, 1000, "the light load");
ABSL_FLAG(double, seconds, 10, "of each load");
ABSL_FLAG(uint64_t, rate_events, 200'000, "by which the full rate is measured");

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
    figures.AddRaw(name + "full rate", "/s", "bare gRPC stream",
                   RawGrpcStream(receiver_->grpc_target(), events, kPayloadBytes));
    const auto full = stages_.OneOffRate(target_, events);
    if (!full.ok()) return full.status();
    figures.Add(name + "full rate", "/s", *full);
    const double light = absl::GetFlag(FLAGS_light_per_second);
    const double seconds = absl::GetFlag(FLAGS_seconds) / (quick_ ? 5 : 1);
    for (const Load& load : {Load{absl::StrCat(light, "/s"), light, {.at_most = 2}},
                             Load{"half of the full rate", *full / 2, {.at_most = 10}},
                             Load{"the full rate", *full, {}}}) {
      const auto late = stages_.LatenessAt(target_, load.per_second,
                                           static_cast<uint64_t>(load.per_second * seconds));
      if (!late.ok()) return late.status();
      AddLateness(absl::StrCat(name, load.name, ": "), *late, load.p99, figures);
    }
    return absl::OkStatus();
  }

 private:
  const bool quick_;
  PlatformBed* const bed_;
  ReceiverProcess* const receiver_;
  const v1::Target target_;
  PathStages stages_;
};

absl::Status Run(const BenchSetting& setting, Figures& figures) {
  auto receiver = ReceiverProcess::Start(setting.bin);
  if (!receiver.ok()) return receiver.status();
  std::vector<std::unique_ptr<PlatformBed>> beds;
  for (const std::string& mode : absl::GetFlag(FLAGS_modes)) {
    beds.push_back(std::make_unique<PlatformBed>(
        PlatformBed::Options{.bin = setting.bin,
                             .folder = absl::StrCat(setting.folder, "/", mode),
                             .separate = mode == "separate"}));
    if (absl::Status status = beds.back()->Start(); !status.ok()) return status;
  }
  for (int i = 0; i < setting.repetitions; ++i) {
    for (const auto& bed : beds) {
      setting.Measure(bed->mode(), figures, [&] {
        return LatenessBench(setting, bed.get(), receiver->get()).Measure(figures);
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
