#include "services/master/runs/run_events.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "common/base/key_codec.h"
#include "common/base/micros.h"
#include "common/storage/done_table.h"
#include "common/storage/event_id.h"
#include "common/storage/event_table.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"
#include "services/master/codec/outcome_codec.h"
#include "services/master/requests/page_budget.h"
#include "services/master/runs/run_codec.h"
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
    if (query_.outcome.has_value() || !query_.source.throttle.has_value()) return NextShard();
    ThrottledQuery throttled;
    throttled.source = query_.source;
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

 private:
  // Events from an index on that have not ended.
  struct Live {
    uint64_t count = 1;
    storage::v1::EventRecord row;
    v1::EventState state = v1::PENDING;
  };

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
    if (query_.outcome.has_value() || query_.source.throttle.has_value()) return ScanDone();
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

}  // namespace escapement::master
