// Each transport beside the bare client of its protocol, in one run: a run of events through the
// whole platform, until each success is durable, and the transport alone. The peers are processes
// of their own; all share the machine.
//
//   tools/dev bench delivery [--only=HTTPS] [--share=0.1] [and the flags of bench_run.h]

#include <signal.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "tests/bench/beds/delivery_peers.h"
#include "tests/bench/beds/platform_bed.h"
#include "tests/bench/figures/bench_run.h"
#include "tests/bench/raw/raw_limits.h"
#include "tests/bench/stages/delivery_stages.h"

ABSL_FLAG(double, share, 1, "measures this part of the usual number of events");
ABSL_FLAG(bool, alone, true, "also measures the transports alone");

namespace escapement::bench {
namespace {

constexpr size_t kPayloadBytes = 500;
// The bare clients have as many requests or records out as the transport of their kind, with as
// many threads: the defaults of the handler's flags.
constexpr int kHttpInFlight = 64;
constexpr int kSqsInFlight = 8;
constexpr int kMailConnections = 4;
constexpr uint64_t kKafkaOutstanding = 4096;
// Raw limits of the machine for which the rates were set (path.cc).
constexpr double kRawGrpcThere = 128e3;
constexpr double kRawCurlThere = 53e3;

// One transport.
struct Row {
  std::string name;
  std::string raw_name;
  uint64_t events = 0;
  std::function<double(uint64_t events)> raw;
  v1::Target target;
  Bound rate = {};   // events per second
  Bound share = {};  // percent of the bare client's rate
};

Bound RateOf(double per_second, double raw_there) {
  return {.at_least = per_second, .of_raw = per_second / raw_there};
}

std::vector<Row> RowsOf(const DeliveryPeers& peers) {
  const auto curl = [](std::string origin, std::string ca) {
    return [origin, ca](uint64_t events) {
      return RawCurl(origin, events, kPayloadBytes, kHttpInFlight, ca);
    };
  };
  return {
      {.name = "HTTP",
       .raw_name = "bare libcurl multi",
       .events = 100'000,
       .raw = curl(peers.receiver().http_origin(), ""),
       .target = peers.Http(),
       .rate = RateOf(40e3, kRawCurlThere)},
      {.name = "gRPC",
       .raw_name = "bare gRPC stream",
       .events = 200'000,
       .raw =
           [&peers](uint64_t events) {
             return RawGrpcStream(peers.receiver().grpc_target(), events, kPayloadBytes);
           },
       .target = peers.Grpc(),
       .rate = RateOf(100e3, kRawGrpcThere)},
      {.name = "HTTPS",
       .raw_name = "bare libcurl multi, TLS",
       .events = 50'000,
       .raw = curl(peers.https_origin(), peers.ca()),
       .target = peers.Https(),
       .share = {.at_least = 70}},
      {.name = "SQS",
       .raw_name = "bare SendMessageBatch, signed libcurl",
       .events = 100'000,
       .raw =
           [&peers](uint64_t events) {
             return RawSqs(peers.receiver().http_origin(), peers.queue_url(),
                           DeliveryPeers::kSqsCredentials, events, kPayloadBytes, kSqsInFlight);
           },
       .target = peers.Sqs(),
       .share = {.at_least = 70}},
      {.name = "Kafka",
       .raw_name = "bare producer of librdkafka",
       .events = 400'000,
       .raw =
           [&peers](uint64_t events) {
             return RawKafka(peers.brokers(), DeliveryPeers::kTopic, events, kPayloadBytes,
                             kKafkaOutstanding);
           },
       .target = peers.Kafka(),
       .share = {.at_least = 60}},
      {.name = "e-mail",
       .raw_name = "bare libcurl, a thread for each connection",
       .events = 10'000,
       .raw =
           [&peers](uint64_t events) {
             return RawMail(peers.smtp_uri(), events, kPayloadBytes, kMailConnections);
           },
       .target = peers.Email()},
  };
}

absl::Status Measure(const Row& row, uint64_t events, const DeliveryPeers& peers,
                     DeliveryStages& stages, Figures& figures) {
  RETURN_IF_ERROR(peers.receiver().Clear());
  const std::string name = row.name + ": ";
  const double raw = row.raw(events);
  if (raw == 0) return absl::InternalError("the peer did not answer the bare client");
  if (absl::GetFlag(FLAGS_alone)) {
    RETURN_IF_ERROR(peers.receiver().Clear());
    ASSIGN_OR_RETURN(const auto alone, stages.TransportRateTo(row.target, events));
    figures.AddRaw(name + "transport alone", "/s", row.raw_name, raw);
    figures.Add(name + "transport alone", "/s", alone);
  }
  RETURN_IF_ERROR(peers.receiver().Clear());
  ASSIGN_OR_RETURN(const auto rate, stages.RunRate(row.target, events));
  figures.AddRaw(name + "a run, durable Done", "/s", row.raw_name, raw);
  figures.Add(name + "a run, durable Done", "/s", rate, row.rate);
  figures.Add(name + "part of the bare client's rate", "%", 100 * rate / raw, row.share);
  return absl::OkStatus();
}

absl::Status Run(const BenchSetting& setting, Figures& figures) {
  signal(SIGPIPE, SIG_IGN);  // as the services do
  const std::string folder = setting.folder + "/peers";
  std::filesystem::create_directories(folder);
  ASSIGN_OR_RETURN(const auto peers, DeliveryPeers::Start(setting.bin, folder));
  PlatformBed bed({.bin = setting.bin, .folder = setting.folder + "/platform"});
  RETURN_IF_ERROR(bed.Start());
  DeliveryStages stages(&bed, kPayloadBytes);
  const double share = absl::GetFlag(FLAGS_share) / (setting.quick ? 10 : 1);
  const std::vector<Row> rows = RowsOf(*peers);
  for (int i = 0; i < setting.repetitions; ++i) {
    for (const Row& row : rows) {
      // A round number of requests of ten.
      const auto events =
          10 * static_cast<uint64_t>(std::max(10.0, static_cast<double>(row.events) * share / 10));
      setting.Measure(row.name, figures, [&] {
        bed.AwaitIdle().IgnoreError();
        return Measure(row, events, *peers, stages, figures);
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
      {.name = "delivery",
       .usage = "measures each transport beside the bare client of its protocol",
       .repetitions = 5,
       .quick_repetitions = 1,
       .run = &escapement::bench::Run});
}
