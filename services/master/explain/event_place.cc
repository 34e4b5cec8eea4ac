#include "services/master/explain/event_place.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/key_codec.h"
#include "common/base/proto_time.h"
#include "common/base/status_macros.h"
#include "common/cron/timetable.h"
#include "common/status/errors.h"
#include "common/storage/children_table.h"
#include "common/storage/event_id.h"
#include "common/storage/event_table.h"
#include "common/storage/occurrence_rows.h"
#include "common/storage/run_table.h"
#include "common/storage/schedule_table.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"
#include "services/master/events/event_lookup.h"
#include "services/master/policies/policy_usage.h"
#include "services/master/requests/range_reader.h"
#include "services/master/runs/single_event.h"
#include "services/master/schedules/changes/parked_row.h"
#include "services/master/schedules/changes/row_places.h"

namespace escapement::master {

absl::StatusOr<RunEventName> ParseRunEventName(absl::string_view name, absl::string_view field) {
  constexpr absl::string_view kEvents = "/events/";
  const size_t at = name.rfind(kEvents);
  const absl::string_view digits =
      at == name.npos ? absl::string_view() : name.substr(at + kEvents.size());
  absl::StatusOr<RunName> run = ParseRunName(name.substr(0, std::min(at, name.size())), field);
  RunEventName parsed;
  // Only as the server writes it.
  if (!run.ok() || !absl::SimpleAtoi(digits, &parsed.index) || absl::StrCat(parsed.index) != digits)
    return InvalidField(field,
                        "must be tenants/{tenant}/events/{event} or tenants/{tenant}/schedules/"
                        "{schedule}/runs/{occurrence}/events/{index}");
  parsed.run = *std::move(run);
  return parsed;
}

namespace {

using kv::ColumnFamily;
using Kind = EventPlace::Kind;

bool Contains(const google::protobuf::RepeatedPtrField<storage::v1::IndexRange>& ranges,
              uint64_t index) {
  return absl::c_any_of(ranges, [index](const storage::v1::IndexRange& range) {
    return range.first() <= index && index - range.first() < range.count();
  });
}

// When the event may go that waits in this row of `waiting`, which is due at `due`.
absl::Time DueInWindow(const storage::v1::ThrottleRecord& throttle, uint64_t index,
                       absl::Time due) {
  if (!throttle.has_window()) return due;
  due = std::max(due, FromMicros(throttle.window_begin_micros()));
  if (throttle.pace_count() == 0) return due;
  return std::max(due, FromMicros(PacedMicros(throttle, index)));
}

// Takes the grant and the holder from the record if they are of the event. True: they are.
bool TakeHolder(const kv::Entry& entry, const storage::v1::GrantRecord& grant, EventPlace& place) {
  const std::optional<GrantId> id = DecodeGrantKey(entry.key);
  if (!id.has_value() || grant.uid() != place.uid.bytes() || grant.occurrence() != place.occurrence)
    return false;
  for (const auto& holders : grant.holders()) {
    if (place.index < holders.first() || place.index - holders.first() >= holders.count()) continue;
    place.kind = Kind::kHeld;
    place.grant_id = *id;
    place.policy_shard = id->policy_shard;
    place.holder = holders;
    place.grant = grant;
    place.grant.clear_holders();
    place.row = grant.event();
    place.queue_shard = static_cast<uint16_t>(grant.queue_shard());
    place.due_time = FromMicros(grant.event().launch_time_micros());
    return true;
  }
  return false;
}

// The event of a run.
class RunEventSearch : public std::enable_shared_from_this<RunEventSearch> {
 public:
  RunEventSearch(MasterContext& context, RunEventName name, FoundPlace done)
      : context_(context),
        name_(std::move(name)),
        done_(std::move(done)),
        places_(OccurrenceSource(), context.layout) {
    place_.occurrence = name_.run.occurrence;
    place_.index = name_.index;
  }

  void Start() {
    ReadScheduleOfRuns(context_, name_.run.schedule,
                       [self = shared_from_this()](absl::StatusOr<StoredSchedule> schedule) {
                         if (!schedule.ok()) return self->done_(schedule.status());
                         self->OnSchedule(*std::move(schedule));
                       });
  }

 private:
  void OnSchedule(StoredSchedule schedule) {
    place_.uid = schedule.uid;
    source_ = SourceOf(schedule.definition.record);
    place_.delivery = schedule.definition.record.delivery();
    place_.schedule = std::move(schedule);
    const auto id = cron::ParseOccurrence(place_.occurrence);
    if (!id.ok()) return done_(std::move(place_));
    nominal_ = InstantOf(*id);
    launch_ = LaunchTimeOf(source_, place_.occurrence, nominal_);
    places_ = RowPlaces(source_, context_.layout);
    ReadRecords();
  }

  // It is not where the present version puts it.
  void ReadPlaces() {
    ReadRowPlaces(context_, source_, nominal_,
                  [self = shared_from_this()](absl::StatusOr<RowPlaces> places) {
                    if (!places.ok()) return self->done_(places.status());
                    self->places_ = *std::move(places);
                    self->ReadRecords();
                  });
  }

  // The run's record, its launch record, and how far the partition has been emitted.
  void ReadRecords() {
    const uint16_t partition = PartitionOf(place_.uid, context_.layout.partitions);
    place_.partition = partition;
    std::vector<kv::Key> keys = {
        {ColumnFamily::kRuns, EncodeRunKey({place_.uid, place_.occurrence})},
        {ColumnFamily::kCheckpoints, EmittedToKey(partition)}};
    dues_ = places_.DueTimes(place_.occurrence, nominal_);
    for (const absl::Time due : dues_)
      keys.push_back({ColumnFamily::kCheckpoints, places_.LaunchKeyAt(place_.occurrence, due)});
    context_.client.MultiGet(std::move(keys), context_.executor,
                             [self = shared_from_this()](absl::StatusOr<kv::GetResult> result) {
                               if (!result.ok()) return self->done_(StoreFailed(result.status()));
                               self->OnRecords(std::move(result->values));
                             });
  }

  void OnRecords(KeyValues values) {
    place_.run.reset();
    launch_record_.reset();
    if (values[0].has_value() && !place_.run.emplace().ParseFromString(*values[0]))
      return done_(BrokenRecord("a run"));
    emitted_to_ = values[1].has_value() ? DecodeCheckpoint(*values[1]) : absl::InfinitePast();
    for (size_t i = 2; i < values.size(); ++i) {
      if (!values[i].has_value()) continue;
      if (!launch_record_.emplace().ParseFromString(*values[i]))
        return done_(BrokenRecord("a launch"));
      launch_ = dues_[i - 2];
    }
    // A run without a record has one event, whatever its schedule says now.
    SetShard(place_.run.has_value() ? place_.run->event_count() : 1);
    ReadDone();
  }

  // How many events the run has, or would have.
  uint64_t EventCount() const {
    if (place_.run.has_value()) return place_.run->event_count();
    return launch_record_.has_value() ? launch_record_->event_count() : source_.event_count;
  }

  void SetShard(uint64_t n) {
    const uint32_t shards = context_.layout.queue_shards;
    place_.queue_shard = n > 1 ? ShardOfIndex(n, place_.index, shards) : ShardOfFirst();
  }
  uint16_t ShardOfFirst() const {
    return ShardOfEventId(RunIdentity(source_.tenant, place_.uid, place_.occurrence).EventId(0),
                          context_.layout.queue_shards);
  }

  // Done records are under the day of their launch time; jitter, of any version, is at most a day.
  void ReadDone() {
    done_reads_.clear();
    for (const absl::Duration later : {absl::ZeroDuration(), absl::Hours(24)}) {
      const uint32_t day = DoneDay(nominal_ + later);
      done_reads_.push_back({place_.queue_shard, day, place_.index});
      // An occurrence that was skipped as a whole.
      if (place_.index > 0 || place_.queue_shard != ShardOfFirst())
        done_reads_.push_back({ShardOfFirst(), day, 0});
    }
    ReadNextDone();
  }

  struct DoneRead {
    uint16_t shard = 0;
    uint32_t day = 0;
    uint64_t index = 0;
  };

  // The last record that begins at or before the index.
  void ReadNextDone() {
    if (done_reads_.empty()) return ReadQueue();
    const DoneRead read = done_reads_.back();
    done_reads_.pop_back();
    kv::ScanRequest scan;
    scan.cf = ColumnFamily::kDone;
    scan.begin = DoneRunPrefix(read.shard, read.day, place_.uid, place_.occurrence);
    scan.end = KeyAfter(EncodeDoneKey({.shard = read.shard,
                                       .day = read.day,
                                       .uid = place_.uid,
                                       .occurrence = place_.occurrence,
                                       .first = read.index}));
    scan.limit = 1;
    scan.reverse = true;
    context_.client.Scan(std::move(scan), context_.executor,
                         [self = shared_from_this()](absl::StatusOr<kv::ScanResult> page) {
                           if (!page.ok()) return self->done_(StoreFailed(page.status()));
                           self->OnDone(page->entries);
                         });
  }

  void OnDone(const std::vector<kv::Entry>& entries) {
    if (entries.empty()) return ReadNextDone();
    const auto key = DecodeDoneKey(entries[0].key);
    storage::v1::DoneRecord record;
    if (!key.has_value() || !record.ParseFromString(entries[0].value))
      return done_(BrokenRecord("a Done record"));
    const uint64_t count =
        record.run_skipped() ? record.run_count() : std::max<uint64_t>(record.count(), 1);
    if (place_.index < key->first || place_.index - key->first >= count) return ReadNextDone();
    place_.kind = Kind::kEnded;
    place_.position = place_.index - key->first;
    place_.done = std::move(record);
    done_(std::move(place_));
  }

  // Rows in the lanes of priorities and of catch-up, which are due at the launch time.
  void ReadQueue() {
    std::vector<kv::KeyRange> ranges;
    for (uint8_t lane = 0; lane < kLaneCount; ++lane) {
      for (const absl::Time due : dues_) {
        EventKey key = {.shard = place_.queue_shard,
                        .lane = lane,
                        .due_time = due,
                        .uid = place_.uid,
                        .occurrence = place_.occurrence,
                        .first = 0};
        kv::KeyRange& range = ranges.emplace_back();
        range.begin = EncodeEventKey(key);
        key.first = place_.index;
        range.end = KeyAfter(EncodeEventKey(key));
      }
    }
    kv::ScanRequest scan;
    scan.cf = ColumnFamily::kEvents;
    scan.begin = std::move(ranges.front().begin);
    scan.end = std::move(ranges.front().end);
    scan.then.assign(std::make_move_iterator(ranges.begin() + 1),
                     std::make_move_iterator(ranges.end()));
    context_.client.Scan(std::move(scan), context_.executor,
                         [self = shared_from_this()](absl::StatusOr<kv::ScanResult> page) {
                           if (!page.ok()) return self->done_(StoreFailed(page.status()));
                           self->OnQueue(page->entries);
                         });
  }

  void OnQueue(const std::vector<kv::Entry>& entries) {
    for (const kv::Entry& entry : entries) {
      const absl::StatusOr<bool> found = VisitRow(entry);
      if (!found.ok()) return done_(found.status());
      if (*found) return done_(std::move(place_));
    }
    ReadElsewhere();
  }

  // A row of `events`.
  absl::StatusOr<bool> VisitRow(const kv::Entry& entry) {
    const auto key = DecodeEventKey(entry.key);
    if (!key.has_value() || key->uid != place_.uid || key->occurrence != place_.occurrence)
      return false;
    storage::v1::EventRecord row;
    if (!row.ParseFromString(entry.value)) return BrokenRecord("an event");
    if (place_.index < key->first || place_.index - key->first >= row.count()) return false;
    place_.kind = Kind::kQueued;
    place_.row = std::move(row);
    place_.due_time = key->due_time;
    place_.queue_shard = key->shard;
    return true;
  }

  // Where rows have no order by their launch time: parked, under a policy, claimed, in retries.
  void ReadElsewhere() {
    const std::string parked = ParkedPrefix(place_.uid);
    std::vector<KeyRange> ranges = {{ColumnFamily::kParked, parked, PrefixEnd(parked)}};
    // A row moves from former groups to later ones.
    for (const WaitingGroup& group : places_.groups()) {
      const auto& [shard, policy] = group.place;
      const std::string rows = WaitingGroupPrefix(shard, policy, group.priority, place_.uid);
      ranges.push_back({ColumnFamily::kWaiting, rows, PrefixEnd(rows)});
    }
    std::set<std::string> policies;
    for (const WaitingGroup& group : places_.groups()) {
      const auto& [shard, policy] = group.place;
      if (policies.insert(GrantsBegin(shard, policy)).second) {
        ranges.push_back(
            {ColumnFamily::kGrants, GrantsBegin(shard, policy), GrantsEnd(shard, policy)});
      }
    }
    ranges.push_back({ColumnFamily::kInflight, InflightShardBegin(place_.queue_shard),
                      InflightShardEnd(place_.queue_shard)});
    ranges.push_back({ColumnFamily::kEvents,
                      EventLaneKey(place_.queue_shard, kLaneRetry, absl::InfinitePast()),
                      EventLaneKey(place_.queue_shard, kLaneRetry + 1, absl::InfinitePast())});
    claim_.reset();
    ReadRanges(
        context_, std::move(ranges), kLookupRowsMax,
        [self = shared_from_this()](const KeyRange& range,
                                    kv::Entry& entry) -> absl::StatusOr<bool> {
          ASSIGN_OR_RETURN(const bool found, self->Visit(range.cf, entry));
          return !found;
        },
        [self = shared_from_this()](absl::Status status) {
          if (!status.ok()) return self->done_(std::move(status));
          if (self->place_.kind != Kind::kUnknown) return self->done_(std::move(self->place_));
          // It has moved, or it is nowhere.
          if (++self->rounds_ < kRoundsMax)
            return self->rounds_ == 1 ? self->ReadPlaces() : self->ReadRecords();
          self->TakeUnemitted();
        });
  }

  absl::StatusOr<bool> Visit(ColumnFamily cf, kv::Entry& entry) {
    switch (cf) {
      case ColumnFamily::kParked:
        return VisitParked(entry);
      case ColumnFamily::kWaiting:
        return VisitWaiting(entry);
      case ColumnFamily::kGrants: {
        storage::v1::GrantRecord grant;
        if (!grant.ParseFromString(entry.value)) return BrokenRecord("a grant");
        return TakeHolder(entry, grant, place_);
      }
      case ColumnFamily::kInflight:
        return VisitClaim(entry);
      default:
        // The claims have been read: the event is in the one that was found and not ended.
        if (claim_.has_value()) return true;
        return VisitRow(entry);
    }
  }

  absl::StatusOr<bool> VisitParked(kv::Entry& entry) {
    ASSIGN_OR_RETURN(ParkedRow parked, ReadParkedRow(std::move(entry)));
    if (parked.occurrence != place_.occurrence || place_.index < parked.begin() ||
        place_.index >= parked.end())
      return false;
    place_.kind = Kind::kParked;
    place_.due_time = parked.due_time;
    place_.row = std::move(parked.row);
    if (!place_.throttled()) return true;
    place_.due_time = DueInWindow(place_.row.throttle(), place_.index, place_.due_time);
    SetPolicyShard();
    return true;
  }

  absl::StatusOr<bool> VisitWaiting(const kv::Entry& entry) {
    const auto key = DecodeWaitingKey(entry.key);
    if (!key.has_value() || key->occurrence != place_.occurrence) return false;
    storage::v1::EventRecord row;
    if (!row.ParseFromString(entry.value)) return BrokenRecord("a waiting event");
    const uint64_t first = key->first + row.throttle().taken();
    if (place_.index < first || place_.index >= key->first + row.count()) return false;
    place_.kind = Kind::kWaiting;
    place_.due_time = DueInWindow(row.throttle(), place_.index, key->due_time);
    place_.policy_shard = key->policy_shard;
    place_.row = std::move(row);
    return true;
  }

  // The ends of a claim follow it. Goes on after the claim, to see whether the event has ended.
  absl::StatusOr<bool> VisitClaim(const kv::Entry& entry) {
    const auto key = DecodeInflightKey(entry.key);
    if (!key.has_value()) return false;
    if (claim_.has_value() && !(claim_->claim == key->claim)) return true;
    if (key->is_claim()) {
      storage::v1::ClaimRecord claim;
      if (!claim.ParseFromString(entry.value)) return BrokenRecord("a claim");
      for (int i = 0; i < claim.entries_size(); ++i) {
        if (!TakeClaimed(*claim.mutable_entries(i))) continue;
        claim_ = {.claim = key->claim, .entry = static_cast<uint32_t>(i)};
        return false;
      }
    } else if (key->is_end() && claim_.has_value()) {
      storage::v1::ClaimEndRecord end;
      if (!end.ParseFromString(entry.value)) return BrokenRecord("the end of a claim");
      for (const auto& ended : end.entries()) {
        if (ended.entry() != claim_->entry || !Contains(ended.ranges(), place_.index)) continue;
        claim_.reset();
        place_.kind = Kind::kUnknown;
        break;
      }
    }
    return false;
  }

  bool TakeClaimed(storage::v1::ClaimRecord::Entry& entry) {
    std::optional<EventKey> key = DecodeEventKey(entry.event_key());
    if (const auto waiting = DecodeWaitingKey(entry.event_key()); entry.has_grant() && waiting) {
      key = EventKey{.due_time = waiting->due_time,
                     .uid = waiting->uid,
                     .occurrence = waiting->occurrence,
                     .first = waiting->first};
    }
    if (!key.has_value() || key->uid != place_.uid || key->occurrence != place_.occurrence ||
        !Contains(entry.ranges(), place_.index))
      return false;
    place_.kind = Kind::kClaimed;
    place_.due_time = key->due_time;
    place_.row = std::move(*entry.mutable_event());
    if (place_.throttled()) SetPolicyShard();
    return true;
  }

  void SetPolicyShard() {
    place_.policy_shard = WaitingPlaceOf(source_.tenant, place_.row.throttle(), place_.uid,
                                         context_.layout.policy_shards)
                              .policy_shard;
  }

  // No row has it: it may be to come.
  void TakeUnemitted() {
    const StoredSchedule& schedule = *place_.schedule;
    if (place_.index >= EventCount() || place_.run.has_value()) return done_(std::move(place_));
    if (launch_record_.has_value()) {
      place_.kind = Kind::kLaunch;
    } else {
      const bool paused = schedule.state.kind() == storage::v1::SCHEDULE_STATE_KIND_PAUSED;
      // The resume decides about occurrences that fall due in a pause.
      const absl::Time from =
          paused ? std::min(emitted_to_, FromMicros(schedule.state.pause_time_micros()))
                 : emitted_to_;
      if (schedule.state.kind() == storage::v1::SCHEDULE_STATE_KIND_DELETED || nominal_ < from ||
          !schedule.definition.timetable.Has(place_.occurrence, nominal_))
        return done_(std::move(place_));
      place_.kind = Kind::kToEmit;
    }
    place_.due_time = launch_;
    SetShard(EventCount());
    place_.row.set_tenant(source_.tenant);
    place_.row.set_version(source_.version);
    place_.row.set_count(EventCount());
    place_.row.set_run_count(EventCount());
    place_.row.set_nominal_time_micros(ToMicros(nominal_));
    place_.row.set_launch_time_micros(ToMicros(launch_));
    if (source_.throttle.has_value()) {
      place_.row.set_priority(source_.priority);
      *place_.row.mutable_throttle() = *source_.throttle;
      SetPolicyShard();
    }
    done_(std::move(place_));
  }

  static constexpr int kRoundsMax = 3;

  struct FoundClaim {
    ClaimId claim;
    uint32_t entry = 0;
  };

  MasterContext& context_;
  const RunEventName name_;
  FoundPlace done_;
  EventPlace place_;
  OccurrenceSource source_;
  RowPlaces places_;
  std::vector<absl::Time> dues_;  // when its row may be due, ascending
  absl::Time nominal_;
  absl::Time launch_;
  absl::Time emitted_to_;
  std::optional<storage::v1::LaunchRecord> launch_record_;
  std::vector<DoneRead> done_reads_;
  std::optional<FoundClaim> claim_;
  int rounds_ = 0;
};

// The grant of a one-off event that holds a token; without one it has moved.
void FindHolder(MasterContext& context, EventPlace place, FoundPlace done) {
  const auto [shard, policy] = WaitingPlaceOf(place.row.tenant(), place.row.throttle(), place.uid,
                                              context.layout.policy_shards);
  auto found = std::make_shared<EventPlace>(std::move(place));
  ReadRanges(
      context, {{ColumnFamily::kGrants, GrantsBegin(shard, policy), GrantsEnd(shard, policy)}},
      kLookupRowsMax,
      [found](const KeyRange&, kv::Entry& entry) -> absl::StatusOr<bool> {
        storage::v1::GrantRecord grant;
        if (!grant.ParseFromString(entry.value)) return BrokenRecord("a grant");
        return !TakeHolder(entry, grant, *found);
      },
      [found, done = std::move(done)](absl::Status status) mutable {
        if (!status.ok()) return done(std::move(status));
        done(std::move(*found));
      });
}

void Find(MasterContext& context, EventName name, FoundPlace done, int rounds) {
  LookUpEvent(context, name, ReadClaims::kAlways,
              [&context, name, rounds,
               done = std::move(done)](absl::StatusOr<EventSighting> sighting) mutable {
                if (!sighting.ok()) return done(StoreFailed(sighting.status()));
                EventPlace place;
                place.uid = sighting->key.uid;
                place.queue_shard = sighting->key.shard;
                place.due_time = sighting->due_time;
                if (sighting->definition.has_value())
                  place.delivery = sighting->definition->delivery();
                if (sighting->done.has_value()) {
                  place.kind = Kind::kEnded;
                  place.done = *std::move(sighting->done);
                  return done(std::move(place));
                }
                if (!sighting->row.has_value()) return done(std::move(place));
                place.row = *std::move(sighting->row);
                if (!place.throttled()) {
                  place.kind = sighting->claimed ? Kind::kClaimed : Kind::kQueued;
                  return done(std::move(place));
                }
                if (!sighting->claimed) {
                  const auto key = DecodeWaitingKey(sighting->waiting_key);
                  place.kind = Kind::kWaiting;
                  if (key.has_value()) place.policy_shard = key->policy_shard;
                  return done(std::move(place));
                }
                FindHolder(context, std::move(place),
                           [&context, name = std::move(name), rounds,
                            done = std::move(done)](absl::StatusOr<EventPlace> held) mutable {
                             // Neither in `waiting` nor in `grants`: it has moved.
                             if (held.ok() && held->kind == Kind::kUnknown && rounds > 1)
                               return Find(context, std::move(name), std::move(done), rounds - 1);
                             done(std::move(held));
                           });
              });
}

// An event moves between `waiting` and `grants` with each attempt.
constexpr int kFindRoundsMax = 5;

}  // namespace

void FindEventPlace(MasterContext& context, EventName name, FoundPlace done) {
  Find(context, std::move(name), std::move(done), kFindRoundsMax);
}

void FindEventPlace(MasterContext& context, RunEventName name, FoundPlace done) {
  std::make_shared<RunEventSearch>(context, std::move(name), std::move(done))->Start();
}

}  // namespace escapement::master
