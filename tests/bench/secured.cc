// The cost of security: five processes in plaintext, and five with TLS on every port, mTLS between
// the services and required API keys. Rates of ingest, delivery over gRPC and GetSchedule, measured
// by turns in one run. The raw limit of GetSchedule is the same calls through two bare gRPC
// servers, one behind the other, as master and store are.
//
//   tools/dev bench secured [--events=200000] [and the flags of bench_run.h]
//
// Both platforms run all the time, each with its own data. The client of the secured platform calls
// it over TLS and sends a key with each call. The receiver is the same, in plaintext. Client,
// receiver, platforms and disk share the machine, so the client's part of TLS is in the figures.

#include <array>
#include <functional>
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
#include "tests/bench/stages/doors_stages.h"
#include "tests/bench/stages/path_stages.h"
#include "tests/integration/api_client.h"

ABSL_FLAG(uint64_t, events, 200'000, "of each rate");
ABSL_FLAG(double, seconds, 5, "of GetSchedule");

namespace escapement::bench {
namespace {

constexpr size_t kPayloadBytes = 500;
constexpr char kGetSchedule[] = "GetSchedule";

// The indices of the platforms.
constexpr size_t kPlaintext = 0;
constexpr size_t kSecured = 1;

struct Candidate {
  std::string name;
  std::unique_ptr<PlatformBed> bed = nullptr;
  std::unique_ptr<PathStages> path = nullptr;
  std::unique_ptr<DoorsStages> doors = nullptr;
};

// The bound of the path of events.
constexpr Bound kPathBound = {.at_least = 80};

// A rate that is measured on both platforms, and how.
struct Rate {
  std::string name;
  std::function<absl::StatusOr<double>(Candidate&)> measure;
  Bound of_plaintext;  // for the secured rate, in percent
};

class SecuredBench {
 public:
  SecuredBench(const BenchSetting& setting, ReceiverProcess* receiver)
      : setting_(setting),
        receiver_(receiver),
        events_(absl::GetFlag(FLAGS_events) / (setting.quick ? 4 : 1)),
        load_({.time = absl::Seconds(absl::GetFlag(FLAGS_seconds) / (setting.quick ? 5 : 1))}) {}

  absl::Status Start() {
    for (Candidate& candidate : candidates_) {
      candidate.bed = std::make_unique<PlatformBed>(
          PlatformBed::Options{.bin = setting_.bin,
                               .folder = absl::StrCat(setting_.folder, "/", candidate.name),
                               .separate = true,
                               .secured = &candidate == &candidates_[kSecured]});
      RETURN_IF_ERROR(candidate.bed->Start());
      candidate.path = std::make_unique<PathStages>(
          PathStages::Options{.payload_bytes = kPayloadBytes}, candidate.bed.get(), receiver_);
      candidate.doors = std::make_unique<DoorsStages>(
          candidate.bed->front("master"), candidate.bed->platform().http_address("master"),
          candidate.bed->caller());
      RETURN_IF_ERROR(candidate.doors->Prepare());
      // A new platform is slower than one that has worked for a while.
      if (const auto warm = candidate.path->OneOffRate(Grpc(), events_ / 4); !warm.ok())
        return warm.status();
    }
    ASSIGN_OR_RETURN(const auto answer, candidates_[kPlaintext].doors->GetBytes());
    ASSIGN_OR_RETURN(hops_, RawHops::Start(setting_.bin, setting_.folder, answer));
    return absl::OkStatus();
  }

  void Run(Figures& figures) {
    for (int i = 0; i < setting_.repetitions; ++i) {
      for (const Rate& rate : Rates())
        setting_.Measure(rate.name, figures, [&] { return Measure(rate, i, figures); });
    }
  }

 private:
  v1::Target Grpc() const { return integration::GrpcTo(receiver_->grpc_target()); }

  std::vector<Rate> Rates() const {
    return {{"ingest", [this](Candidate& c) { return c.path->IngestRate(events_); }, kPathBound},
            {"delivery, gRPC", [this](Candidate& c) { return c.path->OneOffRate(Grpc(), events_); },
             kPathBound},
            {kGetSchedule, [this](Candidate& c) { return c.doors->GetByGrpc(load_); }, {}}};
  }

  // The order of the platforms changes with each repetition.
  absl::Status Measure(const Rate& rate, int repetition, Figures& figures) {
    std::array<double, 2> values;
    for (size_t i : {kPlaintext, kSecured}) {
      const size_t turn = (i + static_cast<size_t>(repetition)) % 2;
      ASSIGN_OR_RETURN(const auto value, rate.measure(candidates_[turn]));
      values[turn] = value;
      // Background work (compaction…) of this platform must not disturb the next one.
      RETURN_IF_ERROR(candidates_[turn].bed->AwaitIdle());
    }
    for (size_t i : {kPlaintext, kSecured})
      figures.Add(absl::StrCat(rate.name, ": ", candidates_[i].name), "/s", values[i]);
    figures.Add(rate.name + ": secured, of plaintext", "%",
                100 * values[kSecured] / values[kPlaintext], rate.of_plaintext);
    return rate.name == kGetSchedule ? CompareWithHops(values[kPlaintext], figures)
                                     : absl::OkStatus();
  }

  absl::Status CompareWithHops(double plaintext, Figures& figures) {
    ASSIGN_OR_RETURN(const auto raw, DoorsStages(hops_.front(), "").GetByGrpc(load_));
    figures.AddRaw(absl::StrCat(kGetSchedule, ": plaintext"), "/s",
                   "the same calls through two bare servers", raw);
    figures.Add(absl::StrCat(kGetSchedule, ": plaintext, of bare servers"), "%",
                100 * plaintext / raw, {.at_least = 60});
    return absl::OkStatus();
  }

  const BenchSetting& setting_;
  ReceiverProcess* const receiver_;
  const uint64_t events_;
  const DoorsLoad load_;
  RawHops hops_;
  std::array<Candidate, 2> candidates_ = {Candidate{.name = "plaintext"},
                                          Candidate{.name = "secured"}};
};

absl::Status Run(const BenchSetting& setting, Figures& figures) {
  ASSIGN_OR_RETURN(auto receiver, ReceiverProcess::Start(setting.bin));
  SecuredBench bench(setting, receiver.get());
  RETURN_IF_ERROR(bench.Start());
  bench.Run(figures);
  return absl::OkStatus();
}

}  // namespace
}  // namespace escapement::bench

int main(int argc, char** argv) {
  return escapement::bench::RunBench(
      argc, argv,
      {.name = "secured",
       .usage = "rates of five processes with TLS and keys, and in plaintext, by turns",
       .repetitions = 5,
       .run = escapement::bench::Run});
}
