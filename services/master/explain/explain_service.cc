#include "services/master/explain/explain_service.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/key_codec.h"
#include "common/base/proto_time.h"
#include "common/cron/launch_expression.h"
#include "common/cron/zone.h"
#include "common/kv/layout.h"
#include "common/lease/lease_table.h"
#include "common/records/row_judge.h"
#include "common/status/errors.h"
#include "common/storage/children_table.h"
#include "common/storage/name_tables.h"
#include "common/storage/schedule_table.h"
#include "escapement/storage/v1/access_records.pb.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"
#include "services/master/codec/outcome_codec.h"
#include "services/master/events/event_filter.h"
#include "services/master/explain/event_place.h"
#include "services/master/explain/gates.h"
#include "services/master/explain/limit_use.h"
#include "services/master/requests/range_reader.h"
#include "services/master/requests/resource_name.h"
#include "services/master/schedules/schedule_reader.h"

namespace escapement::master {
namespace {

using kv::ColumnFamily;
using Kind = EventPlace::Kind;

constexpr absl::string_view kPartition = "partition";
constexpr absl::string_view kQueueShard = "queue_shard";
constexpr absl::string_view kPolicyShard = "policy_shard";

kv::Key LeaseOf(absl::string_view kind, uint32_t index) {
  return {ColumnFamily::kLeases, lease::LeaseKey(kind, index)};
}

LeaseView LeaseIn(const std::optional<std::string>& value, absl::Time now) {
  return ViewOf(value.has_value() ? lease::DecodeLeaseValue(*value) : std::nullopt, now);
}

std::optional<absl::Duration> HoldIn(const std::optional<std::string>& value) {
  if (!value.has_value()) return std::nullopt;
  return kv::DecodeClockHold(*value);
}

// The marks of a schedule's active runs.
KeyRange ActiveRunsOf(uint16_t partition, const Uid& uid) {
  std::string prefix = KeyWriter(ActiveRunPrefix(partition)).Id(uid).Take();
  std::string end = PrefixEnd(prefix);
  return {ColumnFamily::kCheckpoints, std::move(prefix), std::move(end)};
}

// The first active run of the schedule with this mark.
std::string ActiveRunIn(const ScheduleName& schedule, const kv::Entry& entry) {
  const std::optional<ActiveRun> run = DecodeActiveRunKey(entry.key);
  return run.has_value() ? RunName{schedule, run->occurrence}.ToString() : std::string();
}

bool IsPause(const v1::Gate& gate) {
  return gate.kind() == v1::Gate::SCHEDULE_PAUSED || gate.kind() == v1::Gate::POLICY_PAUSED;
}

v1::Event::Status StatusOf(const EventPlace& place, const std::vector<v1::Gate>& gates,
                           absl::Time now) {
  v1::Event shown;
  switch (place.kind) {
    case Kind::kUnknown:
      return v1::Event::STATUS_UNSPECIFIED;
    case Kind::kEnded:
      ShowAttempts(place.done, place.position, shown);
      return shown.status();
    case Kind::kClaimed:
    case Kind::kHeld:
      return v1::Event::IN_PROGRESS;
    default:
      break;
  }
  ShowAttempts(place.row, v1::PENDING, shown);
  const bool down = std::any_of(gates.begin(), gates.end(), [](const v1::Gate& gate) {
    return gate.kind() == v1::Gate::TARGET_DOWN;
  });
  const bool first = shown.status() == v1::Event::SCHEDULED;
  return first && down && place.due_time <= now ? v1::Event::TARGET_DOWN : shown.status();
}

// How an event that has ended did so.
std::string EndOf(const EventPlace& place) {
  const storage::v1::DoneRecord& done = place.done;
  std::string text = absl::StrCat("It has ended as ", v1::Outcome_Name(ShowOutcome(done.outcome())),
                                  " at ", TimeText(FromMicros(done.complete_time_micros())));
  if (!done.reason().empty()) absl::StrAppend(&text, " (", done.reason(), ")");
  return absl::StrCat(text, ".");
}

std::string SummaryOf(const EventPlace& place, const std::vector<v1::Gate>& gates,
                      const std::vector<v1::Phase>& phases, absl::Time now) {
  if (place.kind == Kind::kUnknown)
    return "It has been emitted and has not ended, but it was not found: it has just moved, or "
           "waits among more rows than one call reads.";
  if (place.kind == Kind::kEnded) {
    if (phases.empty()) return EndOf(place);
    const auto longest =
        std::max_element(phases.begin(), phases.end(), [](const v1::Phase& a, const v1::Phase& b) {
          return ToDuration(a.duration()) < ToDuration(b.duration());
        });
    return absl::StrCat(EndOf(place), " The longest part: ", longest->detail());
  }
  if (const std::string reason = UnsentReason(place); !reason.empty())
    return absl::StrCat("It ends without being sent: ", reason, ".");
  if (gates.empty()) {
    return place.due_time > now ? "Nothing holds it up."
                                : "No record says that anything holds it up: it goes as soon as "
                                  "its handler and its target have room.";
  }
  if (gates.size() == 1) return gates[0].detail();
  return absl::StrCat(gates[0].detail(), " ", gates.size() - 1, " more gate",
                      gates.size() == 2 ? " is" : "s are", " shut.");
}

// Sets who began the pauses among the gates: the audit has the call, with the time of the pause.
void NamePausers(MasterContext& context, absl::string_view tenant, std::vector<v1::Gate> gates,
                 absl::AnyInvocable<void(absl::StatusOr<std::vector<v1::Gate>>)> done) {
  std::vector<KeyRange> ranges;
  for (const v1::Gate& gate : gates) {
    const auto since = TimestampMicros(gate.since_time());
    if (IsPause(gate) && gate.has_since_time() && since.has_value()) {
      ranges.push_back({ColumnFamily::kAudit, AuditKeyFrom(tenant, FromMicros(*since)),
                        AuditKeyFrom(tenant, FromMicros(*since + 1))});
    }
  }
  auto named = std::make_shared<std::vector<v1::Gate>>(std::move(gates));
  ReadRanges(
      context, std::move(ranges), kPauseAuditRowsMax,
      [named](const KeyRange&, const kv::Entry& entry) -> absl::StatusOr<bool> {
        storage::v1::AuditRecord audit;
        if (!audit.ParseFromString(entry.value)) return BrokenRecord("an entry of the audit");
        for (v1::Gate& gate : *named) {
          if (IsPause(gate) && gate.subject() == audit.resource() && audit.code() == 0 &&
              absl::StartsWith(audit.method(), "Pause")) {
            gate.set_paused_by(audit.principal());
            if (!audit.principal().empty())
              absl::StrAppend(gate.mutable_detail(), " ", audit.principal(), " paused it.");
          }
        }
        return true;
      },
      [named, done = std::move(done)](absl::Status status) mutable {
        if (!status.ok()) return done(std::move(status));
        done(std::move(*named));
      });
}

// Reads what the gates of an event follow from.
class EventExplaining : public std::enable_shared_from_this<EventExplaining> {
 public:
  EventExplaining(MasterContext& context, std::string name, Done<v1::EventExplanation> done)
      : context_(context), name_(std::move(name)), done_(std::move(done)) {}

  void OnPlace(absl::StatusOr<EventPlace> place) {
    if (!place.ok()) return done_(place.status());
    place_ = *std::move(place);
    facts_.now = context_.client.NowLow();
    if (place_.kind == Kind::kEnded) return Answer();
    if (place_.kind == Kind::kUnknown) {
      // The run has it, wherever it is.
      const bool exists = place_.run.has_value() && place_.run->complete_time_micros() == 0 &&
                          place_.index < place_.run->event_count();
      return exists ? Answer() : done_(NotFound(name_));
    }
    ReadLimitUse(context_, place_, [self = shared_from_this()](absl::StatusOr<EventLimits> limits) {
      if (!limits.ok()) return self->done_(limits.status());
      self->facts_.limits = *std::move(limits);
      self->ReadOwners();
    });
  }

 private:
  bool Emitted() const { return place_.kind != Kind::kToEmit && place_.kind != Kind::kLaunch; }

  void ReadOwners() {
    ReadKeys(context_,
             {{ColumnFamily::kMeta, std::string(kv::kClockHoldKey)},
              LeaseOf(kPartition, place_.partition),
              LeaseOf(kPolicyShard, place_.policy_shard)},
             [self = shared_from_this()](absl::StatusOr<KeyValues> values) {
               if (!values.ok()) return self->done_(values.status());
               EventFacts& facts = self->facts_;
               facts.clock_hold = HoldIn((*values)[0]);
               facts.partition = LeaseIn((*values)[1], facts.now);
               facts.policy_shard = LeaseIn((*values)[2], facts.now);
               self->ReadRows();
             });
  }

  // The leases of the handlers, the rows of the target, and the active runs if one may hold the
  // event up.
  void ReadRows() {
    facts_.queue_shards.resize(context_.layout.queue_shards);
    const std::string leases = lease::KindPrefix(kQueueShard);
    std::vector<KeyRange> ranges = {{ColumnFamily::kLeases, leases, PrefixEnd(leases)}};
    if (place_.delivery.has_value()) {
      const std::string rows =
          TargetRowPrefix(place_.row.tenant(), TargetIdOf(TargetKeyOf(place_.delivery->target())));
      ranges.push_back({ColumnFamily::kTargetStates, rows, PrefixEnd(rows)});
    }
    const bool buffers = !Emitted() && place_.schedule->definition.record.run_overlap() ==
                                           storage::v1::RUN_OVERLAP_KIND_BUFFER_ONE;
    if (buffers) ranges.push_back(ActiveRunsOf(place_.partition, place_.uid));
    ReadRanges(
        context_, std::move(ranges), std::max<size_t>(kTargetHandlersMax, kv::kLayoutNumberMax),
        [self = shared_from_this()](const KeyRange& range, kv::Entry& entry) {
          return self->AddRow(range.cf, entry);
        },
        [self = shared_from_this()](absl::Status status) {
          if (!status.ok()) return self->done_(std::move(status));
          self->Answer();
        });
  }

  absl::StatusOr<bool> AddRow(ColumnFamily cf, const kv::Entry& entry) {
    if (cf == ColumnFamily::kCheckpoints) {
      const storage::v1::StateRecord& state = place_.schedule->state;
      facts_.active_run = ActiveRunIn({state.tenant(), state.schedule_id()}, entry);
      return false;
    }
    if (cf == ColumnFamily::kLeases) {
      const auto index = lease::LeaseIndexOf(kQueueShard, entry.key);
      if (index.has_value() && *index < facts_.queue_shards.size())
        facts_.queue_shards[*index] = LeaseIn(entry.value, facts_.now);
      return true;
    }
    const std::optional<TargetRowName> name = DecodeTargetRowKey(entry.key);
    HandlerRow row;
    if (!name.has_value() || !row.record.ParseFromString(entry.value))
      return BrokenRecord("the state of a target");
    row.handler = name->handler;
    facts_.target.push_back(std::move(row));
    return true;
  }

  void Answer() {
    NamePausers(context_, place_.row.tenant(), GatesOf(place_, facts_),
                [self = shared_from_this()](absl::StatusOr<std::vector<v1::Gate>> gates) {
                  if (!gates.ok()) return self->done_(gates.status());
                  self->Answer(*std::move(gates));
                });
  }

  void Answer(std::vector<v1::Gate> gates) {
    std::vector<v1::Phase> phases = PhasesOf(place_);
    v1::EventExplanation answer;
    answer.set_name(name_);
    answer.set_status(StatusOf(place_, gates, facts_.now));
    answer.set_summary(SummaryOf(place_, gates, phases, facts_.now));
    for (v1::Gate& gate : gates) *answer.add_gates() = std::move(gate);
    for (v1::Phase& phase : phases) *answer.add_phases() = std::move(phase);
    done_(std::move(answer));
  }

  MasterContext& context_;
  const std::string name_;
  Done<v1::EventExplanation> done_;
  EventPlace place_;
  EventFacts facts_;
};

}  // namespace

void ExplainService::ExplainEvent(v1::ExplainEventRequest request,
                                  Done<v1::EventExplanation> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  const bool of_run = absl::StrContains(request.name(), "/schedules/");
  absl::StatusOr<EventName> one_off = EventName();
  absl::StatusOr<RunEventName> event = RunEventName();
  if (of_run) {
    event = ParseRunEventName(request.name(), "name");
  } else {
    one_off = ParseEventName(request.name(), "name");
  }
  if (!event.ok()) return context_.Refuse(event.status(), std::move(done));
  if (!one_off.ok()) return context_.Refuse(one_off.status(), std::move(done));
  auto explaining = std::make_shared<EventExplaining>(context_, request.name(), std::move(done));
  const auto on_place = [explaining](absl::StatusOr<EventPlace> place) {
    explaining->OnPlace(std::move(place));
  };
  if (of_run) {
    FindEventPlace(context_, *std::move(event), on_place);
  } else {
    FindEventPlace(context_, *std::move(one_off), on_place);
  }
}

namespace {

class ScheduleExplaining : public std::enable_shared_from_this<ScheduleExplaining> {
 public:
  ScheduleExplaining(MasterContext& context, ScheduleName name, Done<v1::ScheduleExplanation> done)
      : context_(context), name_(std::move(name)), done_(std::move(done)) {}

  void Start() {
    ReadSchedule(context_, name_,
                 [self = shared_from_this()](absl::StatusOr<StoredSchedule> schedule) {
                   if (!schedule.ok()) return self->done_(schedule.status());
                   self->schedule_ = *std::move(schedule);
                   self->ReadPartition();
                 });
  }

 private:
  void ReadPartition() {
    partition_ = PartitionOf(schedule_.uid, context_.layout.partitions);
    ReadKeys(context_,
             {{ColumnFamily::kMeta, std::string(kv::kClockHoldKey)},
              LeaseOf(kPartition, partition_),
              {ColumnFamily::kCheckpoints, EmittedToKey(partition_)}},
             [self = shared_from_this()](absl::StatusOr<KeyValues> values) {
               if (!values.ok()) return self->done_(values.status());
               self->values_ = *std::move(values);
               self->ReadChildren();
             });
  }

  // The keys of a cron expression's children follow from it. Only children that exist are shown.
  void ReadChildren() {
    const cron::Timetable& timetable = schedule_.definition.timetable;
    if (schedule_.state.kind() != storage::v1::SCHEDULE_STATE_KIND_ENABLED) return ReadActive();
    children_ = ChildrenOf(timetable, context_.client.NowLow());
    if (!timetable.calendar()) return ReadActive();
    std::vector<kv::Key> keys;
    for (const cron::Place& place : timetable.ChildPlaces()) {
      if (keys.size() == children_.size()) break;
      keys.push_back({ColumnFamily::kChildren,
                      EncodeChildKey(ChildKeyOf(schedule_.uid, timetable.spec().zone.name(), place,
                                                context_.layout))});
    }
    ReadKeys(
        context_, std::move(keys), [self = shared_from_this()](absl::StatusOr<KeyValues> rows) {
          if (!rows.ok()) return self->done_(rows.status());
          size_t next = 0;
          std::erase_if(self->children_, [&](const auto&) { return !(*rows)[next++].has_value(); });
          self->ReadActive();
        });
  }

  // Only with a policy that does not let runs overlap.
  void ReadActive() {
    const storage::v1::RunOverlapKind overlap = schedule_.definition.record.run_overlap();
    if (overlap != storage::v1::RUN_OVERLAP_KIND_BUFFER_ONE &&
        overlap != storage::v1::RUN_OVERLAP_KIND_SKIP)
      return Answer();
    ReadRanges(
        context_, {ActiveRunsOf(partition_, schedule_.uid)}, 1,
        [self = shared_from_this()](const KeyRange&, kv::Entry& entry) -> absl::StatusOr<bool> {
          self->active_run_ = ActiveRunIn(self->name_, entry);
          return false;
        },
        [self = shared_from_this()](absl::Status status) {
          if (!status.ok()) return self->done_(std::move(status));
          self->Answer();
        });
  }

  void AddGates(std::vector<v1::Gate> pauses, absl::Time now,
                v1::ScheduleExplanation& answer) const {
    for (v1::Gate& pause : pauses) *answer.add_gates() = std::move(pause);
    if (!answer.has_next_time()) {
      v1::Gate& gate = *answer.add_gates();
      gate.set_kind(v1::Gate::FINISHED);
      gate.set_detail("It has no further occurrence.");
      gate.set_opens("An update gives it times to come, or raises max_runs.");
      gate.set_subject(name_.ToString());
      return;
    }
    if (const auto hold = HoldIn(values_[0])) *answer.add_gates() = ClockGate(*hold);
    if (const LeaseView lease = LeaseIn(values_[1], now); lease.owner.empty())
      *answer.add_gates() = NoOwnerGate(absl::StrCat("partition ", partition_), "emitter", lease);
    if (!active_run_.empty()) {
      const bool skips =
          schedule_.definition.record.run_overlap() == storage::v1::RUN_OVERLAP_KIND_SKIP;
      v1::Gate& gate = *answer.add_gates();
      gate.set_kind(v1::Gate::OVERLAP);
      gate.set_detail(absl::StrCat("The run ", active_run_,
                                   " is active. If it still is at the next "
                                   "occurrence, that is ",
                                   skips ? "skipped." : "held up until it has ended."));
      gate.set_opens("The run ends, or is cancelled.");
      gate.set_subject(active_run_);
    }
  }

  std::string SummaryOf(const v1::ScheduleExplanation& answer) const {
    if (!answer.has_next_time()) return "It does not fire any more: it has no further occurrence.";
    const std::string next = TimeText(FromMicros(TimestampMicros(answer.next_time()).value_or(0)));
    if (answer.gates_size() == 0) return absl::StrCat("It fires next at ", next, ".");
    return absl::StrCat("Its next occurrence is at ", next, ". ", answer.gates(0).detail());
  }

  void Answer() {
    std::vector<v1::Gate> pauses;
    if (schedule_.state.kind() == storage::v1::SCHEDULE_STATE_KIND_PAUSED)
      pauses.push_back(PausedGate(name_.ToString(), schedule_.state));
    NamePausers(context_, name_.tenant, std::move(pauses),
                [self = shared_from_this()](absl::StatusOr<std::vector<v1::Gate>> named) {
                  if (!named.ok()) return self->done_(named.status());
                  self->Answer(*std::move(named));
                });
  }

  void Answer(std::vector<v1::Gate> pauses) {
    const absl::Time now = context_.client.NowLow();
    const cron::Timetable& timetable = schedule_.definition.timetable;
    v1::ScheduleExplanation answer;
    answer.set_name(name_.ToString());
    answer.set_partition(partition_);
    answer.set_emitter(LeaseIn(values_[1], now).owner);
    if (values_[2].has_value())
      SetTimestamp(ToMicros(DecodeCheckpoint(*values_[2])), *answer.mutable_emitted_to_time());
    answer.set_time_zone(timetable.spec().zone.name());
    answer.set_tz_version(cron::TzdataVersion());
    if (const auto next = timetable.FirstAfter(now))
      SetTimestamp(ToMicros(next->instant), *answer.mutable_next_time());
    for (const auto& child : children_) *answer.add_children() = child;
    AddGates(std::move(pauses), now, answer);
    answer.set_summary(SummaryOf(answer));
    done_(std::move(answer));
  }

  MasterContext& context_;
  const ScheduleName name_;
  Done<v1::ScheduleExplanation> done_;
  StoredSchedule schedule_;
  uint16_t partition_ = 0;
  KeyValues values_;  // the hold of the clock, the lease and the progress of the partition
  std::vector<v1::PreviewScheduleResponse::Child> children_;
  std::string active_run_;
};

}  // namespace

void ExplainService::ExplainSchedule(v1::ExplainScheduleRequest request,
                                     Done<v1::ScheduleExplanation> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  absl::StatusOr<ScheduleName> name = ParseScheduleName(request.name(), "name");
  if (!name.ok()) return context_.Refuse(name.status(), std::move(done));
  std::make_shared<ScheduleExplaining>(context_, *std::move(name), std::move(done))->Start();
}

}  // namespace escapement::master
