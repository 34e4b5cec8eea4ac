#include "services/master/runs/single_event.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/base/check.h"
#include "common/base/key_codec.h"
#include "common/cron/timetable.h"
#include "common/cron/zone.h"
#include "common/storage/event_id.h"
#include "common/storage/event_table.h"
#include "common/storage/run_table.h"
#include "common/storage/waiting_table.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"
#include "services/master/requests/range_reader.h"
#include "services/master/schedules/changes/parked_row.h"
#include "services/master/schedules/changes/throttled_events.h"

namespace escapement::master {

absl::Time InstantOf(const cron::OccurrenceId& id) {
  if (!id.calendar) return id.instant;
  const auto zone = cron::Zone::Load(id.zone);
  if (!zone.ok()) return absl::InfinitePast();
  const cron::CivilInfo info = zone->Classify(id.civil);
  if (info.kind == cron::CivilKind::kSkipped)
    return absl::FromUnixSeconds(zone->spans()[info.gap].begin);
  CHECK(!info.instants.empty());
  const size_t fold = std::min<size_t>(static_cast<size_t>(id.fold), info.instants.size() - 1);
  return absl::FromUnixSeconds(info.instants[fold]);
}

namespace {

using kv::ColumnFamily;

uint16_t ShardOfOnlyEvent(const OccurrenceSource& source, const std::string& occurrence,
                          uint32_t queue_shards) {
  return ShardOfEventId(RunIdentity(source.tenant, source.uid, occurrence).EventId(0),
                        queue_shards);
}

class Search : public std::enable_shared_from_this<Search> {
 public:
  using Found = absl::AnyInvocable<void(absl::StatusOr<SingleEvent>)>;
  Search(MasterContext& context, OccurrenceSource source, std::string occurrence, Found done)
      : context_(context),
        source_(std::move(source)),
        uid_(source_.uid),
        occurrence_(std::move(occurrence)),
        done_(std::move(done)) {
    shard_ = ShardOfOnlyEvent(source_, occurrence_, context.layout.queue_shards);
  }

  void ReadKeys() {
    const auto id = cron::ParseOccurrence(occurrence_);
    if (!id.ok()) return done_(SingleEvent());
    const absl::Time nominal = InstantOf(*id);
    std::vector<kv::Key> keys;
    // Jitter, of any version, is at most a day.
    for (const absl::Duration later : {absl::ZeroDuration(), absl::Hours(24)}) {
      keys.push_back({ColumnFamily::kDone, EncodeDoneKey({.shard = shard_,
                                                          .day = DoneDay(nominal + later),
                                                          .uid = uid_,
                                                          .occurrence = occurrence_,
                                                          .first = 0})});
    }
    done_keys_ = keys.size();
    AddQueueKeys(nominal, keys);
    // Runs that were triggered are due at their nominal time, others later.
    const absl::Time launch = LaunchTimeOf(source_, occurrence_, nominal);
    if (launch != nominal) AddQueueKeys(launch, keys);
    context_.client.MultiGet(std::move(keys), context_.executor,
                             [self = shared_from_this()](absl::StatusOr<kv::GetResult> result) {
                               self->OnKeys(std::move(result));
                             });
  }

 private:
  void AddQueueKeys(absl::Time due, std::vector<kv::Key>& keys) const {
    for (uint8_t lane = 0; lane < kLaneCount; ++lane) {
      const std::string key = EncodeEventKey({.shard = shard_,
                                              .lane = lane,
                                              .due_time = due,
                                              .uid = uid_,
                                              .occurrence = occurrence_,
                                              .first = 0});
      keys.push_back({ColumnFamily::kEvents, key});
      keys.push_back({ColumnFamily::kParked, ParkedKey(uid_, key)});
    }
    if (!source_.throttle.has_value()) return;
    const std::string key = EncodeWaitingKey(KeyWhileWaiting(due));
    keys.push_back({ColumnFamily::kWaiting, key});
    keys.push_back({ColumnFamily::kParked, ParkedKey(uid_, key)});
  }

  WaitingKey KeyWhileWaiting(absl::Time due) const {
    storage::v1::EventRecord row;
    row.set_tenant(source_.tenant);
    row.set_priority(source_.priority);
    *row.mutable_throttle() = *source_.throttle;
    return WaitingKeyOf(row, uid_, occurrence_, /*first=*/0, due, context_.layout.policy_shards);
  }

  void OnKeys(absl::StatusOr<kv::GetResult> result) {
    if (!result.ok()) return done_(StoreFailed(result.status()));
    for (size_t i = 0; i < done_keys_; ++i) {
      if (!result->values[i].has_value()) continue;
      SingleEvent found;
      if (!found.done.emplace().ParseFromString(*result->values[i]))
        return done_(BrokenRecord("a Done record"));
      return done_(std::move(found));
    }
    for (size_t i = done_keys_; i < result->values.size(); ++i) {
      const std::optional<std::string>& value = result->values[i];
      // Each key of a queue is followed by the one that the row has while it is parked.
      if (value.has_value())
        return FoundRow(*value, v1::PENDING, /*parked=*/(i - done_keys_) % 2 == 1);
    }
    if (++rounds_ > 2) return done_(SingleEvent());
    ThrottledQuery query;
    query.source = source_;
    query.wanted = [occurrence = occurrence_](const ThrottledRange& range) {
      return range.occurrence == occurrence;
    };
    ReadThrottledEvents(
        context_, std::move(query),
        [self = shared_from_this()](absl::StatusOr<std::vector<ThrottledRange>> found) {
          self->OnThrottled(std::move(found));
        });
  }

  void OnThrottled(absl::StatusOr<std::vector<ThrottledRange>> ranges) {
    if (!ranges.ok()) return done_(ranges.status());
    if (!ranges->empty()) {
      SingleEvent found;
      found.state = (*ranges)[0].state;
      found.row = std::move((*ranges)[0].row);
      return done_(std::move(found));
    }
    Scan(ColumnFamily::kInflight, InflightShardBegin(shard_), InflightShardEnd(shard_));
  }

  void FoundRow(const std::string& bytes, v1::EventState state, bool parked = false) {
    SingleEvent found;
    found.state = state;
    found.parked = parked;
    if (!found.row.emplace().ParseFromString(bytes)) return done_(BrokenRecord("an event"));
    done_(std::move(found));
  }

  void Scan(ColumnFamily cf, std::string begin, std::string end) {
    kv::ScanRequest scan;
    scan.cf = cf;
    scan.begin = std::move(begin);
    scan.end = end;
    scan.bytes_max = 4 << 20;
    context_.client.Scan(std::move(scan), context_.executor,
                         [self = shared_from_this(), cf, end](absl::StatusOr<kv::ScanResult> page) {
                           self->OnPage(cf, end, std::move(page));
                         });
  }

  // True if it was found among the page's entries, and answered.
  bool Answered(ColumnFamily cf, const kv::Entry& entry) {
    if (cf == ColumnFamily::kEvents) {
      const auto key = DecodeEventKey(entry.key);
      if (!key.has_value() || key->uid != uid_ || key->occurrence != occurrence_) return false;
      FoundRow(entry.value, v1::PENDING);
      return true;
    }
    storage::v1::ClaimRecord claim;
    const auto inflight = DecodeInflightKey(entry.key);
    if (!inflight.has_value() || !inflight->is_claim() || !claim.ParseFromString(entry.value))
      return false;
    for (const auto& claimed : claim.entries()) {
      const auto key = DecodeEventKey(claimed.event_key());
      if (!key.has_value() || key->uid != uid_ || key->occurrence != occurrence_) continue;
      SingleEvent found;
      found.row = claimed.event();
      found.state = v1::RUNNING;
      done_(std::move(found));
      return true;
    }
    return false;
  }

  void OnPage(ColumnFamily cf, const std::string& end, absl::StatusOr<kv::ScanResult> page) {
    if (!page.ok()) return done_(StoreFailed(page.status()));
    for (const kv::Entry& entry : page->entries) {
      if (Answered(cf, entry)) return;
    }
    rows_read_ += page->entries.size();
    if (page->more && !page->entries.empty() && rows_read_ < kLookupRowsMax) {
      return Scan(cf, KeyAfter(page->entries.back().key), end);
    }
    rows_read_ = 0;
    if (cf == ColumnFamily::kEvents) return ReadKeys();
    Scan(ColumnFamily::kEvents, EventLaneKey(shard_, kLaneRetry, absl::InfinitePast()),
         EventLaneKey(shard_, kLaneRetry + 1, absl::InfinitePast()));
  }

  MasterContext& context_;
  const OccurrenceSource source_;
  const Uid uid_;
  const std::string occurrence_;
  Found done_;
  uint16_t shard_ = 0;
  int rounds_ = 0;
  size_t done_keys_ = 0;  // the first keys of those that were read
  size_t rows_read_ = 0;
};

}  // namespace

void FindSingleEvent(MasterContext& context, OccurrenceSource source, std::string occurrence,
                     absl::AnyInvocable<void(absl::StatusOr<SingleEvent>)> done) {
  std::make_shared<Search>(context, std::move(source), std::move(occurrence), std::move(done))
      ->ReadKeys();
}

namespace {

// Reads the places in the order in which events move: the queue, where rows are parked, claims,
// retries. Events go back and forth between the last two, so claims are read again.
class ActiveSearch : public std::enable_shared_from_this<ActiveSearch> {
 public:
  using Found = absl::AnyInvocable<void(absl::StatusOr<SingleEvents>)>;
  ActiveSearch(MasterContext& context, ActiveSinglesQuery query, Found done)
      : context_(context), query_(std::move(query)), done_(std::move(done)) {}

  void Start() {
    std::vector<kv::Key> keys;
    for (const EmittedOccurrence& occurrence : query_.occurrences) {
      EventKey key;
      key.shard = ShardOfOnlyEvent(query_.source, occurrence.id, context_.layout.queue_shards);
      key.due_time = occurrence.launch_time;
      key.uid = query_.source.uid;
      key.occurrence = occurrence.id;
      for (const uint8_t lane : query_.lanes) {
        key.lane = lane;
        keys.push_back({ColumnFamily::kEvents, EncodeEventKey(key)});
      }
    }
    ReadKeys(context_, std::move(keys),
             [self = shared_from_this()](auto values) { self->OnQueue(std::move(values)); });
  }

 private:
  void OnQueue(absl::StatusOr<KeyValues> values) {
    if (!values.ok()) return done_(values.status());
    for (size_t i = 0; i < values->size(); ++i) {
      if (!(*values)[i].has_value()) continue;
      storage::v1::EventRecord row;
      if (!row.ParseFromString(*(*values)[i])) return done_(BrokenRecord("an event"));
      Add(query_.occurrences[i / query_.lanes.size()].id, std::move(row), v1::PENDING);
    }
    ThrottledQuery throttled;
    throttled.source = query_.source;
    throttled.limit = kLookupRowsMax;
    throttled.wanted = [](const ThrottledRange& range) { return !HasRun(range.row); };
    ReadThrottledEvents(context_, std::move(throttled), [self = shared_from_this()](auto ranges) {
      if (!ranges.ok()) return self->done_(ranges.status());
      for (ThrottledRange& range : *ranges)
        self->Add(range.occurrence, std::move(range.row), range.state);
      self->ReadMoving();
    });
  }

  void ReadMoving() {
    const std::string parked = ParkedPrefix(query_.source.uid);
    std::vector<KeyRange> ranges = {{ColumnFamily::kParked, parked, PrefixEnd(parked)}};
    const uint32_t shards = context_.layout.queue_shards;
    const auto add_claims = [&] {
      for (uint32_t i = 0; i < shards; ++i) {
        const uint16_t shard = static_cast<uint16_t>(i);
        ranges.push_back(
            {ColumnFamily::kInflight, InflightShardBegin(shard), InflightShardEnd(shard)});
      }
    };
    add_claims();
    for (uint32_t i = 0; i < shards; ++i) {
      const uint16_t shard = static_cast<uint16_t>(i);
      ranges.push_back({ColumnFamily::kEvents,
                        EventLaneKey(shard, kLaneRetry, absl::InfinitePast()),
                        EventLaneKey(shard, kLaneRetry + 1, absl::InfinitePast())});
    }
    add_claims();
    ReadRanges(
        context_, std::move(ranges), kLookupRowsMax,
        [self = shared_from_this()](const KeyRange& range, kv::Entry& entry) {
          return self->OnEntry(range.cf, entry);
        },
        [self = shared_from_this()](absl::Status status) {
          if (!status.ok()) return self->done_(std::move(status));
          self->done_(std::move(self->found_));
        });
  }

  absl::StatusOr<bool> OnEntry(ColumnFamily cf, const kv::Entry& entry) {
    if (cf == ColumnFamily::kInflight) return OnClaim(entry);
    const auto key =
        DecodeEventKey(cf == ColumnFamily::kParked ? EventKeyOfParked(entry.key) : entry.key);
    // A throttled row that is parked has another key, and was found before.
    if (!key.has_value() || key->uid != query_.source.uid) return true;
    storage::v1::EventRecord row;
    if (!row.ParseFromString(entry.value)) return BrokenRecord("an event");
    Add(key->occurrence, std::move(row), v1::PENDING);
    return true;
  }

  absl::StatusOr<bool> OnClaim(const kv::Entry& entry) {
    const auto inflight = DecodeInflightKey(entry.key);
    storage::v1::ClaimRecord claim;
    if (!inflight.has_value() || !inflight->is_claim()) return true;
    if (!claim.ParseFromString(entry.value)) return BrokenRecord("a claim");
    for (auto& claimed : *claim.mutable_entries()) {
      const auto key = DecodeEventKey(claimed.event_key());
      if (key.has_value() && key->uid == query_.source.uid)
        Add(key->occurrence, std::move(*claimed.mutable_event()), v1::RUNNING);
    }
    return true;
  }

  void Add(const std::string& occurrence, storage::v1::EventRecord row, v1::EventState state) {
    if (row.run_count() > 1 || HasRun(row)) return;
    found_.try_emplace(occurrence, SingleEvent{std::nullopt, std::move(row), state});
  }

  MasterContext& context_;
  const ActiveSinglesQuery query_;
  Found done_;
  SingleEvents found_;
};

}  // namespace

void FindActiveSingles(MasterContext& context, ActiveSinglesQuery query,
                       absl::AnyInvocable<void(absl::StatusOr<SingleEvents>)> done) {
  std::make_shared<ActiveSearch>(context, std::move(query), std::move(done))->Start();
}

namespace {

class RunRowsSearch : public std::enable_shared_from_this<RunRowsSearch> {
 public:
  using Found = absl::AnyInvocable<void(absl::StatusOr<RunRows>)>;
  RunRowsSearch(MasterContext& context, RunRowsQuery query, Found done)
      : context_(context), query_(std::move(query)), done_(std::move(done)) {}

  // Slices stand under their due time, in the lane of a priority or in that of catch-up.
  void Start() {
    std::set<absl::Time> due_times = {query_.nominal_time};
    for (const OccurrenceSource& source : query_.sources)
      due_times.insert(LaunchTimeOf(source, query_.occurrence, query_.nominal_time));
    for (uint32_t shard = 0; shard < context_.layout.queue_shards; ++shard) {
      for (uint8_t lane = 0; lane < kLaneCount; ++lane) {
        if (lane == kLaneRetry) continue;
        for (const absl::Time due : due_times) {
          std::string prefix = EncodeEventKey({.shard = static_cast<uint16_t>(shard),
                                               .lane = lane,
                                               .due_time = due,
                                               .uid = query_.uid,
                                               .occurrence = query_.occurrence,
                                               .first = 0});
          prefix.resize(prefix.size() - sizeof(uint64_t));  // any first index
          std::string end = PrefixEnd(prefix);
          slices_.push_back({std::move(prefix), std::move(end)});
        }
      }
    }
    ReadSlices(0);
  }

 private:
  void ReadSlices(size_t begin) {
    if (begin >= slices_.size()) return ReadThrottled(0);
    const size_t end = std::min(slices_.size(), begin + kv::kScanRangesMax / 2);
    kv::ScanRequest scan;
    scan.cf = ColumnFamily::kEvents;
    scan.begin = slices_[begin].begin;
    scan.end = slices_[begin].end;
    scan.then.assign(slices_.begin() + static_cast<ptrdiff_t>(begin + 1),
                     slices_.begin() + static_cast<ptrdiff_t>(end));
    scan.limit = 1;
    scan.keys_only = true;
    context_.client.Scan(std::move(scan), context_.executor,
                         [self = shared_from_this(), end](absl::StatusOr<kv::ScanResult> rows) {
                           if (!rows.ok()) return self->done_(StoreFailed(rows.status()));
                           if (!rows->entries.empty()) return self->done_(RunRows::kSome);
                           self->ReadSlices(end);
                         });
  }

  void ReadThrottled(size_t i) {
    while (i < query_.sources.size() && !query_.sources[i].throttle.has_value()) ++i;
    if (i == query_.sources.size()) return ReadMoving();
    ThrottledQuery query;
    query.source = query_.sources[i];
    query.wanted = [self = shared_from_this()](const ThrottledRange& range) {
      return range.occurrence == self->query_.occurrence;
    };
    query.cut = &cut_;
    ReadThrottledEvents(context_, std::move(query), [self = shared_from_this(), i](auto ranges) {
      if (!ranges.ok()) return self->done_(ranges.status());
      if (!ranges->empty()) return self->done_(RunRows::kSome);
      self->ReadThrottled(i + 1);
    });
  }

  // Events go back and forth between claims and retries.
  void ReadMoving() {
    const std::string parked = ParkedPrefix(query_.uid);
    std::vector<KeyRange> ranges = {{ColumnFamily::kParked, parked, PrefixEnd(parked)}};
    for (uint32_t i = 0; i < context_.layout.queue_shards; ++i) {
      const uint16_t shard = static_cast<uint16_t>(i);
      const KeyRange claims = {ColumnFamily::kInflight, InflightShardBegin(shard),
                               InflightShardEnd(shard)};
      ranges.push_back(claims);
      ranges.push_back({ColumnFamily::kEvents,
                        EventLaneKey(shard, kLaneRetry, absl::InfinitePast()),
                        EventLaneKey(shard, kLaneRetry + 1, absl::InfinitePast())});
      ranges.push_back(claims);
    }
    ReadRanges(
        context_, std::move(ranges), kLookupRowsMax,
        [self = shared_from_this()](const KeyRange& range, kv::Entry& entry) {
          self->found_ |= self->IsOfRun(range.cf, entry);
          return !self->found_;
        },
        [self = shared_from_this()](absl::Status status) {
          if (!status.ok()) return self->done_(std::move(status));
          self->done_(self->found_ ? RunRows::kSome
                      : self->cut_ ? RunRows::kNotKnown
                                   : RunRows::kNone);
        },
        &cut_);
  }

  bool IsOfRun(ColumnFamily cf, const kv::Entry& entry) const {
    if (cf == ColumnFamily::kEvents) return IsKeyOfRun(entry.key);
    if (cf == ColumnFamily::kParked) {
      const absl::StatusOr<ParkedRow> row = ReadParkedRow(entry);
      return row.ok() && row->occurrence == query_.occurrence;
    }
    storage::v1::ClaimRecord claim;
    const auto key = DecodeInflightKey(entry.key);
    if (!key.has_value() || !key->is_claim() || !claim.ParseFromString(entry.value)) return false;
    return std::any_of(claim.entries().begin(), claim.entries().end(),
                       [&](const auto& claimed) { return IsKeyOfRun(claimed.event_key()); });
  }

  bool IsKeyOfRun(const std::string& bytes) const {
    const auto key = DecodeEventKey(bytes);
    if (key.has_value()) return key->uid == query_.uid && key->occurrence == query_.occurrence;
    const auto waiting = DecodeWaitingKey(bytes);
    return waiting.has_value() && waiting->uid == query_.uid &&
           waiting->occurrence == query_.occurrence;
  }

  MasterContext& context_;
  const RunRowsQuery query_;
  Found done_;
  std::vector<kv::KeyRange> slices_;  // where slices of the run may be
  bool found_ = false;
  bool cut_ = false;  // a range has more rows than were read
};

}  // namespace

void FindRunRows(MasterContext& context, RunRowsQuery query,
                 absl::AnyInvocable<void(absl::StatusOr<RunRows>)> done) {
  std::make_shared<RunRowsSearch>(context, std::move(query), std::move(done))->Start();
}

void FindOldestDue(MasterContext& context, const std::set<uint8_t>& lanes, absl::Time before,
                   absl::AnyInvocable<void(absl::StatusOr<absl::Time>)> done) {
  struct Reading {
    absl::Time oldest;
    absl::Status failed;
    size_t open = 0;
    absl::AnyInvocable<void(absl::StatusOr<absl::Time>)> done;
  };
  auto reading = std::make_shared<Reading>();
  reading->oldest = before;
  reading->open = context.layout.queue_shards * lanes.size();
  reading->done = std::move(done);
  for (uint32_t shard = 0; shard < context.layout.queue_shards; ++shard) {
    for (const uint8_t lane : lanes) {
      kv::ScanRequest scan;
      scan.cf = ColumnFamily::kEvents;
      scan.begin = EventLaneKey(static_cast<uint16_t>(shard), lane, absl::InfinitePast());
      scan.end = EventLaneKey(static_cast<uint16_t>(shard), lane, before);
      scan.limit = 1;
      scan.keys_only = true;
      context.client.Scan(std::move(scan), context.executor,
                          [reading](absl::StatusOr<kv::ScanResult> rows) {
                            if (!rows.ok()) {
                              reading->failed = StoreFailed(rows.status());
                            } else if (!rows->entries.empty()) {
                              const auto key = DecodeEventKey(rows->entries[0].key);
                              if (key.has_value())
                                reading->oldest = std::min(reading->oldest, key->due_time);
                            }
                            if (--reading->open > 0) return;
                            if (!reading->failed.ok()) return reading->done(reading->failed);
                            reading->done(reading->oldest);
                          });
    }
  }
}

}  // namespace escapement::master
