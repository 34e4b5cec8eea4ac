// How much later events arrive while 1,000 HTTP clients send one byte of a request per second and
// 1,000 gRPC connections are open and idle, compared with the same load without these clients. Both
// are measured by turns in one run.
//
//   tools/dev bench slow_clients [--modes=standalone,separate] [--seconds=10] [flags of
//   bench_run.h]
//
// The clients connect to the standalone process, or to the master of five processes. The load is
// 1,000 one-off events a second, as in lateness.cc. Clients, receiver, platform and disk share the
// machine; one thread of this process plays all HTTP clients.

#include "tests/bench/beds/slow_clients.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "tests/bench/beds/delivery_peers.h"
#include "tests/bench/beds/platform_bed.h"
#include "tests/bench/figures/bench_run.h"
#include "tests/bench/stages/path_stages.h"
#include "tests/integration/api_client.h"

ABSL_FLAG(std::vector<std::string>, modes, (std::vector<std::string>{"standalone", "separate"}),
          "one process and five, in turn");
ABSL_FLAG(double, seconds, 10, "of each load");
ABSL_FLAG(int, http_clients, 1000, "slow HTTP clients");
ABSL_FLAG(int, grpc_connections, 1000, "idle gRPC connections");

namespace escapement::bench {
namespace {

constexpr size_t kPayloadBytes = 500;
constexpr double kPerSecond = 1000;
constexpr uint64_t kWarmEvents = 50'000;
// For the receiver, the ingest and the data.
constexpr uint64_t kOtherFiles = 1000;

class SlowClientsBench {
 public:
  SlowClientsBench(const BenchSetting& setting, PlatformBed* bed, ReceiverProcess* receiver)
      : seconds_(absl::GetFlag(FLAGS_seconds) / (setting.quick ? 2 : 1)),
        bed_(bed),
        target_(integration::GrpcTo(receiver->grpc_target())),
        stages_({.payload_bytes = kPayloadBytes}, bed, receiver) {}

  // A new platform is slower than one that has worked for a while.
  absl::Status Warm() { return stages_.OneOffRate(target_, kWarmEvents).status(); }

  // Measures with and without the clients; the order changes with each repetition.
  absl::Status Measure(int repetition, Figures& figures) {
    double p99_with = 0;
    double p99_without = 0;
    for (const bool with : {repetition % 2 != 0, repetition % 2 == 0}) {
      ASSIGN_OR_RETURN(const auto p99, with ? With(figures) : Without(figures));
      (with ? p99_with : p99_without) = p99;
    }
    figures.Add(bed_->mode() + ": p99 with slow clients, of that without", "%",
                100 * p99_with / p99_without, {.at_most = 200});
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<double> Without(Figures& figures) {
    // Ends the background work of the load before.
    bed_->AwaitIdle().IgnoreError();
    return P99("without slow clients", figures);
  }

  absl::StatusOr<double> With(Figures& figures) {
    bed_->AwaitIdle().IgnoreError();
    ASSIGN_OR_RETURN(
        const auto clients,
        SlowClients::Start({.http = bed_->http_front("master"),
                            .grpc = bed_->front("master"),
                            .http_clients = absl::GetFlag(FLAGS_http_clients),
                            .grpc_connections = absl::GetFlag(FLAGS_grpc_connections)}));
    const auto p99 = P99("with slow clients", figures);
    // Without the connections the figure would be none.
    RETURN_IF_ERROR(clients->CheckConnected());
    figures.Add(bed_->mode() + ": connections that slow HTTP clients opened", "",
                static_cast<double>(clients->http_connects()));
    return p99;
  }

  // Milliseconds.
  absl::StatusOr<double> P99(const std::string& name, Figures& figures) {
    ASSIGN_OR_RETURN(
        const auto late,
        stages_.LatenessAt(target_, kPerSecond, static_cast<uint64_t>(kPerSecond * seconds_)));
    AddLateness(absl::StrCat(bed_->mode(), ", ", name, ": "), late, {}, figures);
    return late.p99 / 1e3;
  }

  const double seconds_;
  PlatformBed* const bed_;
  const v1::Target target_;
  PathStages stages_;
};

absl::Status Run(const BenchSetting& setting, Figures& figures) {
  // Before the platform starts, which inherits the limit.
  const auto connections = static_cast<uint64_t>(absl::GetFlag(FLAGS_http_clients) +
                                                 absl::GetFlag(FLAGS_grpc_connections));
  RETURN_IF_ERROR(AllowOpenFiles(connections + kOtherFiles));
  ASSIGN_OR_RETURN(auto receiver, ReceiverProcess::Start(setting.bin));
  std::vector<std::unique_ptr<PlatformBed>> beds;
  std::vector<std::unique_ptr<SlowClientsBench>> benches;
  for (const std::string& mode : absl::GetFlag(FLAGS_modes)) {
    beds.push_back(std::make_unique<PlatformBed>(
        PlatformBed::Options{.bin = setting.bin,
                             .folder = absl::StrCat(setting.folder, "/", mode),
                             .separate = mode == "separate"}));
    RETURN_IF_ERROR(beds.back()->Start());
    benches.push_back(
        std::make_unique<SlowClientsBench>(setting, beds.back().get(), receiver.get()));
    RETURN_IF_ERROR(benches.back()->Warm());
  }
  for (int i = 0; i < setting.repetitions; ++i) {
    for (size_t j = 0; j < beds.size(); ++j) {
      setting.Measure(beds[j]->mode(), figures, [&] { return benches[j]->Measure(i, figures); });
    }
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace escapement::bench

int main(int argc, char** argv) {
  return escapement::bench::RunBench(
      argc, argv,
      {.name = "slow_clients",
       .usage = "how late events arrive beside slow HTTP clients and idle gRPC connections",
       .repetitions = 4,
       .run = escapement::bench::Run});
}
