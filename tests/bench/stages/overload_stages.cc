#include "tests/bench/stages/overload_stages.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "tests/integration/api_client.h"

namespace escapement::bench {
namespace {

constexpr double kOverloadMiB = 1 << 20;
constexpr double kGoodputLeast = 90;         // percent of capacity
constexpr double kHandlerGrowthMax = 128;    // MiB
constexpr double kOthersLatenessMax = 1000;  // milliseconds, p99
constexpr double kOthersPerSecond = 1000;
constexpr double kOnTimePerSecond = 100;  // events on time beside an outage's backlog
constexpr int kCatchUpMax = 30;           // for each schedule that has missed occurrences
constexpr absl::Duration kOverloadDrainMax = absl::Minutes(5);

double MiB(uint64_t bytes) { return static_cast<double>(bytes) / kOverloadMiB; }

void AddLateness(const std::string& name, const LatenessOf& late, const Bound& p99,
                 Figures& figures) {
  if (late.events == 0)
    return figures.AddFailure(name + "p99", absl::NotFoundError("none was due then"));
  figures.Add(name + "p50", "ms", late.p50);
  figures.Add(name + "p99", "ms", late.p99, p99);
  figures.Add(name + "max", "ms", late.max);
}

void AddMemory(const std::string& name, const Resident& before, const Resident& peak,
               const Resident& after, Figures& figures) {
  for (const auto& [service, bytes] : peak) {
    const auto value = [&service = service](const Resident& of) {
      const auto found = of.find(service);
      return found == of.end() ? 0 : MiB(found->second);
    };
    figures.Add(absl::StrCat(name, service, " before"), "MiB", value(before));
    figures.Add(absl::StrCat(name, service, " most"), "MiB", MiB(bytes));
    figures.Add(absl::StrCat(name, service, " after"), "MiB", value(after));
  }
  const auto grown = [&](const char* service) {
    const auto was = before.find(service);
    const auto is = peak.find(service);
    return was == before.end() || is == peak.end() ? 0 : MiB(is->second) - MiB(was->second);
  };
  figures.Add(name + "handler grew by", "MiB", grown("handler"), {.at_most = kHandlerGrowthMax});
}

// Events a second that ended between the flood's first and last arrival, including other events.
double Goodput(const ReceiverCounts& flood, const std::vector<std::vector<ArrivalTimes>>& others) {
  const absl::Time first = absl::FromUnixMicros(flood.first_wall_micros);
  const absl::Time last = absl::FromUnixMicros(flood.last_wall_micros);
  uint64_t events = flood.distinct;
  for (const std::vector<ArrivalTimes>& arrivals : others)
    events += ArrivedBetween(arrivals, first, last);
  return static_cast<double>(events) / absl::ToDoubleSeconds(last - first);
}

void AddGoodput(const std::string& name, double capacity, double goodput, Figures& figures) {
  figures.Add(name + "capacity", "/s", capacity);
  figures.Add(name + "goodput", "/s", goodput);
  figures.Add(name + "goodput of capacity", "%", 100 * goodput / capacity,
              {.at_least = kGoodputLeast});
}

// A new platform has less capacity than one that has worked for a while, and other work on this
// machine varies. So capacity is measured before and after the stage.
absl::StatusOr<double> CapacityBefore(OverloadBed& bed, const OverloadSizes& sizes,
                                      absl::StatusOr<double> (OverloadBed::*rate)(uint64_t)) {
  RETURN_IF_ERROR((bed.*rate)(sizes.capacity_events / 10).status());
  return (bed.*rate)(sizes.capacity_events);
}

absl::StatusOr<double> CapacityOver(OverloadBed& bed, const OverloadSizes& sizes, double before,
                                    absl::StatusOr<double> (OverloadBed::*rate)(uint64_t)) {
  const auto after = (bed.*rate)(sizes.capacity_events);
  if (!after.ok()) return after;
  return (before + *after) / 2;
}

// Seconds after `since` at which the last unusually late event arrived. Unusual is more than twice
// the p99 of before, and at least 20 ms.
double SecondsUntilNormal(const std::vector<ArrivalTimes>& arrivals, const LatenessOf& before,
                          absl::Time since) {
  const double usual = std::max(2 * before.p99, 20.0);
  int64_t last = absl::ToUnixMicros(since);
  for (const ArrivalTimes& arrival : arrivals) {
    if (static_cast<double>(arrival.wall_micros - arrival.launch_micros) / 1000 > usual)
      last = std::max(last, arrival.wall_micros);
  }
  return static_cast<double>(last - absl::ToUnixMicros(since)) / 1e6;
}

// The steady load and the spike; both are stored before they begin.
struct SpikeTraffic {
  SteadyTraffic steady;
  std::unique_ptr<ReceiverProcess> spike;
  absl::Time instant;
  uint64_t events = 0;
};

absl::StatusOr<SpikeTraffic> StoreSpike(OverloadBed& bed, const OverloadSizes& sizes,
                                        double per_second) {
  SpikeTraffic traffic;
  traffic.events =
      static_cast<uint64_t>(10 * per_second * static_cast<double>(sizes.spike_seconds));
  const absl::Duration length = sizes.steady +
                                2 * absl::Seconds(static_cast<int64_t>(sizes.spike_seconds)) +
                                absl::Seconds(4);
  const auto steady_events = static_cast<uint64_t>(per_second * absl::ToDoubleSeconds(length));
  const absl::Time begin = OverloadBed::StoreTime(traffic.events + steady_events);
  traffic.instant = begin + sizes.steady;
  ASSIGN_OR_RETURN(auto spike, bed.StartReceiver());
  traffic.spike = std::move(spike);
  const absl::Status stored = bed.Ingest(traffic.spike->grpc_target(), traffic.events,
                                         [&](uint64_t) { return traffic.instant; });
  if (!stored.ok()) return stored;
  ASSIGN_OR_RETURN(traffic.steady, bed.StoreSteady(begin, per_second, length));
  return traffic;
}

absl::Status StoreBacklog(OverloadBed& bed, const std::string& target, uint64_t events,
                          Backlog backlog) {
  if (backlog == Backlog::kStoredBefore)
    // The events are due as soon as they are stored.
    return bed.Ingest(target, events, [](uint64_t) { return absl::Now(); });
  const absl::Time begin = absl::Now() - absl::Hours(1);
  const absl::Duration step = absl::Minutes(59) / static_cast<int64_t>(events);
  return bed.Ingest(target, events,
                    [begin, step](uint64_t i) { return begin + step * static_cast<int64_t>(i); });
}

// The schedules fire each second. The emitter is down when they are made.
absl::Status CreateMissing(OverloadBed& bed, int schedules, const std::string& target) {
  v1::Schedule schedule;
  schedule.set_cron("* * * * * *");
  *schedule.mutable_target() = integration::GrpcTo(target);
  schedule.set_payload("missed");
  schedule.mutable_misfire_policy()->set_action(v1::MisfirePolicy::FIRE_ALL);
  schedule.mutable_misfire_policy()->mutable_threshold()->set_seconds(1);
  schedule.mutable_misfire_policy()->set_max_catch_up(kCatchUpMax);
  for (int i = 0; i < schedules; ++i) {
    if (auto status = bed.Create(absl::StrCat("missing-", i), schedule); !status.ok())
      return status;
  }
  return absl::OkStatus();
}

std::string NameOf(Flood flood) {
  switch (flood) {
    case Flood::kFast:
      return "flood, fast target: ";
    case Flood::kSlow:
      return "flood, target that takes 2 s: ";
    case Flood::kDead:
      return "flood, dead target: ";
    case Flood::kThrottled:
      return "flood, policy of 100: ";
  }
  return "";
}

}  // namespace

absl::Status MeasureSpike(OverloadBed& bed, const OverloadSizes& sizes, Figures& figures) {
  const std::string name = "spike of 10x: ";
  ASSIGN_OR_RETURN(const auto capacity_before,
                   CapacityBefore(bed, sizes, &OverloadBed::BacklogRate));
  const double per_second = capacity_before / 10;
  ASSIGN_OR_RETURN(const auto traffic, StoreSpike(bed, sizes, per_second));
  bed.PassUntil(traffic.instant - absl::Milliseconds(100));
  const Resident before = OverloadBed::Memory();
  bed.TakePeak();
  ASSIGN_OR_RETURN(const auto counts,
                   bed.AwaitArrivals(*traffic.spike, traffic.events, kOverloadDrainMax));
  bed.PassUntil(traffic.steady.end());
  RETURN_IF_ERROR(
      bed.AwaitArrivals(*traffic.steady.receiver, traffic.steady.events, kOverloadDrainMax)
          .status());
  const Resident peak = bed.TakePeak();
  ASSIGN_OR_RETURN(const auto arrivals, traffic.steady.receiver->Arrivals());

  const Resident after = OverloadBed::Memory();
  ASSIGN_OR_RETURN(const auto capacity,
                   CapacityOver(bed, sizes, capacity_before, &OverloadBed::BacklogRate));

  AddGoodput(name, capacity, Goodput(counts, {arrivals}), figures);
  const LatenessOf usual =
      LatenessBetween(arrivals, traffic.steady.begin + absl::Seconds(1), traffic.instant);
  AddLateness(name + "others before, ", usual, {}, figures);
  const absl::Time last = absl::FromUnixMicros(counts.last_wall_micros);
  AddLateness(name + "others during, ", LatenessBetween(arrivals, traffic.instant, last),
              {.at_most = kOthersLatenessMax}, figures);
  figures.Add(name + "seconds until it was over", "s",
              absl::ToDoubleSeconds(last - traffic.instant));
  figures.Add(name + "seconds until others were as before", "s",
              SecondsUntilNormal(arrivals, usual, traffic.instant));
  AddMemory(name, before, peak, after, figures);
  return absl::OkStatus();
}

absl::Status MeasureOutage(OverloadBed& bed, const OverloadSizes& sizes, Backlog backlog,
                           Figures& figures) {
  const std::string name =
      backlog == Backlog::kStoredBefore ? "outage, stored before: " : "outage, stored late: ";
  ASSIGN_OR_RETURN(const auto capacity_before,
                   CapacityBefore(bed, sizes, &OverloadBed::BacklogRate));
  const Resident before = OverloadBed::Memory();
  ASSIGN_OR_RETURN(auto overdue, bed.StartReceiver());
  ASSIGN_OR_RETURN(auto missed, bed.StartReceiver());

  bed.Kill({"handler", "emitter"});
  if (auto status = CreateMissing(bed, sizes.missing_schedules, missed->grpc_target());
      !status.ok()) {
    return status;
  }
  const absl::Time kill = absl::Now();
  if (auto status = StoreBacklog(bed, overdue->grpc_target(), sizes.backlog_events, backlog);
      !status.ok()) {
    return status;
  }
  // Long enough for the schedules to miss more than their cap.
  bed.PassUntil(kill + absl::Seconds(kCatchUpMax + 5));
  const auto drain_seconds = static_cast<double>(sizes.backlog_events) / capacity_before;
  ASSIGN_OR_RETURN(const auto steady,
                   bed.StoreSteady(absl::Now() + absl::Seconds(1), kOnTimePerSecond,
                                   absl::Seconds(2 * drain_seconds + 15)));
  bed.TakePeak();
  const absl::Time restart = absl::Now();
  RETURN_IF_ERROR(bed.Restart({"handler", "emitter"}));
  ASSIGN_OR_RETURN(const auto counts,
                   bed.AwaitArrivals(*overdue, sizes.backlog_events, kOverloadDrainMax));
  const uint64_t caught_up = static_cast<uint64_t>(sizes.missing_schedules) * kCatchUpMax;
  if (const auto all = bed.AwaitArrivals(*missed, caught_up, kOverloadDrainMax); !all.ok())
    return all.status();
  const Resident peak = bed.TakePeak();
  ASSIGN_OR_RETURN(const auto on_time, steady.receiver->Arrivals());
  ASSIGN_OR_RETURN(const auto fired, missed->Arrivals());
  const Resident after = OverloadBed::Memory();
  bed.PassUntil(steady.end());
  bed.Kill({"emitter"});  // otherwise the schedules would go on firing
  ASSIGN_OR_RETURN(const auto capacity,
                   CapacityOver(bed, sizes, capacity_before, &OverloadBed::BacklogRate));

  const absl::Time first = absl::FromUnixMicros(counts.first_wall_micros);
  const absl::Time last = absl::FromUnixMicros(counts.last_wall_micros);
  figures.Add(name + "seconds from the start to the first delivery", "s",
              absl::ToDoubleSeconds(first - restart));
  AddGoodput(name, capacity, Goodput(counts, {on_time, fired}), figures);
  const absl::Time settled = std::min(first + absl::Seconds(3), last);
  AddLateness(name + "on-time events in its first 3 s, ", LatenessBetween(on_time, first, settled),
              {}, figures);
  if (settled < last) {
    AddLateness(name + "on-time events later, ", LatenessBetween(on_time, settled, last),
                {.at_most = kOthersLatenessMax}, figures);
  }
  figures.Add(name + "seconds until it was over", "s", absl::ToDoubleSeconds(last - first));
  AddMemory(name, before, peak, after, figures);
  return absl::OkStatus();
}

absl::Status MeasureFlood(OverloadBed& bed, const OverloadSizes& sizes, Flood flood,
                          Figures& figures) {
  const std::string name = NameOf(flood);
  const bool ends = flood == Flood::kFast;
  ASSIGN_OR_RETURN(const auto capacity_before, CapacityBefore(bed, sizes, &OverloadBed::RunRate));
  ASSIGN_OR_RETURN(auto receiver, bed.StartReceiver(flood == Flood::kSlow ? "/delay/2000" : ""));
  std::string policy;
  if (flood == Flood::kThrottled) {
    ASSIGN_OR_RETURN(auto created, bed.CreatePolicy(100));
    policy = std::move(created);
  }
  ASSIGN_OR_RETURN(const auto id,
                   bed.CreateBatch(receiver->grpc_target(), sizes.flood_events, policy));
  if (flood == Flood::kDead) receiver.reset();

  const absl::Duration length =
      sizes.steady +
      (ends ? absl::Seconds(2 * static_cast<double>(sizes.flood_events) / capacity_before + 2)
            : sizes.flood);
  const auto events = static_cast<uint64_t>(kOthersPerSecond * absl::ToDoubleSeconds(length));
  ASSIGN_OR_RETURN(const auto steady,
                   bed.StoreSteady(OverloadBed::StoreTime(events), kOthersPerSecond, length));
  bed.PassUntil(steady.begin + sizes.steady);
  const Resident before = OverloadBed::Memory();
  bed.TakePeak();
  const absl::Time begin = absl::Now();
  RETURN_IF_ERROR(bed.Trigger(id));
  absl::StatusOr<ReceiverCounts> counts = ReceiverCounts{};
  if (ends) counts = bed.AwaitArrivals(*receiver, sizes.flood_events, kOverloadDrainMax);
  if (!counts.ok()) return counts.status();
  if (!ends) bed.PassUntil(steady.end());
  const absl::Time end = ends ? absl::FromUnixMicros(counts->last_wall_micros) : steady.end();
  // Leaves time for late events that were due before the end.
  bed.PassUntil(end + absl::Seconds(2));
  const Resident peak = bed.TakePeak();
  ASSIGN_OR_RETURN(const auto arrivals, steady.receiver->Arrivals());

  const Resident after = OverloadBed::Memory();
  if (ends) {
    ASSIGN_OR_RETURN(const auto capacity,
                     CapacityOver(bed, sizes, capacity_before, &OverloadBed::RunRate));
    AddGoodput(name, capacity, Goodput(*counts, {arrivals}), figures);
  }
  const LatenessOf usual = LatenessBetween(arrivals, steady.begin + absl::Seconds(1), begin);
  const LatenessOf during = LatenessBetween(arrivals, begin, end);
  AddLateness(name + "others before, ", usual, {}, figures);
  AddLateness(name + "others during, ", during, {.at_most = kOthersLatenessMax}, figures);
  const auto due = static_cast<double>(kOthersPerSecond * absl::ToDoubleSeconds(end - begin));
  figures.Add(name + "others during, arrived", "%", 100 * static_cast<double>(during.events) / due,
              {.at_least = 99});
  AddMemory(name, before, peak, after, figures);
  return absl::OkStatus();
}

}  // namespace escapement::bench
