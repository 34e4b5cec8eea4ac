#include "services/master/run_listing.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "common/base/key_codec.h"
#include "common/cron/evaluator.h"
#include "common/status/errors.h"
#include "common/storage/child_rows.h"
#include "common/storage/done_table.h"
#include "common/storage/event_id.h"
#include "common/storage/event_table.h"
#include "common/storage/occurrence_rows.h"
#include "common/storage/run_table.h"
#include "services/master/errors.h"
#include "services/master/limits.h"
#include "services/master/run_codec.h"
#include "services/master/throttled_events.h"

namespace escapement::master {
namespace {

using kv::ColumnFamily;

// Where active runs of one event are looked for.
constexpr absl::Duration kActiveBehind = absl::Minutes(10);
constexpr absl::Duration kActiveAhead = absl::Minutes(2);
constexpr size_t kActiveMax = 2000;

std::string DateText(absl::CivilDay date) {
  return absl::StrFormat("%04d%02d%02d", date.year(), date.month(), date.day());
}

struct FoundRun {
  SingleEvent single;                            // of one event
  std::optional<storage::v1::RunRecord> record;  // of many
};

class Listing : public std::enable_shared_from_this<Listing> {
 public:
  using Read = absl::AnyInvocable<void(absl::StatusOr<RunListPage>)>;
  Listing(MasterContext& context, RunListQuery query, Read done)
      : context_(context),
        query_(std::move(query)),
        done_(std::move(done)),
        position_(query_.begin),
        now_(context.client.NowLow()) {
    // A date's local midnight is at most 14 hours before the UTC one.
    last_date_ = absl::ToCivilDay(now_ + kActiveAhead + absl::Hours(14), absl::UTCTimeZone());
    // The counts of a page's runs are one read.
    query_.limit = std::min<size_t>(query_.limit, kv::kMultiGetKeysMax / PartsOfRun().size());
  }

  void Start() {
    if (!query_.oldest.has_value()) return ReadThrottled();
    kv::ScanRequest scan;
    scan.cf = ColumnFamily::kRuns;
    scan.begin = RunPrefix(query_.schedule.uid);
    scan.end = PrefixEnd(scan.begin);
    scan.limit = 1;
    scan.keys_only = true;
    context_.client.Scan(std::move(scan), context_.executor,
                         [self = shared_from_this()](absl::StatusOr<kv::ScanResult> first) {
                           if (!first.ok()) return self->done_(StoreFailed(first.status()));
                           self->OnFirst(first->entries);
                         });
  }

 private:
  void OnFirst(const std::vector<kv::Entry>& entries) {
    const auto key = entries.empty() ? std::nullopt : DecodeRunKey(entries[0].key);
    const auto first = key.has_value() ? ParsePosition(key->occurrence) : absl::NotFoundError("");
    if (first.ok()) position_.date = std::min(position_.date, first->date);
    position_.date = std::max(position_.date, *query_.oldest);
    ReadThrottled();
  }

  void ReadThrottled() {
    if (!Throttled()) return Round();
    ThrottledQuery throttled;
    throttled.source = SourceOf(query_.schedule.definition.record);
    throttled.limit = kActiveMax;
    throttled.wanted = [](const ThrottledRange& range) { return !HasRun(range.row); };
    ReadThrottledEvents(
        context_, std::move(throttled),
        [self = shared_from_this()](absl::StatusOr<std::vector<ThrottledRange>> ranges) {
          if (!ranges.ok()) return self->done_(ranges.status());
          for (ThrottledRange& range : *ranges) {
            SingleEvent& single = self->throttled_[range.occurrence];
            single.state = range.state;
            single.row = std::move(range.row);
          }
          self->Round();
        });
  }

  void Round() {
    if (position_.date > last_date_) return ReadCounts(false);
    if (page_.size() >= query_.limit || scans_ >= kRunScansMax) return ReadCounts(true);
    const std::string begin_text = DateText(position_.date);
    const std::string end_text = DateText(position_.date + 1);
    const Uid& uid = query_.schedule.uid;
    found_.clear();
    horizon_.reset();
    failed_ = absl::OkStatus();
    const std::string& after = position_.after;
    const int days_after = MayHaveJitter() ? 2 : 1;
    open_ = 1 + (2 + days_after) * static_cast<int>(context_.layout.queue_shards);
    scans_ += open_;
    Scan(ColumnFamily::kRuns,
         after.empty() ? EncodeRunKey({uid, begin_text}) : PrefixEnd(EncodeRunKey({uid, after})),
         EncodeRunKey({uid, end_text}));
    for (int offset = -1; offset <= days_after; ++offset) {
      const absl::Time midnight = absl::FromCivil(position_.date + offset, absl::UTCTimeZone());
      const uint32_t day = DoneDay(midnight);
      for (uint32_t shard = 0; shard < context_.layout.queue_shards; ++shard) {
        const auto key = [&](const std::string& text) {
          return DoneRunPrefix(static_cast<uint16_t>(shard), day, uid, text);
        };
        Scan(ColumnFamily::kDone, after.empty() ? key(begin_text) : PrefixEnd(key(after)),
             key(end_text));
      }
    }
  }

  // Of this version or a former one.
  bool MayHaveJitter() const {
    const storage::v1::DefinitionRecord& record = query_.schedule.definition.record;
    return record.timing().jitter_micros() > 0 || record.version() > 1;
  }

  bool Throttled() const { return query_.schedule.definition.record.has_throttle(); }

  // Numbers of the parts that a run may have.
  std::vector<uint16_t> PartsOfRun() const {
    std::vector<uint16_t> parts = {kMasterRunPart};
    for (uint32_t shard = 0; shard < context_.layout.queue_shards; ++shard)
      parts.push_back(static_cast<uint16_t>(shard));
    for (uint32_t shard = 0; shard < context_.layout.policy_shards; ++shard)
      parts.push_back(PolicyRunPart(static_cast<uint16_t>(shard)));
    return parts;
  }

  void Scan(ColumnFamily cf, std::string begin, std::string end) {
    kv::ScanRequest scan;
    scan.cf = cf;
    scan.begin = std::move(begin);
    scan.end = std::move(end);
    scan.limit = static_cast<uint32_t>(query_.limit) + 1;
    context_.client.Scan(std::move(scan), context_.executor,
                         [self = shared_from_this(), cf](absl::StatusOr<kv::ScanResult> page) {
                           self->OnSource(cf, std::move(page));
                         });
  }

  void OnSource(ColumnFamily cf, absl::StatusOr<kv::ScanResult> page) {
    if (!page.ok()) {
      failed_ = StoreFailed(page.status());
    } else {
      std::string last;
      for (const kv::Entry& entry : page->entries) last = AddEntry(cf, entry);
      if (page->more && (!horizon_.has_value() || last < *horizon_)) horizon_ = last;
    }
    if (--open_ > 0) return;
    if (!failed_.ok()) return done_(failed_);
    ReadActive();
  }

  // The entry's occurrence.
  std::string AddEntry(ColumnFamily cf, const kv::Entry& entry) {
    if (cf == ColumnFamily::kRuns) {
      const auto key = DecodeRunKey(entry.key);
      storage::v1::RunRecord record;
      if (!key.has_value() || !record.ParseFromString(entry.value)) {
        failed_ = BrokenRecord("a run");
        return std::string();
      }
      found_[key->occurrence].record = std::move(record);
      return key->occurrence;
    }
    const auto key = DecodeDoneKey(entry.key);
    storage::v1::DoneRecord record;
    if (!key.has_value() || !record.ParseFromString(entry.value)) {
      failed_ = BrokenRecord("a Done record");
      return std::string();
    }
    // If it has a row in `runs` too, that one is shown.
    if (record.run_count() <= 1 || record.run_skipped())
      found_[key->occurrence].single.done = std::move(record);
    return key->occurrence;
  }

  // Occurrences of the current definition that may be queued and were not found otherwise.
  void ReadActive() {
    active_.clear();
    std::vector<kv::Key> keys;
    const Definition& definition = query_.schedule.definition;
    const std::string date = DateText(position_.date);
    if (Throttled()) {
      for (auto it = throttled_.lower_bound(date);
           it != throttled_.end() && it->first.substr(0, date.size()) == date; ++it) {
        if (it->first > position_.after && !found_.contains(it->first))
          found_[it->first].single = it->second;
      }
      return EndRound();
    }
    if (definition.record.event_count() <= 1 &&
        position_.date + 2 >= absl::ToCivilDay(now_, absl::UTCTimeZone())) {
      const OccurrenceSource source = SourceOf(definition.record);
      for (const auto& occurrence : definition.timetable.Enumerate(
               now_ - kActiveBehind - source.jitter, now_ + kActiveAhead, kActiveMax)) {
        const EmittedOccurrence emitted = ToEmitted(source, definition.timetable, occurrence);
        const std::string& id = emitted.id;
        if (id.substr(0, date.size()) != date || id <= position_.after || found_.contains(id))
          continue;
        active_.push_back(id);
        AddQueueKeys(id, emitted.launch_time, &keys);
      }
    }
    if (keys.empty()) return EndRound();
    context_.client.MultiGet(std::move(keys), context_.executor,
                             [self = shared_from_this()](absl::StatusOr<kv::GetResult> result) {
                               self->OnActive(std::move(result));
                             });
  }

  void AddQueueKeys(const std::string& occurrence, absl::Time due,
                    std::vector<kv::Key>* keys) const {
    const OccurrenceSource source = SourceOf(query_.schedule.definition.record);
    EventKey key;
    const std::string event_id = RunIdentity(source.tenant, source.uid, occurrence).EventId(0);
    key.shard = ShardOfEventId(event_id, context_.layout.queue_shards);
    key.due_time = due;
    key.uid = source.uid;
    key.occurrence = occurrence;
    for (const uint8_t lane : {source.priority, kLaneCatchUp}) {
      key.lane = lane;
      keys->push_back({ColumnFamily::kEvents, EncodeEventKey(key)});
    }
  }

  void OnActive(absl::StatusOr<kv::GetResult> result) {
    if (!result.ok()) return done_(StoreFailed(result.status()));
    for (size_t i = 0; i < active_.size(); ++i) {
      const auto& value =
          result->values[2 * i].has_value() ? result->values[2 * i] : result->values[2 * i + 1];
      if (!value.has_value()) continue;
      SingleEvent& single = found_[active_[i]].single;
      single.state = v1::PENDING;
      if (!single.row.emplace().ParseFromString(*value)) return done_(BrokenRecord("an event"));
    }
    EndRound();
  }

  void EndRound() {
    for (auto& [occurrence, run] : found_) {
      if (horizon_.has_value() && occurrence > *horizon_) break;
      if (page_.size() >= query_.limit) return ReadCounts(true);
      position_.after = occurrence;
      if (!run.record.has_value() && !run.single.done.has_value() && !run.single.row.has_value())
        continue;
      page_.emplace_back(occurrence, std::move(run));
    }
    if (horizon_.has_value()) {
      position_.after = *horizon_;
    } else {
      position_ = {position_.date + 1, std::string()};
    }
    Round();
  }

  void ReadCounts(bool more) {
    result_.more = more;
    result_.next = position_;
    std::vector<kv::Key> keys;
    for (const auto& [occurrence, run] : page_) {
      if (!run.record.has_value()) continue;
      const RunKey key = {query_.schedule.uid, occurrence};
      for (const uint16_t part : PartsOfRun())
        keys.push_back({ColumnFamily::kRunParts, RunPartKey(key, part)});
    }
    if (keys.empty()) return Answer({});
    context_.client.MultiGet(std::move(keys), context_.executor,
                             [self = shared_from_this()](absl::StatusOr<kv::GetResult> result) {
                               if (!result.ok()) return self->done_(StoreFailed(result.status()));
                               self->Answer(std::move(result->values));
                             });
  }

  void Answer(std::vector<std::optional<std::string>> parts) {
    size_t next_part = 0;
    for (const auto& [occurrence, run] : page_) {
      const RunName name = {query_.name, occurrence};
      if (!run.record.has_value()) {
        result_.runs.push_back(ShowSingleRun(name, run.single));
        continue;
      }
      storage::v1::RunPartRecord sum;
      for (size_t i = 0; i < PartsOfRun().size(); ++i) {
        const std::optional<std::string>& bytes = parts[next_part++];
        storage::v1::RunPartRecord part;
        if (bytes.has_value() && part.ParseFromString(*bytes)) AddCounts(part, &sum);
      }
      result_.runs.push_back(ShowRun(name, *run.record, sum, now_));
    }
    done_(std::move(result_));
  }

  MasterContext& context_;
  RunListQuery query_;
  Read done_;
  RunListPosition position_;
  const absl::Time now_;
  absl::CivilDay last_date_;
  std::map<std::string, SingleEvent> throttled_;  // runs of one that have not ended
  int scans_ = 0;
  std::vector<std::pair<std::string, FoundRun>> page_;
  RunListPage result_;
  // Of the round.
  int open_ = 0;
  absl::Status failed_;
  std::map<std::string, FoundRun> found_;
  std::optional<std::string> horizon_;  // nothing beyond it is known completely
  std::vector<std::string> active_;
};

}  // namespace

std::string FormatPosition(const RunListPosition& position) {
  return DateText(position.date) + position.after;
}

absl::StatusOr<RunListPosition> ParsePosition(absl::string_view text) {
  int digits = 0;
  if (text.size() < 8 || !absl::SimpleAtoi(text.substr(0, 8), &digits)) {
    return InvalidField("page_token", "is malformed");
  }
  return RunListPosition{absl::CivilDay(digits / 10'000, digits / 100 % 100, digits % 100),
                         std::string(text.substr(8))};
}

void ListRunsOf(MasterContext& context, RunListQuery query,
                absl::AnyInvocable<void(absl::StatusOr<RunListPage>)> done) {
  std::make_shared<Listing>(context, std::move(query), std::move(done))->Start();
}

}  // namespace escapement::master
