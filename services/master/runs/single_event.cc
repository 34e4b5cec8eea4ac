#include "services/master/runs/single_event.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/base/check.h"
#include "common/base/key_codec.h"
#include "common/base/status_macros.h"
#include "common/cron/timetable.h"
#include "common/cron/zone.h"
#include "common/storage/children_table.h"
#include "common/storage/event_id.h"
#include "common/storage/event_table.h"
#include "common/storage/run_table.h"
#include "common/storage/schedule_table.h"
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

// The schedule and the occurrence of claimed events.
std::optional<WaitingOwner> OwnerOfClaimed(const storage::v1::ClaimRecord::Entry& claimed) {
  if (claimed.has_grant()) {  // its row was in `waiting`
    const auto key = DecodeWaitingKey(claimed.event_key());
    return key.has_value() ? std::optional(WaitingOwnerOf(*key)) : std::nullopt;
  }
  const auto key = DecodeEventKey(claimed.event_key());
  return key.has_value() ? std::optional(WaitingOwner{key->uid, key->occurrence}) : std::nullopt;
}

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
        uid_(source.uid),
        occurrence_(std::move(occurrence)),
        places_(std::move(source), context.layout),
        done_(std::move(done)) {
    shard_ = ShardOfOnlyEvent(places_.present(), occurrence_, context_.layout.queue_shards);
  }

  void Start() {
    const auto id = cron::ParseOccurrence(occurrence_);
    if (!id.ok()) return done_(SingleEvent());
    nominal_ = InstantOf(*id);
    ReadKeys();
  }

 private:
  void ReadKeys() {
    std::vector<kv::Key> keys;
    // Jitter, of any version, is at most a day.
    for (const absl::Duration later : {absl::ZeroDuration(), absl::Hours(24)}) {
      keys.push_back({ColumnFamily::kDone, EncodeDoneKey({.shard = shard_,
                                                          .day = DoneDay(nominal_ + later),
                                                          .uid = uid_,
                                                          .occurrence = occurrence_,
                                                          .first = 0})});
    }
    done_keys_ = keys.size();
    const std::vector<absl::Time> dues = places_.DueTimes(occurrence_, nominal_);
    if (places_.launches()) {
      for (const absl::Time due : dues)
        keys.push_back({ColumnFamily::kCheckpoints, places_.LaunchKeyAt(occurrence_, due)});
    }
    launch_keys_ = keys.size() - done_keys_;
    for (const absl::Time due : dues) AddQueueKeys(due, keys);
    context_.client.MultiGet(std::move(keys), context_.executor,
                             [self = shared_from_this()](absl::StatusOr<kv::GetResult> result) {
                               self->OnKeys(std::move(result));
                             });
  }

  void AddQueueKeys(absl::Time due, std::vector<kv::Key>& keys) const {
    const auto add = [&](ColumnFamily cf, const std::string& key) {
      keys.push_back({cf, key});
      keys.push_back({ColumnFamily::kParked, ParkedKey(uid_, key)});
    };
    for (uint8_t lane = 0; lane < kLaneCount; ++lane) {
      add(ColumnFamily::kEvents, EncodeEventKey({.shard = shard_,
                                                 .lane = lane,
                                                 .due_time = due,
                                                 .uid = uid_,
                                                 .occurrence = occurrence_,
                                                 .first = 0}));
    }
    for (const WaitingGroup& group : places_.groups())
      add(ColumnFamily::kWaiting, places_.WaitingKeyAt(group, occurrence_, due));
  }

  void OnKeys(absl::StatusOr<kv::GetResult> result) {
    if (!result.ok()) return done_(StoreFailed(result.status()));
    const size_t records = done_keys_ + launch_keys_;
    for (size_t i = 0; i < result->values.size(); ++i) {
      if (!result->values[i].has_value()) continue;
      const std::string& value = *result->values[i];
      SingleEvent found;
      // Each key of a queue is followed by the one that the row has while it is parked.
      if (i >= records) return FoundRow(value, v1::PENDING, /*parked=*/(i - records) % 2 == 1);
      if (i < done_keys_ ? !found.done.emplace().ParseFromString(value)
                         : !found.launch.emplace().ParseFromString(value))
        return done_(BrokenRecord(i < done_keys_ ? "a Done record" : "a launch"));
      return done_(std::move(found));
    }
    if (!places_read_) return ReadPlaces();
    if (++rounds_ > 2) return done_(SingleEvent());
    ThrottledQuery query{.places = places_};
    query.wanted = [occurrence = occurrence_](const ThrottledRange& range) {
      return range.occurrence == occurrence;
    };
    ReadThrottledEvents(
        context_, std::move(query),
        [self = shared_from_this()](absl::StatusOr<std::vector<ThrottledRange>> found) {
          self->OnThrottled(std::move(found));
        });
  }

  void ReadPlaces() {
    places_read_ = true;
    ReadRowPlaces(context_, places_.present(), nominal_,
                  [self = shared_from_this()](absl::StatusOr<RowPlaces> places) {
                    if (!places.ok()) return self->done_(places.status());
                    self->places_ = *std::move(places);
                    self->ReadKeys();
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
      const std::optional<WaitingOwner> owner = OwnerOfClaimed(claimed);
      if (!owner.has_value() || owner->uid != uid_ || owner->occurrence != occurrence_) continue;
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
  const Uid uid_;
  const std::string occurrence_;
  RowPlaces places_;
  bool places_read_ = false;  // former versions are among the places
  Found done_;
  absl::Time nominal_;
  uint16_t shard_ = 0;
  int rounds_ = 0;
  // The first keys of those that were read, and those behind them.
  size_t done_keys_ = 0;
  size_t launch_keys_ = 0;
  size_t rows_read_ = 0;
};

}  // namespace

void FindSingleEvent(MasterContext& context, OccurrenceSource source, std::string occurrence,
                     absl::AnyInvocable<void(absl::StatusOr<SingleEvent>)> done) {
  std::make_shared<Search>(context, std::move(source), std::move(occurrence), std::move(done))
      ->Start();
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
    for (const auto& [occurrence, nominal] : query_.occurrences) {
      EventKey key;
      key.shard = ShardOfOnlyEvent(Present(), occurrence, context_.layout.queue_shards);
      key.uid = Present().uid;
      key.occurrence = occurrence;
      for (const absl::Time due : query_.places.DueTimes(occurrence, nominal)) {
        if (query_.places.launches() && due >= query_.old_launches)
          keys.push_back({ColumnFamily::kCheckpoints, query_.places.LaunchKeyAt(occurrence, due)});
        key.due_time = due;
        for (const uint8_t lane : query_.lanes) {
          key.lane = lane;
          keys.push_back({ColumnFamily::kEvents, EncodeEventKey(key)});
        }
      }
      owners_.emplace_back(keys.size(), &occurrence);
    }
    for (const kv::Key& key : keys) families_.push_back(key.cf);
    ReadKeys(context_, std::move(keys),
             [self = shared_from_this()](auto values) { self->OnQueue(std::move(values)); });
  }

 private:
  const OccurrenceSource& Present() const { return query_.places.present(); }

  void OnQueue(absl::StatusOr<KeyValues> values) {
    if (!values.ok()) return done_(values.status());
    size_t i = 0;
    for (const auto& [end, occurrence] : owners_) {
      for (; i < end; ++i) {
        if (!(*values)[i].has_value()) continue;
        const absl::Status added = AddStored(families_[i], *occurrence, *(*values)[i]);
        if (!added.ok()) return done_(added);
      }
    }
    ThrottledQuery throttled{.places = query_.places};
    throttled.limit = kLookupRowsMax;
    throttled.wanted = [](const ThrottledRange& range) { return !HasRun(range.row); };
    ReadThrottledEvents(context_, std::move(throttled), [self = shared_from_this()](auto ranges) {
      if (!ranges.ok()) return self->done_(ranges.status());
      for (ThrottledRange& range : *ranges)
        self->Add(range.occurrence, std::move(range.row), range.state);
      self->ReadMoving();
    });
  }

  // A row of the queue, or a launch record.
  absl::Status AddStored(ColumnFamily cf, const std::string& occurrence, const std::string& value) {
    if (cf == ColumnFamily::kCheckpoints) {
      SingleEvent waits;
      if (!waits.launch.emplace().ParseFromString(value)) return BrokenRecord("a launch");
      found_.try_emplace(occurrence, std::move(waits));
      return absl::OkStatus();
    }
    storage::v1::EventRecord row;
    if (!row.ParseFromString(value)) return BrokenRecord("an event");
    Add(occurrence, std::move(row), v1::PENDING);
    return absl::OkStatus();
  }

  void ReadMoving() {
    const Uid& uid = Present().uid;
    const std::string parked = ParkedPrefix(uid);
    std::vector<KeyRange> ranges = {{ColumnFamily::kParked, parked, PrefixEnd(parked)}};
    if (query_.places.launches()) {
      const uint16_t partition = PartitionOf(uid, context_.layout.partitions);
      ranges.push_back({ColumnFamily::kCheckpoints, LaunchPrefix(partition),
                        EncodeLaunchKey({partition, query_.old_launches, Uid(), ""})});
    }
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
    if (cf == ColumnFamily::kCheckpoints) {
      const std::optional<LaunchKey> key = DecodeLaunchKey(entry.key);
      if (!key.has_value() || key->uid != Present().uid) return true;
      RETURN_IF_ERROR(AddStored(cf, key->occurrence, entry.value));
      return true;
    }
    const auto key =
        DecodeEventKey(cf == ColumnFamily::kParked ? EventKeyOfParked(entry.key) : entry.key);
    // A throttled row that is parked has another key, and was found before.
    if (!key.has_value() || key->uid != Present().uid) return true;
    RETURN_IF_ERROR(AddStored(ColumnFamily::kEvents, key->occurrence, entry.value));
    return true;
  }

  absl::StatusOr<bool> OnClaim(const kv::Entry& entry) {
    const auto inflight = DecodeInflightKey(entry.key);
    storage::v1::ClaimRecord claim;
    if (!inflight.has_value() || !inflight->is_claim()) return true;
    if (!claim.ParseFromString(entry.value)) return BrokenRecord("a claim");
    for (auto& claimed : *claim.mutable_entries()) {
      const std::optional<WaitingOwner> owner = OwnerOfClaimed(claimed);
      if (owner.has_value() && owner->uid == Present().uid)
        Add(owner->occurrence, std::move(*claimed.mutable_event()), v1::RUNNING);
    }
    return true;
  }

  void Add(const std::string& occurrence, storage::v1::EventRecord row, v1::EventState state) {
    if (row.run_count() > 1 || HasRun(row)) return;
    found_.try_emplace(occurrence, SingleEvent{.row = std::move(row), .state = state});
  }

  MasterContext& context_;
  const ActiveSinglesQuery query_;
  Found done_;
  // The keys that are read: their families; and for each occurrence where its keys end.
  std::vector<ColumnFamily> families_;
  std::vector<std::pair<size_t, const std::string*>> owners_;
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

  void Start() {
    ReadRowPlaces(context_, query_.source, query_.nominal_time,
                  [self = shared_from_this()](absl::StatusOr<RowPlaces> places) {
                    if (!places.ok()) return self->done_(places.status());
                    self->cut_ |= places->cut();
                    self->OnPlaces(*std::move(places));
                  });
  }

 private:
  // Slices stand under their due time, in the lane of a priority or in that of catch-up.
  void OnPlaces(RowPlaces places) {
    for (uint32_t shard = 0; shard < context_.layout.queue_shards; ++shard) {
      for (const uint8_t lane : places.lanes()) {
        for (const absl::Time due : places.DueTimes(query_.occurrence, query_.nominal_time)) {
          std::string prefix = EncodeEventKey({.shard = static_cast<uint16_t>(shard),
                                               .lane = lane,
                                               .due_time = due,
                                               .uid = query_.source.uid,
                                               .occurrence = query_.occurrence,
                                               .first = 0});
          prefix.resize(prefix.size() - sizeof(uint64_t));  // any first index
          std::string end = PrefixEnd(prefix);
          slices_.push_back({std::move(prefix), std::move(end)});
        }
      }
    }
    places_.emplace(std::move(places));
    ReadSlices(0);
  }

  void ReadSlices(size_t begin) {
    if (begin >= slices_.size()) return ReadThrottled();
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

  void ReadThrottled() {
    ThrottledQuery query{.places = *places_};
    query.wanted = [self = shared_from_this()](const ThrottledRange& range) {
      return range.occurrence == self->query_.occurrence;
    };
    query.cut = &cut_;
    ReadThrottledEvents(context_, std::move(query), [self = shared_from_this()](auto ranges) {
      if (!ranges.ok()) return self->done_(ranges.status());
      if (!ranges->empty()) return self->done_(RunRows::kSome);
      self->ReadMoving();
    });
  }

  // Events go back and forth between claims and retries.
  void ReadMoving() {
    const std::string parked = ParkedPrefix(query_.source.uid);
    std::vector<KeyRange> ranges = {{ColumnFamily::kParked, parked, PrefixEnd(parked)}};
    for (uint32_t shard = 0; shard < context_.layout.queue_shards; ++shard)
      AddMovingRanges(static_cast<uint16_t>(shard), ranges);
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
    const auto is_of_run = [this](const Uid& uid, const std::string& occurrence) {
      return uid == query_.source.uid && occurrence == query_.occurrence;
    };
    if (cf == ColumnFamily::kEvents) {
      const auto row = DecodeEventKey(entry.key);
      return row.has_value() && is_of_run(row->uid, row->occurrence);
    }
    if (cf == ColumnFamily::kParked) {
      const absl::StatusOr<ParkedRow> row = ReadParkedRow(entry);
      return row.ok() && row->occurrence == query_.occurrence;
    }
    storage::v1::ClaimRecord claim;
    const auto key = DecodeInflightKey(entry.key);
    if (!key.has_value() || !key->is_claim() || !claim.ParseFromString(entry.value)) return false;
    return std::any_of(claim.entries().begin(), claim.entries().end(), [&](const auto& claimed) {
      const std::optional<WaitingOwner> owner = OwnerOfClaimed(claimed);
      return owner.has_value() && is_of_run(owner->uid, owner->occurrence);
    });
  }

  MasterContext& context_;
  const RunRowsQuery query_;
  Found done_;
  std::optional<RowPlaces> places_;
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
