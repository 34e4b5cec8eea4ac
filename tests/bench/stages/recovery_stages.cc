#include "tests/bench/stages/recovery_stages.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "tests/bench/beds/delivery_peers.h"
#include "tests/bench/beds/ingest_client.h"
#include "tests/bench/beds/platform_bed.h"
#include "tests/bench/figures/bench_run.h"
#include "tests/bench/raw/raw_limits.h"
#include "tests/integration/api_client.h"

namespace escapement::bench {
namespace {

constexpr double kMiB = 1 << 20;
constexpr uint64_t kRawDeliveries = 200'000;
// Polls rarely, since the receiver shares the machine.
constexpr absl::Duration kRecoveryPoll = absl::Milliseconds(200);
constexpr absl::Duration kDrainMax = absl::Minutes(10);
constexpr double kLateSecondsMin = 0.05;
constexpr double kTakenOverSeconds = 1;  // a later event had to wait for another owner
constexpr double kClaimedWithin = 0.1;   // a row may be claimed this many seconds before it is due

// Arrivals that were late; times are seconds after an instant.
struct LateSpan {
  uint64_t events = 0;
  double first = 0;
  double last = 0;
};

absl::StatusOr<ReceiverCounts> AwaitArrivals(const ReceiverProcess& receiver, uint64_t events,
                                             const PlatformBed& bed, uint64_t* resident_max) {
  const absl::Time deadline = absl::Now() + kDrainMax;
  while (true) {
    *resident_max = std::max(*resident_max, bed.ResidentBytes());
    const auto counts = receiver.Counts();
    if (!counts.ok() || counts->distinct >= events) return counts;
    if (absl::Now() > deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat(counts->distinct, " of ", events, " events arrived"));
    }
    absl::SleepFor(kRecoveryPoll);
  }
}

// A platform and a receiver under a steady load. One of the platform's processes is killed.
class SteadyLoad {
 public:
  SteadyLoad(const RecoveryOptions& options, int handlers)
      : options_(options),
        bed_({.bin = options.bin,
              .folder = options.folder,
              .separate = true,
              .handlers = handlers}) {}

  absl::Status Start() {
    ASSIGN_OR_RETURN(auto receiver, ReceiverProcess::Start(options_.bin));
    receiver_ = std::move(receiver);
    return bed_.Start();
  }

  // Stores the load, and returns when it has run for a while.
  absl::Status Store() {
    events_ = static_cast<uint64_t>(options_.per_second *
                                    absl::ToDoubleSeconds(options_.before + options_.after));
    const absl::Time begin =
        absl::Now() + absl::Seconds(2) + absl::Microseconds(60) * static_cast<int64_t>(events_);
    const absl::Duration step = absl::Seconds(1 / options_.per_second);
    RETURN_IF_ERROR(
        Ingest({.master = bed_.front("master"),
                .target = integration::GrpcTo(receiver_->grpc_target()),
                .events = events_,
                .payload_bytes = options_.payload_bytes,
                .delivery_timeout = options_.delivery_timeout,
                .due_time = [begin,
                             step](uint64_t i) { return begin + step * static_cast<int64_t>(i); }})
            .status());
    if (absl::Now() > begin)
      return absl::DeadlineExceededError("the load was not stored before it began");
    absl::SleepFor(begin + options_.before - absl::Now());
    return absl::OkStatus();
  }

  absl::Status Kill(const std::string& process) {
    ASSIGN_OR_RETURN(const auto counts, receiver_->Counts());
    if (counts.distinct == 0) return absl::InternalError("nothing arrived before the kill");
    bed_.platform().Kill(process);
    killed_ = absl::Now();
    return absl::OkStatus();
  }

  // Waits until all events have arrived.
  absl::Status Finish() {
    absl::SleepFor(killed_ + options_.after - absl::Now());
    uint64_t ignored = 0;
    ASSIGN_OR_RETURN(const auto counts, AwaitArrivals(*receiver_, events_, bed_, &ignored));
    counts_ = counts;
    ASSIGN_OR_RETURN(auto arrivals, receiver_->Arrivals());
    arrivals_ = std::move(arrivals);
    return absl::OkStatus();
  }

  // Arrivals more than `seconds` late, of events due in [from, to) seconds after the kill.
  LateSpan LateBy(double seconds, double from, double to) const {
    LateSpan span;
    for (const ArrivalTimes& arrival : arrivals_) {
      const double due = SinceKill(arrival.launch_micros);
      const double came = SinceKill(arrival.wall_micros);
      if (came < 0 || came - due < seconds || due < from || due >= to) continue;
      span.first = span.events == 0 ? came : std::min(span.first, came);
      span.last = std::max(span.last, came);
      ++span.events;
    }
    return span;
  }

  // A receipt counts as late above twice the p99 of before the kill, and at least 50 ms.
  double LateSeconds() const {
    std::vector<double> before;
    for (const ArrivalTimes& arrival : arrivals_) {
      const double came = SinceKill(arrival.wall_micros);
      if (came < 0) before.push_back(came - SinceKill(arrival.launch_micros));
    }
    if (before.empty()) return kLateSecondsMin;
    std::sort(before.begin(), before.end());
    return std::max(kLateSecondsMin, 2 * before[before.size() * 99 / 100]);
  }

  // The longest time without any arrival: its end in seconds after the kill, and its length.
  std::pair<double, double> LongestGap() const {
    std::pair<double, double> longest = {0, 0};
    for (size_t i = 1; i < arrivals_.size(); ++i) {
      const double end = SinceKill(arrivals_[i].wall_micros);
      const double length = end - SinceKill(arrivals_[i - 1].wall_micros);
      if (end > 0 && length > longest.second) longest = {end, length};
    }
    return longest;
  }

  PlatformBed& bed() { return bed_; }
  const ReceiverCounts& counts() const { return counts_; }

 private:
  double SinceKill(int64_t micros) const {
    return absl::ToDoubleSeconds(absl::FromUnixMicros(micros) - killed_);
  }

  const RecoveryOptions options_;
  PlatformBed bed_;
  std::unique_ptr<ReceiverProcess> receiver_;
  uint64_t events_ = 0;
  absl::Time killed_;
  ReceiverCounts counts_;
  std::vector<ArrivalTimes> arrivals_;
};

void AddCounts(const std::string& name, const ReceiverCounts& counts, Figures& figures) {
  figures.Add(name + "events that arrived twice", "", static_cast<double>(counts.duplicates));
  const std::string early = name + "early events";
  figures.Add(early, "", static_cast<double>(counts.early), {.at_most = 0});
  // Reports an early event of any repetition, since the median would hide it.
  if (counts.early > 0)
    figures.AddFailure(early, absl::InternalError(absl::StrCat(counts.early, " were early")));
}

// Waits until each of two handlers has half of the queue.
absl::Status AwaitBothHold(const PlatformBed& bed) {
  const absl::Time deadline = absl::Now() + absl::Seconds(30);
  while (absl::Now() < deadline) {
    ASSIGN_OR_RETURN(const auto first, bed.MetricOf("handler", "escapement_handler_shards_held"));
    ASSIGN_OR_RETURN(const auto second,
                     bed.MetricOf("handler.2", "escapement_handler_shards_held"));
    if (first > 0 && first == second) return absl::OkStatus();
    absl::SleepFor(kRecoveryPoll);
  }
  return absl::DeadlineExceededError("the two handlers did not share the queue evenly");
}

}  // namespace

absl::Status MeasureOverdue(const RecoveryOptions& options, bool separate, Figures& figures) {
  ASSIGN_OR_RETURN(auto receiver, ReceiverProcess::Start(options.bin));
  PlatformBed bed({.bin = options.bin, .folder = options.folder, .separate = separate});
  RETURN_IF_ERROR(bed.Start());
  const auto events = static_cast<int64_t>(options.overdue_events);
  const std::string name = absl::StrCat("all down for ", absl::FormatDuration(options.down), ", ",
                                        events, " overdue, ", bed.mode(), ": ");
  const double raw = RawGrpcStream(receiver->grpc_target(), kRawDeliveries, options.payload_bytes);
  RETURN_IF_ERROR(receiver->Clear());

  // Far enough in the future for the ingest and the horizon; nothing waits for this time.
  const absl::Time begin = absl::Now() + absl::Minutes(1) + absl::Microseconds(200) * events;
  const absl::Duration step = options.down / events;
  RETURN_IF_ERROR(
      Ingest({.master = bed.front("master"),
              .target = integration::GrpcTo(receiver->grpc_target()),
              .events = options.overdue_events,
              .payload_bytes = options.payload_bytes,
              .due_time = [=](uint64_t i) { return begin + step * static_cast<int64_t>(i); }})
          .status());
  bed.KillAll();
  const absl::Time killed = absl::Now();
  if (killed > begin)
    return absl::DeadlineExceededError("not all was stored before the first is due");
  RETURN_IF_ERROR(PassTime(bed.data_folder(), begin + options.down - killed));
  const absl::Time start = absl::Now();
  RETURN_IF_ERROR(bed.Start());
  const absl::Time ready = absl::Now();
  uint64_t resident_max = 0;
  ASSIGN_OR_RETURN(const auto counts,
                   AwaitArrivals(*receiver, options.overdue_events, bed, &resident_max));

  const absl::Time first = absl::FromUnixMicros(counts.first_wall_micros);
  const absl::Time last = absl::FromUnixMicros(counts.last_wall_micros);
  figures.Add(name + "start to all ready", "s", absl::ToDoubleSeconds(ready - start));
  figures.Add(name + "start to the first delivery", "s", absl::ToDoubleSeconds(first - start));
  figures.Add(name + "start to the last delivery", "s", absl::ToDoubleSeconds(last - start));
  figures.AddRaw(name + "start to the last delivery", "s", "bare gRPC stream",
                 static_cast<double>(events) / raw);
  figures.Add(name + "rate between the two", "/s",
              static_cast<double>(events) / absl::ToDoubleSeconds(last - first));
  figures.AddRaw(name + "rate between the two", "/s", "bare gRPC stream", raw);
  figures.Add(name + "most resident memory, all processes", "MiB",
              static_cast<double>(resident_max) / kMiB);
  figures.Add(name + "events that arrived twice", "", static_cast<double>(counts.duplicates),
              {.at_most = 0});
  return absl::OkStatus();
}

absl::Status MeasureStoreRestart(const RecoveryOptions& options, Figures& figures) {
  const std::string name = absl::StrCat("store killed under ", options.per_second, "/s: ");
  SteadyLoad load(options, /*handlers=*/1);
  RETURN_IF_ERROR(load.Start());
  RETURN_IF_ERROR(load.Store());
  RETURN_IF_ERROR(load.Kill("store"));
  const absl::Time killed = absl::Now();
  RETURN_IF_ERROR(load.bed().platform().Restart("store"));
  const double listens = absl::ToDoubleSeconds(absl::Now() - killed);
  RETURN_IF_ERROR(load.Finish());
  const auto [resumed, gap] = load.LongestGap();
  figures.Add(name + "kill until deliveries go on", "s", resumed);
  figures.AddRaw(name + "kill until deliveries go on", "s", "until the store listens", listens);
  figures.Add(name + "longest time without a delivery", "s", gap);
  figures.Add(name + "kill until the last that it made late", "s",
              load.LateBy(load.LateSeconds(), -1, 1e9).last);
  AddCounts(name, load.counts(), figures);
  return absl::OkStatus();
}

absl::Status MeasureTakeover(const RecoveryOptions& options, Figures& figures) {
  const std::string name =
      absl::StrCat("one of two handlers killed under ", options.per_second, "/s: ");
  SteadyLoad load(options, /*handlers=*/2);
  RETURN_IF_ERROR(load.Start());
  RETURN_IF_ERROR(AwaitBothHold(load.bed()));
  RETURN_IF_ERROR(load.Store());
  RETURN_IF_ERROR(load.Kill("handler.2"));
  RETURN_IF_ERROR(load.Finish());
  const LateSpan free = load.LateBy(kTakenOverSeconds, kClaimedWithin, 1e9);
  const LateSpan claimed = load.LateBy(kTakenOverSeconds, -1e9, kClaimedWithin);
  if (free.events == 0) return absl::InternalError("nothing had to be taken over");
  figures.Add(name + "kill until the first of its events comes by the other", "s", free.first);
  figures.AddRaw(name + "kill until the first of its events comes by the other", "s", "its lease",
                 5);
  figures.Add(name + "kill until the last that it made late", "s", free.last);
  figures.Add(name + "its events that waited for the takeover", "",
              static_cast<double>(free.events));
  figures.Add(name + "events it had claimed, not delivered", "",
              static_cast<double>(claimed.events));
  if (claimed.events > 0) {
    figures.Add(name + "kill until the last of those", "s", claimed.last);
    figures.AddRaw(name + "kill until the last of those", "s", "its lease and the delivery timeout",
                   5 + absl::ToDoubleSeconds(options.delivery_timeout));
  }
  AddCounts(name, load.counts(), figures);
  return absl::OkStatus();
}

}  // namespace escapement::bench
