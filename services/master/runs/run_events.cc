#include "services/master/runs/run_events.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/key_codec.h"
#include "common/base/proto_time.h"
#include "common/base/status_macros.h"
#include "common/kv/kv_store.h"
#include "common/records/row_judge.h"
#include "common/storage/event_id.h"
#include "common/storage/event_table.h"
#include "common/storage/run_table.h"
#include "common/storage/schedule_table.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"
#include "services/master/codec/outcome_codec.h"
#include "services/master/requests/range_reader.h"
#include "services/master/runs/run_codec.h"
#include "services/master/runs/run_service.h"
#include "services/master/schedules/changes/parked_row.h"
#include "services/master/schedules/changes/row_places.h"
#include "services/master/schedules/changes/schedule_decisions.h"
#include "services/master/schedules/changes/schedule_transaction.h"
#include "services/master/schedules/changes/throttled_events.h"

namespace escapement::master {

namespace {

using kv::ColumnFamily;

class EventListing : public std::enable_shared_from_this<EventListing> {
 public:
  using Read = absl::AnyInvocable<void(absl::StatusOr<RunEventsPage>)>;
  EventListing(MasterContext& context, RunEventsQuery query, Read done)
      : context_(context),
        query_(std::move(query)),
        done_(std::move(done)),
        identity_(query_.name.schedule.tenant, query_.source.uid, query_.name.occurrence),
        first_day_(DoneDay(FromMicros(query_.run.nominal_time_micros()))),
        day_(first_day_) {
    page_.index = query_.index;
    page_.record_first = query_.record_first;
  }

  void Start() {
    if (query_.outcome.has_value()) return NextShard();
    ReadRowPlaces(context_, query_.source, FromMicros(query_.run.nominal_time_micros()),
                  [self = shared_from_this()](absl::StatusOr<RowPlaces> places) {
                    if (!places.ok()) return self->done_(places.status());
                    self->retries_ = places->unthrottled();
                    self->ReadThrottled(*std::move(places));
                  });
  }

 private:
  // Events from an index on that have not ended.
  struct Live {
    uint64_t count = 1;
    storage::v1::EventRecord row;
    v1::EventState state = v1::PENDING;
  };

  void ReadThrottled(RowPlaces places) {
    ThrottledQuery throttled{.places = std::move(places)};
    throttled.limit = kLookupRowsMax;
    throttled.wanted = [occurrence = query_.name.occurrence,
                        index = query_.index](const ThrottledRange& range) {
      return range.occurrence == occurrence && range.first + range.count > index &&
             (range.state == v1::RUNNING || range.row.attempts() > 0);
    };
    ReadThrottledEvents(
        context_, std::move(throttled),
        [self = shared_from_this()](absl::StatusOr<std::vector<ThrottledRange>> ranges) {
          if (!ranges.ok()) return self->done_(ranges.status());
          for (ThrottledRange& range : *ranges) {
            self->live_.insert_or_assign(range.first,
                                         Live{range.count, std::move(range.row), range.state});
          }
          self->NextShard();
        });
  }

  // Begins the shard that holds the next index.
  void NextShard() {
    const uint64_t n = query_.run.event_count();
    if (page_.index >= n) return Finish(false);
    const uint32_t shards = context_.layout.queue_shards;
    while (SliceOfShard(n, shard_, shards).first + SliceOfShard(n, shard_, shards).count <=
           page_.index)
      ++shard_;
    const IndexSlice slice = SliceOfShard(n, shard_, shards);
    slice_end_ = slice.first + slice.count;
    day_ = first_day_;
    page_.record_first = std::max(page_.record_first, slice.first);
    if (!retries_) return ScanDone();
    rows_read_ = 0;
    ScanRetries(EventLaneKey(Shard(), kLaneRetry, absl::InfinitePast()));
  }

  // The launch time is not kept: it may have been another version's.
  bool MayHaveJitter() const {
    return query_.source.jitter > absl::ZeroDuration() || query_.source.version > 1;
  }

  uint16_t Shard() const { return static_cast<uint16_t>(shard_); }

  void ScanRetries(std::string begin) {
    kv::ScanRequest scan;
    scan.cf = ColumnFamily::kEvents;
    scan.begin = std::move(begin);
    scan.end = EventLaneKey(Shard(), kLaneRetry + 1, absl::InfinitePast());
    scan.bytes_max = 4 << 20;
    ++scans_;
    context_.client.Scan(std::move(scan), context_.executor,
                         [self = shared_from_this()](absl::StatusOr<kv::ScanResult> page) {
                           self->OnRetries(std::move(page));
                         });
  }

  void OnRetries(absl::StatusOr<kv::ScanResult> page) {
    if (!page.ok()) return done_(StoreFailed(page.status()));
    for (const kv::Entry& entry : page->entries) {
      const auto key = DecodeEventKey(entry.key);
      if (!key.has_value() || key->uid != query_.source.uid ||
          key->occurrence != query_.name.occurrence)
        continue;
      storage::v1::EventRecord row;
      if (!row.ParseFromString(entry.value)) return done_(BrokenRecord("an event"));
      if (key->first >= page_.index) live_[key->first] = Live{1, std::move(row), v1::PENDING};
    }
    rows_read_ += page->entries.size();
    // Beyond the bound retries are left out: they wait among very many of others.
    if (page->more && !page->entries.empty() && rows_read_ < kLookupRowsMax) {
      return ScanRetries(KeyAfter(page->entries.back().key));
    }
    ScanDone();
  }

  void ScanDone() {
    if (scans_ >= kRunScansMax) return Finish(true);
    kv::ScanRequest scan;
    scan.cf = ColumnFamily::kDone;
    scan.begin = EncodeDoneKey({.shard = Shard(),
                                .day = day_,
                                .uid = query_.source.uid,
                                .occurrence = query_.name.occurrence,
                                .first = page_.record_first});
    scan.end = PrefixEnd(DoneRunPrefix(Shard(), day_, query_.source.uid, query_.name.occurrence));
    scan.limit = kPageSizeMax;
    ++scans_;
    context_.client.Scan(std::move(scan), context_.executor,
                         [self = shared_from_this()](absl::StatusOr<kv::ScanResult> page) {
                           self->OnDone(std::move(page));
                         });
  }

  bool Full() const { return full_ || page_.events.size() >= query_.limit; }

  // False if the page has no room for it: then it begins the next one.
  bool Add(v1::Event event) {
    full_ = Full() || !budget_.Take(event);
    if (full_) return false;
    page_.events.push_back(std::move(event));
    return true;
  }

  // Adds the events that have not ended and whose index is below `end`.
  bool AddLive(uint64_t end) {
    while (!live_.empty() && live_.begin()->first < end) {
      const auto& [first, live] = *live_.begin();
      const uint64_t live_end = first + live.count;
      for (uint64_t index = std::max(first, page_.index); index < std::min(live_end, end);
           ++index) {
        if (!Add(ShowWaitingRunEvent(query_.name, identity_, index, live.row, live.state)))
          return false;
        page_.index = index + 1;
      }
      if (live_end > end) return true;
      live_.erase(live_.begin());
    }
    return true;
  }

  bool AddRecord(uint64_t first, const storage::v1::DoneRecord& record) {
    if (!AddLive(first)) return false;
    const bool wanted =
        !query_.outcome.has_value() || ShowOutcome(record.outcome()) == *query_.outcome;
    const uint64_t end = first + std::max<uint64_t>(record.count(), 1);
    page_.record_first = first;
    for (uint64_t index = std::max(first, page_.index); wanted && index < end; ++index) {
      if (!Add(ShowEndedRunEvent(query_.name, identity_, index, record, first))) return false;
      page_.index = index + 1;
    }
    page_.index = std::max(page_.index, end);
    page_.record_first = end;
    return true;
  }

  void OnDone(absl::StatusOr<kv::ScanResult> page) {
    if (!page.ok()) return done_(StoreFailed(page.status()));
    for (const kv::Entry& entry : page->entries) {
      const auto key = DecodeDoneKey(entry.key);
      storage::v1::DoneRecord record;
      if (!key.has_value() || !record.ParseFromString(entry.value))
        return done_(BrokenRecord("a Done record"));
      if (!AddRecord(key->first, record)) return Finish(true);
    }
    if (page->more && !page->entries.empty()) return ScanDone();
    // All records of the run are on one day.
    if (page->entries.empty() && day_ == first_day_ && MayHaveJitter()) {
      ++day_;
      return ScanDone();
    }
    if (!AddLive(slice_end_)) return Finish(true);
    page_.index = std::max(page_.index, slice_end_);
    page_.record_first = page_.index;
    if (Full() && page_.index < query_.run.event_count()) return Finish(true);
    NextShard();
  }

  void Finish(bool more) {
    page_.more = more;
    done_(std::move(page_));
  }

  MasterContext& context_;
  const RunEventsQuery query_;
  Read done_;
  const RunIdentity identity_;
  const uint32_t first_day_;
  uint32_t day_;
  RunEventsPage page_;
  PageBudget budget_;
  bool full_ = false;
  std::map<uint64_t, Live> live_;  // by their first index
  uint32_t shard_ = 0;
  uint64_t slice_end_ = 0;
  bool retries_ = false;  // retries may be in `events`
  int scans_ = 0;
  size_t rows_read_ = 0;
};

}  // namespace

RunEventsPage SkippedEvents(const RunEventsQuery& query, const storage::v1::DoneRecord& skipped) {
  RunEventsPage page;
  if (query.outcome.has_value() && *query.outcome != v1::SKIPPED) return page;
  const RunIdentity identity(query.name.schedule.tenant, query.source.uid, query.name.occurrence);
  PageBudget budget;
  uint64_t index = query.index;
  for (; index < skipped.run_count() && page.events.size() < query.limit; ++index) {
    v1::Event event = ShowEndedRunEvent(query.name, identity, index, skipped, 0);
    if (!budget.Take(event)) break;
    page.events.push_back(std::move(event));
  }
  page.more = index < skipped.run_count();
  page.index = page.record_first = index;
  return page;
}

void ReadRunEvents(MasterContext& context, RunEventsQuery query,
                   absl::AnyInvocable<void(absl::StatusOr<RunEventsPage>)> done) {
  std::make_shared<EventListing>(context, std::move(query), std::move(done))->Start();
}

namespace {

using kv::ColumnFamily;
using ConditionKind = kv::Condition::Kind;
using storage::v1::CancelledRunRecord;

// A run whose record is gone so long after its cancellation has ended and been forgotten. Earlier,
// its only event may just have been on its way from one place to another.
constexpr absl::Duration kForgottenAfter = absl::Hours(24);

// The run's rows in the store, without those of the schedule.
struct RunToCancel {
  v1::Run shown;
  std::vector<CancelledRunRecord> others;  // cancelled runs of the schedule that have not ended
  std::vector<ParkedRow> parked;           // rows of the run; read once it is cancelled
  StoredRunParts parts;                    // the run's parts, if any of its rows is parked
};

bool Ended(const StoredRun& run) {
  if (run.record.has_value()) return run.record->complete_time_micros() != 0;
  return run.single.done.has_value();
}

// One try: reads, of a schedule as it is in `input`, what the decision needs.
class CancelRead : public std::enable_shared_from_this<CancelRead> {
 public:
  using Read = absl::AnyInvocable<void(absl::Status)>;
  CancelRead(MasterContext& context, const RunName& name, const ChangeInput& input,
             std::shared_ptr<RunToCancel> found, Read done)
      : context_(context),
        name_(name),
        uid_(input.snapshot.uid),
        now_(input.now),
        layout_(input.layout),
        found_(std::move(found)),
        done_(std::move(done)) {
    const storage::v1::StateRecord& state = input.snapshot.state;
    for (const CancelledRunRecord& run : state.cancelled_runs()) {
      if (run.occurrence() != name_.occurrence) others_.push_back(run);
    }
    reads_parked_ = state.kind() == storage::v1::SCHEDULE_STATE_KIND_PAUSED &&
                    CancelledByUser(name_.occurrence, state);
  }

  void Start() {
    *found_ = RunToCancel();
    ReadRun(context_, name_, [self = shared_from_this()](absl::StatusOr<StoredRun> run) {
      if (!run.ok()) return self->done_(run.status());
      if (run->single.launch.has_value()) return self->done_(NotFound(self->name_.ToString()));
      self->found_->shown = run->record.has_value()
                                ? ShowRun(self->name_, *run->record, run->counts, self->now_)
                                : ShowSingleRun(self->name_, run->single, self->now_);
      self->ReadOther(0);
    });
  }

 private:
  void ReadOther(size_t i) {
    if (i == others_.size()) return ReadParked(ParkedPrefix(uid_));
    ReadRun(context_, {name_.schedule, others_[i].occurrence()},
            [self = shared_from_this(), i](absl::StatusOr<StoredRun> run) {
              const CancelledRunRecord& other = self->others_[i];
              bool ended = false;
              if (run.ok()) {
                ended = Ended(*run);
              } else if (absl::IsNotFound(run.status())) {
                ended = FromMicros(other.cancel_time_micros()) + kForgottenAfter < self->now_;
              } else {
                return self->done_(run.status());
              }
              if (!ended) self->found_->others.push_back(other);
              self->ReadOther(i + 1);
            });
  }

  // Rows of all runs of the schedule are parked side by side.
  void ReadParked(std::string begin) {
    if (!reads_parked_) return done_(absl::OkStatus());
    kv::ScanRequest scan = ScanOfParked(uid_);
    scan.begin = std::move(begin);
    context_.client.Scan(std::move(scan), context_.executor,
                         [self = shared_from_this()](absl::StatusOr<kv::ScanResult> rows) {
                           if (!rows.ok()) return self->done_(StoreFailed(rows.status()));
                           self->OnParked(*std::move(rows));
                         });
  }

  void OnParked(kv::ScanResult rows) {
    const std::string last = rows.entries.empty() ? std::string() : rows.entries.back().key;
    for (kv::Entry& entry : rows.entries) {
      absl::StatusOr<ParkedRow> parked = ReadParkedRow(std::move(entry));
      if (!parked.ok()) return done_(parked.status());
      if (parked->occurrence != name_.occurrence) continue;
      // The writes of its end: a waiting row may stand for events of all queue shards.
      written_ += SlicesOf(*parked, layout_).size() + 1;
      if (written_ > kParkedRowsMax && !found_->parked.empty()) return ReadPart();
      found_->parked.push_back(*std::move(parked));
    }
    if (rows.more) return ReadParked(KeyAfter(last));
    ReadPart();
  }

  void ReadPart() {
    const bool counted =
        absl::c_any_of(found_->parked, [](const ParkedRow& parked) { return HasRun(parked.row); });
    if (!counted) return done_(absl::OkStatus());
    const std::string key = RunPartKey({uid_, name_.occurrence}, kMasterRunPart);
    context_.client.MultiGet({{ColumnFamily::kRunParts, key}}, context_.executor,
                             [self = shared_from_this(), key](absl::StatusOr<kv::GetResult> part) {
                               if (!part.ok()) return self->done_(StoreFailed(part.status()));
                               self->found_->parts[key] = std::move(part->values[0]);
                               self->done_(absl::OkStatus());
                             });
  }

  MasterContext& context_;
  const RunName name_;
  const Uid uid_;
  const absl::Time now_;
  const kv::Layout layout_;
  const std::shared_ptr<RunToCancel> found_;
  Read done_;
  std::vector<CancelledRunRecord> others_;
  bool reads_parked_ = false;
  size_t written_ = 0;
};

absl::StatusOr<Decision> Decide(const ChangeInput& input, const RunName& name,
                                const RunToCancel& run) {
  RETURN_IF_ERROR(CheckCurrent(input, std::string()));
  const ScheduleSnapshot& snapshot = input.snapshot;
  Decision decision;
  decision.response = std::make_unique<v1::Run>(run.shown);
  kv::Group& group = decision.group;
  group.conditions.push_back({.cf = ColumnFamily::kStates,
                              .key = StateKey(snapshot.uid),
                              .kind = ConditionKind::kValueEquals,
                              .value = snapshot.state_bytes});
  if (run.shown.state() == v1::Run::CANCELLED) return decision;
  if (run.shown.has_complete_time()) return RunEnded(name.ToString());

  if (!CancelledByUser(name.occurrence, snapshot.state)) {
    if (run.others.size() >= static_cast<size_t>(kCancelledRunsMax))
      return TooManyCancelled(input.name.ToString());
    storage::v1::StateRecord state = snapshot.state;
    state.clear_cancelled_runs();
    for (const CancelledRunRecord& other : run.others) *state.add_cancelled_runs() = other;
    CancelledRunRecord& added = *state.add_cancelled_runs();
    added.set_occurrence(name.occurrence);
    added.set_cancel_time_micros(ToMicros(input.now));
    group.mutations.push_back({.cf = ColumnFamily::kStates,
                               .key = StateKey(snapshot.uid),
                               .value = state.SerializeAsString()});
    // From now on none of its rows is parked; what was parked before is read again and ended.
    decision.partial = state.kind() == storage::v1::SCHEDULE_STATE_KIND_PAUSED;
    return decision;
  }

  ParkedEnds ends(run.parts, input.layout, input.now);
  for (const ParkedRow& parked : run.parked) {
    absl::Status status =
        ends.End(parked, storage::v1::OUTCOME_KIND_CANCELLED, kCancelledByUser, group);
    if (!status.ok()) return status;
  }
  ends.PutRunParts(group);
  decision.partial = !run.parked.empty();
  return decision;
}

}  // namespace

void CancelRunOfSchedule(MasterContext& context, RunName name, RequestMark mark, bool validate_only,
                         Done<v1::Run> done) {
  auto found = std::make_shared<RunToCancel>();
  ScheduleChange change{.name = name.schedule, .mark = std::move(mark)};
  change.read_more = [&context, name, found](const ChangeInput& input, auto read) {
    std::make_shared<CancelRead>(context, name, input, found, std::move(read))->Start();
  };
  change.decide = [name, found](const ChangeInput& input) { return Decide(input, name, *found); };
  change.response = std::make_unique<v1::Run>();
  change.waits_for_emitter = false;
  change.validate_only = validate_only;
  ChangeSchedule(context, std::move(change), As(std::move(done)));
}

}  // namespace escapement::master
