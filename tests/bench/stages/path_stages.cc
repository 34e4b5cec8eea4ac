#include "tests/bench/stages/path_stages.h"

#include <algorithm>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "common/rpc/status_conversion.h"
#include "escapement/v1/schedule_service.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "tests/bench/beds/ingest_client.h"
#include "tests/bench/raw/raw_limits.h"
#include "tests/integration/api_client.h"

namespace escapement::bench {
namespace {

constexpr absl::Duration kPoll = absl::Milliseconds(20);
// The handler's counter of events with a durable success.
constexpr char kEndedCounter[] = "escapement_handler_succeeded_total";

// How long after the ingest events fall due in stages that measure lateness. The disk must be done
// with the ingest, which writes six times as much as the delivery.
constexpr absl::Duration kQuietLead = absl::Seconds(15);
constexpr double kTimersPerSecond = 1000;
// Time to plan for the ingest of one event: the first guess, and the least. Later it is twice the
// time of the last ingest.
constexpr absl::Duration kIngestTimeFirst = absl::Microseconds(30);
constexpr absl::Duration kIngestTimeMin = absl::Microseconds(15);
constexpr int kIngestTriesMax = 3;

// Time to plan for the creation of one schedule.
constexpr absl::Duration kScheduleTime = absl::Microseconds(300);

void RunHook(const std::function<void()>& hook) {
  if (hook != nullptr) hook();
}

absl::Duration StageMax(uint64_t events) {
  return absl::Seconds(60) + absl::Microseconds(100) * static_cast<int64_t>(events);
}

}  // namespace

PathStages::PathStages(const Options& options, PlatformBed* bed, ReceiverProcess* receiver)
    : options_(options), bed_(bed), receiver_(receiver), ingest_time_(kIngestTimeFirst) {}

absl::StatusOr<double> PathStages::IngestRate(uint64_t events, Ids ids) {
  const absl::Time due = absl::Now() + absl::Hours(24);
  IngestOptions ingest{
      .master = bed_->front("master"),
      .caller = bed_->caller(),
      .target = integration::GrpcTo(receiver_->grpc_target()),
      .events = events,
      .payload_bytes = options_.payload_bytes,
      .client_id_prefix = ids == Ids::kServerMade ? "" : absl::StrCat("order-", ++made_),
      .due_time = [due](uint64_t i) { return due + absl::Microseconds(i); }};
  if (ids == Ids::kReplaced) {
    RETURN_IF_ERROR(Ingest(ingest).status());
    ingest.mode = v1::Event::UPSERT;
    ingest.due_time = [due](uint64_t i) { return due + absl::Minutes(1) + absl::Microseconds(i); };
  }
  RunHook(options_.begin);
  ASSIGN_OR_RETURN(const auto took, Ingest(ingest));
  RunHook(options_.end);
  return static_cast<double>(events) / absl::ToDoubleSeconds(took);
}

absl::StatusOr<double> PathStages::OneOffRate(const v1::Target& target, uint64_t events) {
  // All events are stored before the first is due.
  ASSIGN_OR_RETURN(const auto stored,
                   StoreBeforeDue(target, events, absl::ZeroDuration(), options_.lead));
  BeginBefore(stored.begin);
  return RateOfAll(stored.ended_before, events);
}

absl::StatusOr<double> PathStages::OccurrencesRate(const v1::Target& target, uint64_t schedules) {
  RETURN_IF_ERROR(receiver_->Clear());
  ASSIGN_OR_RETURN(const auto ended_before, Ended());
  // The first minute that begins after all of them are stored.
  const absl::Time stored =
      absl::Now() + options_.lead + kScheduleTime * static_cast<int64_t>(schedules);
  const absl::CivilMinute due = absl::ToCivilMinute(stored, absl::UTCTimeZone()) + 1;
  RETURN_IF_ERROR(CreateSchedules(target, schedules, due));
  const absl::Time due_time = absl::FromCivil(due, absl::UTCTimeZone());
  if (absl::Now() > due_time - kBeforeDue)
    return absl::DeadlineExceededError("the schedules were not stored in time");
  BeginBefore(due_time);
  return RateOfAll(ended_before, schedules);
}

absl::Status PathStages::CreateSchedules(const v1::Target& target, uint64_t schedules,
                                         absl::CivilMinute due) {
  constexpr uint64_t kBatch = 1000;
  const auto stub =
      v1::ScheduleService::NewStub(NewChannelOf(bed_->caller(), bed_->front("master")));
  const std::string cron =
      absl::StrCat(due.minute(), " ", due.hour(), " ", due.day(), " ", due.month(), " *");
  for (uint64_t made = 0; made < schedules; made += kBatch) {
    v1::BatchCreateSchedulesRequest request;
    request.set_parent("tenants/default");
    for (uint64_t i = made; i < std::min(schedules, made + kBatch); ++i) {
      v1::Schedule& schedule = *request.add_requests()->mutable_schedule();
      schedule.set_cron(cron);
      *schedule.mutable_target() = target;
      schedule.set_payload(std::string(options_.payload_bytes, 'b'));
    }
    grpc::ClientContext context;
    AddCredentials(bed_->caller(), context);
    v1::BatchCreateSchedulesResponse response;
    RETURN_IF_ERROR(FromGrpcStatus(stub->BatchCreateSchedules(&context, request, &response)));
    for (const v1::ScheduleResult& result : response.results()) {
      if (!result.has_schedule()) return absl::InternalError(result.ShortDebugString());
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<RunResult> PathStages::RunRate(const v1::Target& target, uint64_t events) {
  RETURN_IF_ERROR(receiver_->Clear());
  integration::ApiClient client(bed_->front("master"));
  ASSIGN_OR_RETURN(const auto ended_before, Ended());
  const std::string id = absl::StrCat("bench-", ++made_);
  v1::Schedule schedule;
  schedule.set_cron("0 0 1 1 *");  // fires only when triggered
  schedule.set_event_count(static_cast<int64_t>(events));
  *schedule.mutable_target() = target;
  schedule.set_payload(std::string(options_.payload_bytes, 'b'));
  schedule.mutable_delivery_timeout()->set_seconds(30);
  if (const auto created = client.CreateSchedule(id, schedule); !created.ok())
    return created.status();
  RunHook(options_.begin);
  const absl::Time begin = absl::Now();
  if (const auto run = client.TriggerSchedule(id); !run.ok()) return run.status();
  const double trigger_seconds = absl::ToDoubleSeconds(absl::Now() - begin);
  ASSIGN_OR_RETURN(const auto rate, RateOfAll(ended_before, events));
  return RunResult{trigger_seconds, rate};
}

absl::StatusOr<Lateness> PathStages::LatenessAt(const v1::Target& target, double per_second,
                                                uint64_t events) {
  const absl::Duration step = absl::Seconds(1 / per_second);
  ASSIGN_OR_RETURN(const auto stored, StoreBeforeDue(target, events, step, kQuietLead));
  const absl::Time begin = stored.begin;
  // Sleeps, since questions to the working receiver would make it late.
  absl::SleepFor(begin - absl::Now());
  const double seconds = static_cast<double>(events) / per_second;
  Lateness late;
  std::future<MachineLimits> machine = MeasureMachineLimits(bed_->folder(), absl::Seconds(seconds));
  late.timer = RawTimer(static_cast<uint64_t>(seconds * kTimersPerSecond), kTimersPerSecond);
  late.machine = machine.get();
  ASSIGN_OR_RETURN(const auto counts, AwaitArrivals(events));
  late.p50 = counts.late_p50;
  late.p99 = counts.late_p99;
  late.p999 = counts.late_p999;
  late.max = counts.late_max;
  late.early = counts.early;
  const absl::Time last_due = begin + step * static_cast<int64_t>(events - 1);
  late.last = absl::ToDoubleMicroseconds(absl::FromUnixMicros(counts.last_wall_micros) - last_due);
  return late;
}

absl::StatusOr<PathStages::Stored> PathStages::StoreBeforeDue(const v1::Target& target,
                                                              uint64_t events, absl::Duration step,
                                                              absl::Duration lead) {
  for (int i = 0; i < kIngestTriesMax; ++i) {
    RETURN_IF_ERROR(receiver_->Clear());
    ASSIGN_OR_RETURN(const auto ended_before, Ended());
    const absl::Time begin = absl::Now() + lead + ingest_time_ * static_cast<int64_t>(events);
    ASSIGN_OR_RETURN(const auto took, Ingest({.master = bed_->front("master"),
                                              .caller = bed_->caller(),
                                              .target = target,
                                              .events = events,
                                              .payload_bytes = options_.payload_bytes,
                                              .due_time = [begin, step](uint64_t n) {
                                                return begin + step * static_cast<int64_t>(n);
                                              }}));
    ingest_time_ = std::max(kIngestTimeMin, 2 * took / static_cast<int64_t>(events));
    if (absl::Now() < begin) return Stored{begin, ended_before};
    // These events came too early for a measurement, so they are delivered first.
    if (const auto counts = AwaitArrivals(events); !counts.ok()) return counts.status();
    const double ended = ended_before + static_cast<double>(events);
    RETURN_IF_ERROR(AwaitEnded(ended, events));
  }
  return absl::DeadlineExceededError("the ingest took longer than the time until the first is due");
}

void PathStages::BeginBefore(absl::Time due) const {
  if (options_.begin == nullptr) return;
  absl::SleepFor(due - kBeforeDue - absl::Now());
  options_.begin();
}

absl::StatusOr<ReceiverCounts> PathStages::AwaitArrivals(uint64_t events) {
  const absl::Duration timeout = StageMax(events);
  const absl::Time deadline = absl::Now() + timeout;
  while (true) {
    const auto counts = receiver_->Counts();
    if (!counts.ok() || counts->distinct >= events) return counts;
    if (absl::Now() > deadline) {
      return absl::DeadlineExceededError(absl::StrCat(
          counts->distinct, " of ", events, " events arrived in ", absl::FormatDuration(timeout)));
    }
    absl::SleepFor(kPoll);
  }
}

absl::StatusOr<double> PathStages::Ended() const { return bed_->Metric("handler", kEndedCounter); }

absl::Status PathStages::AwaitEnded(double ended, uint64_t events) {
  const absl::Time deadline = absl::Now() + StageMax(events);
  while (true) {
    ASSIGN_OR_RETURN(const auto now, Ended());
    if (now >= ended) return absl::OkStatus();
    if (absl::Now() > deadline)
      return absl::DeadlineExceededError("the ends of all events did not become durable");
    absl::SleepFor(kPoll);
  }
}

absl::StatusOr<double> PathStages::RateOfAll(double ended_before, uint64_t events) {
  ASSIGN_OR_RETURN(const auto counts, AwaitArrivals(events));
  if (counts.early > 0)
    return absl::InternalError(absl::StrCat(counts.early, " events were early"));
  const double ended = ended_before + static_cast<double>(events);
  RETURN_IF_ERROR(AwaitEnded(ended, events));
  const absl::Time end =
      std::max(absl::Now() - kPoll, absl::FromUnixMicros(counts.last_wall_micros));
  RunHook(options_.end);
  return static_cast<double>(events) /
         absl::ToDoubleSeconds(end - absl::FromUnixMicros(counts.first_wall_micros));
}

void AddLateness(const std::string& name, const Lateness& late, const Bound& p99,
                 Figures& figures) {
  const auto add = [&](const char* what, double micros, int64_t timer_micros, const Bound& bound) {
    const std::string row = absl::StrCat(name, what);
    figures.Add(row, "ms", micros / 1e3, bound);
    figures.AddRaw(row, "ms", "bare timer, same time", static_cast<double>(timer_micros) / 1e3);
  };
  add("p50", late.p50, late.timer.Percentile(0.5), {});
  add("p99", late.p99, late.timer.Percentile(0.99), p99);
  add("p99.9", late.p999, late.timer.Percentile(0.999), {});
  add("max", late.max, late.timer.max(), {});
  AddMachineLimits(name, late.machine, figures);
  const std::string early = name + "early events";
  figures.Add(early, "", static_cast<double>(late.early), {.at_most = 0});
  // Reports an early event of any repetition, since the median would hide it.
  if (late.early > 0)
    figures.AddFailure(early, absl::InternalError(absl::StrCat(late.early, " were early")));
}

}  // namespace escapement::bench
