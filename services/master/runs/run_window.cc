#include "services/master/runs/run_window.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "common/base/key_codec.h"
#include "common/base/proto_time.h"
#include "common/storage/event_table.h"
#include "common/storage/run_table.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"
#include "services/master/requests/range_reader.h"
#include "services/master/runs/expected_occurrences.h"
#include "services/master/runs/run_listing.h"

namespace escapement::master {
namespace {

using kv::ColumnFamily;

constexpr uint32_t kRowsAtOnce = 1000;  // rows of one scan

class WindowRead : public std::enable_shared_from_this<WindowRead> {
 public:
  using Read = absl::AnyInvocable<void(absl::StatusOr<RunWindow>)>;
  WindowRead(MasterContext& context, RunWindowQuery query, Read done)
      : context_(context), query_(std::move(query)), done_(std::move(done)) {}

  void Start() {
    const uint32_t first_day = DoneDay(query_.begin);
    const uint32_t last_day = DoneDay(query_.end - absl::Microseconds(1) + query_.jitter);
    const Uid& uid = query_.uid;
    for (const TextRange& range : OccurrenceRanges(query_.begin, query_.end, query_.zones)) {
      Scan(ColumnFamily::kRuns, EncodeRunKey({uid, range.begin}), EncodeRunKey({uid, range.end}));
      for (uint32_t day = first_day; day <= last_day; ++day) {
        for (uint32_t shard = 0; shard < context_.layout.queue_shards; ++shard) {
          const auto key = [&](const std::string& text) {
            return DoneRunPrefix(static_cast<uint16_t>(shard), day, uid, text);
          };
          Scan(ColumnFamily::kDone, key(range.begin), key(range.end));
        }
      }
    }
    Close();
  }

 private:
  void Scan(ColumnFamily cf, std::string begin, std::string end) {
    ++open_;
    ++window_.scans;
    kv::ScanRequest scan;
    scan.cf = cf;
    scan.begin = std::move(begin);
    scan.end = end;
    scan.limit = kRowsAtOnce;
    context_.client.Scan(std::move(scan), context_.executor,
                         [self = shared_from_this(), cf,
                          end = std::move(end)](absl::StatusOr<kv::ScanResult> rows) mutable {
                           self->OnRows(cf, std::move(end), std::move(rows));
                           self->Close();
                         });
  }

  void OnRows(ColumnFamily cf, std::string end, absl::StatusOr<kv::ScanResult> rows) {
    if (!rows.ok()) {
      failed_ = StoreFailed(rows.status());
      return;
    }
    for (const kv::Entry& entry : rows->entries) {
      if (cf == ColumnFamily::kRuns) {
        AddRun(entry);
      } else {
        AddDone(entry);
      }
    }
    window_.crowded |=
        window_.runs.size() > query_.runs_max && query_.end - query_.begin > kRunWindowMin;
    if (!rows->more || window_.crowded || !failed_.ok()) return;
    Scan(cf, AfterOccurrence(cf, rows->entries.back().key), std::move(end));
  }

  // A run of many events has many Done records, which are not wanted here.
  static std::string AfterOccurrence(ColumnFamily cf, const std::string& last) {
    if (cf == ColumnFamily::kRuns) return KeyAfter(last);
    const DoneKey key = *DecodeDoneKey(last);
    return PrefixEnd(DoneRunPrefix(key.shard, key.day, key.uid, key.occurrence));
  }

  bool InWindow(absl::Time nominal) const {
    return query_.begin <= nominal && nominal < query_.end;
  }

  void AddRun(const kv::Entry& entry) {
    const auto key = DecodeRunKey(entry.key);
    storage::v1::RunRecord record;
    if (!key.has_value() || !record.ParseFromString(entry.value)) {
      failed_ = BrokenRecord("a run");
      return;
    }
    const absl::Time nominal = FromMicros(record.nominal_time_micros());
    if (!InWindow(nominal)) return;
    StoredRunRow& run = window_.runs[key->occurrence];
    run.nominal_time = nominal;
    run.record = std::move(record);
  }

  void AddDone(const kv::Entry& entry) {
    const auto key = DecodeDoneKey(entry.key);
    storage::v1::DoneRecord record;
    if (!key.has_value() || !record.ParseFromString(entry.value)) {
      failed_ = BrokenRecord("a Done record");
      return;
    }
    const absl::Time nominal = FromMicros(record.nominal_time_micros());
    // If it has a row in `runs` too, that one is shown.
    if (!InWindow(nominal) || (record.run_count() > 1 && !record.run_skipped())) return;
    StoredRunRow& run = window_.runs[key->occurrence];
    run.nominal_time = nominal;
    run.single.done = std::move(record);
  }

  // One of the reads has ended.
  void Close() {
    if (--open_ > 0) return;
    if (!failed_.ok()) return done_(failed_);
    done_(std::move(window_));
  }

  MasterContext& context_;
  const RunWindowQuery query_;
  Read done_;
  RunWindow window_;
  int open_ = 1;  // reads under way, and one until all are begun
  absl::Status failed_;
};

}  // namespace

void ReadRunWindow(MasterContext& context, RunWindowQuery query,
                   absl::AnyInvocable<void(absl::StatusOr<RunWindow>)> done) {
  std::make_shared<WindowRead>(context, std::move(query), std::move(done))->Start();
}

std::vector<kv::Key> RunPartKeys(const RunKey& run, const kv::Layout& layout) {
  std::vector<kv::Key> keys = {{ColumnFamily::kRunParts, RunPartKey(run, kMasterRunPart)}};
  for (uint32_t shard = 0; shard < layout.queue_shards; ++shard)
    keys.push_back({ColumnFamily::kRunParts, RunPartKey(run, static_cast<uint16_t>(shard))});
  for (uint32_t shard = 0; shard < layout.policy_shards; ++shard) {
    keys.push_back(
        {ColumnFamily::kRunParts, RunPartKey(run, PolicyRunPart(static_cast<uint16_t>(shard)))});
  }
  return keys;
}

std::optional<SkipSummary> SummaryOf(const storage::v1::DoneRecord& done) {
  if (!done.run_skipped() || done.skipped_occurrences() <= 1) return std::nullopt;
  return SkipSummary{FromMicros(done.nominal_time_micros()),
                     FromMicros(done.last_nominal_time_micros()), done.reason()};
}

namespace {

class SummarySearch : public std::enable_shared_from_this<SummarySearch> {
 public:
  using Searched = absl::AnyInvocable<void(absl::Status)>;
  SummarySearch(MasterContext& context, SummaryQuery query, Searched done)
      : context_(context),
        query_(std::move(query)),
        text_end_(OccurrenceRanges(query_.first, query_.last + absl::Microseconds(1), query_.zones)
                      .back()
                      .end),
        last_day_(DoneDay(query_.back_to)),
        done_(std::move(done)) {}

  // `day` is the day of a launch, up to a day after the nominal time.
  void ReadDay(uint32_t day) {
    open_ = context_.layout.queue_shards;
    for (uint32_t shard = 0; shard < context_.layout.queue_shards; ++shard) {
      kv::ScanRequest scan;
      scan.cf = ColumnFamily::kDone;
      scan.begin = DoneUidPrefix(static_cast<uint16_t>(shard), day, query_.uid);
      scan.end = DoneRunPrefix(static_cast<uint16_t>(shard), day, query_.uid, text_end_);
      scan.reverse = true;
      scan.limit = kAccountSummaryRowsMax;
      context_.client.Scan(std::move(scan), context_.executor,
                           [self = shared_from_this(), day](absl::StatusOr<kv::ScanResult> rows) {
                             self->OnRows(day, rows);
                           });
    }
  }

 private:
  void OnRows(uint32_t day, const absl::StatusOr<kv::ScanResult>& rows) {
    if (!rows.ok()) {
      failed_ = StoreFailed(rows.status());
    } else {
      for (const kv::Entry& row : rows->entries) {
        storage::v1::DoneRecord done;
        auto summary = done.ParseFromString(row.value) ? SummaryOf(done) : std::nullopt;
        if (summary.has_value()) found_.push_back(*std::move(summary));
      }
    }
    if (--open_ > 0) return;
    if (!failed_.ok() || query_.enough(found_) || day <= last_day_) return done_(failed_);
    ReadDay(day - 1);
  }

  MasterContext& context_;
  SummaryQuery query_;
  const std::string text_end_;
  const uint32_t last_day_;
  Searched done_;
  std::vector<SkipSummary> found_;
  uint32_t open_ = 0;  // reads under way
  absl::Status failed_;
};

}  // namespace

void FindSummaries(MasterContext& context, SummaryQuery query,
                   absl::AnyInvocable<void(absl::Status)> done) {
  const uint32_t day = DoneDay(query.last + absl::Hours(24));
  std::make_shared<SummarySearch>(context, std::move(query), std::move(done))->ReadDay(day);
}

void FindLastSent(MasterContext& context, const RunKey& run, const std::set<uint32_t>& days,
                  absl::AnyInvocable<void(absl::StatusOr<LastSent>)> done) {
  std::vector<KeyRange> ranges;
  for (uint32_t shard = 0; shard < context.layout.queue_shards; ++shard) {
    for (const uint32_t day : days) {
      const std::string prefix =
          DoneRunPrefix(static_cast<uint16_t>(shard), day, run.uid, run.occurrence);
      ranges.push_back({ColumnFamily::kDone, prefix, PrefixEnd(prefix)});
    }
  }
  struct Reading {
    LastSent sent;
    size_t rows = 0;
  };
  auto reading = std::make_shared<Reading>();
  ReadRanges(
      context, std::move(ranges), kAccountDoneRowsMax,
      [reading](const KeyRange&, kv::Entry& entry) -> absl::StatusOr<bool> {
        storage::v1::DoneRecord record;
        if (!record.ParseFromString(entry.value)) return BrokenRecord("a Done record");
        const std::optional<absl::Time> first = LastFirstSent(record);
        if (first.has_value())
          reading->sent.time = std::max(*first, reading->sent.time.value_or(*first));
        reading->sent.cut = ++reading->rows >= kAccountDoneRowsMax;
        return !reading->sent.cut;
      },
      [reading, done = std::move(done)](absl::Status status) mutable {
        if (!status.ok()) return done(std::move(status));
        done(reading->sent);
      });
}

}  // namespace escapement::master
