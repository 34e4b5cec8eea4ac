// Do bad targets make healthy ones late? Lateness of healthy HTTP, HTTPS, SQS and Kafka targets
// alone, and then beside sixteen bad ones of the same kinds, which time out for a tenth of their
// events, are dead, or answer one byte a second.
//
// And do hanging events of an origin take the room of its others? 3,400 events that take half a
// second each, alone, then beside 600 that hang, and then behind 2,400 that hang and are due first.
//
//   tools/dev bench isolation [and the flags of bench_run.h]

#include <signal.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "tests/bench/beds/delivery_peers.h"
#include "tests/bench/beds/ingest_client.h"
#include "tests/bench/beds/isolation_peers.h"
#include "tests/bench/beds/platform_bed.h"
#include "tests/bench/figures/bench_run.h"
#include "tests/bench/figures/figures.h"
#include "tests/integration/api_client.h"

namespace escapement::bench {
namespace {

// Events a second to each target.
constexpr double kHealthyPerSecond = 100;
constexpr double kBadPerSecond = 50;
constexpr absl::Duration kBadTimeout = absl::Seconds(2);
// Bad events are tried again so long. Then they are gone before the next phase without them.
constexpr absl::Duration kBadAgeMax = absl::Seconds(4);
constexpr absl::Duration kGoneMax = absl::Seconds(60);
// From the ingest of the healthy events until the first is due. The bad ones are due before: when
// the measurement begins, their attempts hang already.
constexpr absl::Duration kLead = absl::Seconds(4);
constexpr absl::Duration kBadAhead = absl::Seconds(3);
constexpr absl::Duration kPoll = absl::Milliseconds(50);
constexpr absl::Duration kArriveMax = absl::Seconds(60);
// Events to one origin: those that it answers, and those that hang.
constexpr uint64_t kAnswered = 3400;
struct Hanging {
  uint64_t events = 0;
  absl::Duration ahead = {};  // so long before the answered ones
};
constexpr Hanging kNone = {};
constexpr Hanging kBeside = {.events = 600};
constexpr Hanging kAhead = {.events = 2400, .ahead = absl::Seconds(1)};
constexpr char kAnsweredPath[] = "/delay/500/";
constexpr char kHangingPath[] = "/hang/";

class IsolationBench {
 public:
  IsolationBench(const BenchSetting& setting, PlatformBed* bed, IsolationPeers* peers)
      : bed_(bed), peers_(peers), span_(absl::Seconds(setting.quick ? 3 : 6)) {}

  // The p99 of each healthy target, in milliseconds.
  absl::StatusOr<std::vector<double>> Phase(bool with_bad) {
    RETURN_IF_ERROR(AwaitNothingOut());
    RETURN_IF_ERROR(peers_->Clear());
    const absl::Time begin = absl::Now() + kLead;
    if (with_bad) {
      for (const v1::Target& target : peers_->bad()) {
        absl::Status stored = Store(target, begin - kBadAhead, span_ + kBadAhead, kBadPerSecond,
                                    kBadTimeout, kBadAgeMax);
        if (!stored.ok()) return stored;
      }
    }
    for (const IsolationPeers::Healthy& healthy : peers_->healthy()) {
      absl::Status stored =
          Store(healthy.target, begin, span_, kHealthyPerSecond, absl::Seconds(30));
      if (!stored.ok()) return stored;
    }
    if (absl::Now() > begin)
      return absl::DeadlineExceededError("the events were stored too late to be measured");
    std::vector<double> p99s;
    for (size_t i = 0; i < peers_->healthy().size(); ++i) {
      ASSIGN_OR_RETURN(const auto p99, AwaitAll(i, begin + span_));
      p99s.push_back(p99);
    }
    return p99s;
  }

  // How many events a second one origin gets of those that it answers.
  absl::StatusOr<double> OfOneOrigin(const Hanging& hanging) {
    RETURN_IF_ERROR(AwaitNothingOut());
    RETURN_IF_ERROR(peers_->Clear());
    const ReceiverProcess& origin = peers_->http_receiver();
    // Events that are due together are mixed: the answered ones are at even microseconds.
    const int64_t begin_micros = absl::ToUnixMicros(absl::Now() + kLead) & ~int64_t{1};
    const absl::Time begin = absl::FromUnixMicros(begin_micros);
    const auto store = [&](const char* path, uint64_t events, absl::Duration age_max,
                           int64_t micros) {
      return Ingest({.master = bed_->front("master"),
                     .target = integration::HttpTo(origin.http_origin() + path),
                     .events = events,
                     .delivery_timeout = absl::Seconds(5),
                     .retry_age_max = age_max,
                     .due_time =
                         [=](uint64_t i) {
                           const auto place = static_cast<int64_t>(i * kAnswered / events);
                           return absl::FromUnixMicros(begin_micros + 2 * place + micros);
                         }})
          .status();
    };
    if (hanging.events > 0) {
      RETURN_IF_ERROR(store(kHangingPath, hanging.events, kBadAgeMax,
                            1 - absl::ToInt64Microseconds(hanging.ahead)));
    }
    RETURN_IF_ERROR(store(kAnsweredPath, kAnswered, absl::ZeroDuration(), 0));
    absl::SleepFor(begin + absl::Seconds(2) - absl::Now());
    while (true) {
      ASSIGN_OR_RETURN(const std::vector<ArrivalTimes> arrivals, origin.Arrivals());
      uint64_t answered = 0;
      int64_t last = 0;
      for (const ArrivalTimes& arrival : arrivals) {
        if (arrival.launch_micros % 2 != 0) continue;
        ++answered;
        last = std::max(last, arrival.wall_micros);
      }
      if (answered == kAnswered)
        return kAnswered / absl::ToDoubleSeconds(absl::FromUnixMicros(last) - begin);
      if (answered > kAnswered) return absl::DataLossError("an event came twice");
      if (absl::Now() > begin + kArriveMax) {
        return absl::DeadlineExceededError(
            absl::StrCat("one origin: ", answered, " of ", kAnswered, " arrived"));
      }
      absl::SleepFor(kPoll);
    }
  }

 private:
  absl::Status Store(const v1::Target& target, absl::Time begin, absl::Duration span,
                     double per_second, absl::Duration timeout,
                     absl::Duration age_max = absl::ZeroDuration()) {
    const absl::Duration step = absl::Seconds(1 / per_second);
    return Ingest({.master = bed_->front("master"),
                   .target = target,
                   .events = static_cast<uint64_t>(span / step),
                   .delivery_timeout = timeout,
                   .retry_age_max = age_max,
                   .due_time = [begin, step](
                                   uint64_t i) { return begin + step * static_cast<int64_t>(i); }})
        .status();
  }

  // Waits until no event is out or due, for longer than a retry waits.
  absl::Status AwaitNothingOut() {
    const absl::Time deadline = absl::Now() + kGoneMax;
    absl::Time since = absl::Now();
    while (absl::Now() - since < kBadAgeMax) {
      ASSIGN_OR_RETURN(const auto out, bed_->Metric("handler", "escapement_handler_events_out"));
      if (out > 0) since = absl::Now();
      if (absl::Now() > deadline) return absl::DeadlineExceededError("bad events stay out");
      absl::SleepFor(kPoll);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<double> AwaitAll(size_t i, absl::Time end) {
    const auto events = static_cast<uint64_t>(span_ / absl::Seconds(1 / kHealthyPerSecond));
    absl::SleepFor(end - absl::Now());  // questions to a working receiver would make it late
    while (true) {
      ASSIGN_OR_RETURN(const auto arrivals, peers_->ArrivalsAt(i));
      if (arrivals.events >= events) return arrivals.p99;
      if (absl::Now() > end + kArriveMax) {
        return absl::DeadlineExceededError(absl::StrCat(
            peers_->healthy()[i].name, ": ", arrivals.events, " of ", events, " arrived"));
      }
      absl::SleepFor(kPoll);
    }
  }

  PlatformBed* const bed_;
  IsolationPeers* const peers_;
  const absl::Duration span_;
};

absl::Status Run(const BenchSetting& setting, Figures& figures) {
  signal(SIGPIPE, SIG_IGN);
  const std::string folder = setting.folder + "/peers";
  std::filesystem::create_directories(folder);
  ASSIGN_OR_RETURN(const auto peers, IsolationPeers::Start(setting.bin, folder));
  PlatformBed bed({.bin = setting.bin, .folder = setting.folder + "/platform"});
  RETURN_IF_ERROR(bed.Start());
  IsolationBench bench(setting, &bed, peers.get());
  // The first phase opens connections.
  if (const auto warm = bench.Phase(false); !warm.ok()) return warm.status();
  std::map<std::string, std::vector<double>> values[2];
  for (int i = 0; i < setting.repetitions; ++i) {
    for (const bool with_bad : {false, true}) {
      ASSIGN_OR_RETURN(const auto p99s, bench.Phase(with_bad));
      for (size_t kind = 0; kind < p99s.size(); ++kind)
        values[with_bad ? 1 : 0][peers->healthy()[kind].name].push_back(p99s[kind]);
    }
  }
  std::vector<double> alone, beside, behind;
  for (int i = 0; i < (setting.quick ? 1 : setting.repetitions); ++i) {
    ASSIGN_OR_RETURN(const double without, bench.OfOneOrigin(kNone));
    alone.push_back(without);
    ASSIGN_OR_RETURN(const double with, bench.OfOneOrigin(kBeside));
    beside.push_back(with);
    ASSIGN_OR_RETURN(const double after, bench.OfOneOrigin(kAhead));
    behind.push_back(after);
  }
  const auto add = [&](const std::string& where, const std::vector<double>& rates) {
    const std::string row = absl::StrCat("one origin: events a second ", where, " hanging ones");
    for (const double rate : alone) figures.AddRaw(row, "/s", "without them", rate);
    for (const double rate : rates) figures.Add(row, "/s", rate);
    figures.Add(absl::StrCat("one origin: ", where, " hanging events, as part of the rate without"),
                "", Median(rates) / Median(alone), {.at_least = 0.5});
  };
  add("beside", beside);
  add("behind", behind);
  for (const IsolationPeers::Healthy& healthy : peers->healthy()) {
    const std::string row = healthy.name + ": p99 of lateness beside bad targets";
    for (const double value : values[0][healthy.name])
      figures.AddRaw(row, "ms", "without them", value);
    for (const double value : values[1][healthy.name]) figures.Add(row, "ms", value);
    figures.Add(healthy.name + ": as part of the p99 without them", "",
                Median(values[1][healthy.name]) / Median(values[0][healthy.name]), {.at_most = 2});
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace escapement::bench

int main(int argc, char** argv) {
  return escapement::bench::RunBench(
      argc, argv,
      {.name = "isolation",
       .usage = "measures how late healthy targets are beside bad ones, and without them",
       .repetitions = 3,
       .quick_repetitions = 3,
       .run = &escapement::bench::Run});
}
