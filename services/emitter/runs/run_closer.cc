#include "services/emitter/runs/run_closer.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/base/hash.h"
#include "common/base/key_codec.h"
#include "common/base/log.h"
#include "common/base/proto_time.h"
#include "common/runtime/perturb.h"
#include "common/storage/children_table.h"
#include "common/storage/event_table.h"
#include "common/storage/run_table.h"
#include "common/storage/schedule_table.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/emitter/base/options.h"

namespace escapement::emitter {

namespace {

std::string JsonTime(int64_t micros) {
  return absl::FormatTime("%E4Y-%m-%dT%H:%M:%E*SZ", FromMicros(micros), absl::UTCTimeZone());
}

std::string JsonSeconds(int64_t micros) {
  return absl::StrFormat("%.6f", static_cast<double>(micros) / 1e6);
}

absl::string_view WindowStateName(WindowState state) {
  if (state == WindowState::kLate) return "LATE";
  return state == WindowState::kAtRisk ? "AT_RISK" : "ON_TRACK";
}

// Names consist of characters that stand for themselves; whatever else a record holds makes no
// invalid JSON.
std::string JsonName(absl::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c == '"' || c == '\\') out.push_back('\\');
    out.push_back(static_cast<unsigned char>(c) < 0x20 ? ' ' : c);
  }
  return out;
}

}  // namespace

RunCounts RunCounts::Of(const storage::v1::RunPartRecord& part) {
  return {.succeeded = part.succeeded(),
          .failed = part.failed(),
          .expired = part.expired(),
          .skipped = part.skipped(),
          .cancelled = part.cancelled(),
          .never_started = part.never_started(),
          .tokens = part.tokens()};
}

RunCounts& RunCounts::operator+=(const RunCounts& other) {
  succeeded += other.succeeded;
  failed += other.failed;
  expired += other.expired;
  skipped += other.skipped;
  cancelled += other.cancelled;
  never_started += other.never_started;
  tokens += other.tokens;
  return *this;
}

RunCounts& RunCounts::operator-=(const RunCounts& other) {
  succeeded -= other.succeeded;
  failed -= other.failed;
  expired -= other.expired;
  skipped -= other.skipped;
  cancelled -= other.cancelled;
  never_started -= other.never_started;
  tokens -= other.tokens;
  return *this;
}

void RunSum::Replace(RunCounts& former, const storage::v1::RunPartRecord& part) {
  counts -= former;
  former = RunCounts::Of(part);
  counts += former;
  const int64_t granted = part.first_grant_time_micros();
  const int64_t first = rest.first_grant_time_micros();
  if (granted != 0 && (first == 0 || granted < first)) rest.set_first_grant_time_micros(granted);
  rest.set_last_end_time_micros(std::max(rest.last_end_time_micros(), part.last_end_time_micros()));
  AddSlowest(part, rest);
}

WindowProgress RunSum::ProgressOf(const storage::v1::RunRecord& record) const {
  WindowProgress progress = WindowProgressOf(record, rest);
  // Below zero if the masters' part has been read and others have not.
  progress.ended =
      static_cast<uint64_t>(std::max<int64_t>(static_cast<int64_t>(counts.ended()), 0));
  progress.expired = counts.expired;
  return progress;
}

std::string RunEndEventId(absl::string_view tenant, const RunKey& run) {
  return absl::StrCat(
      "run-ended-",
      StableHash128(KeyWriter().Text(tenant).Id(run.uid).Text(run.occurrence).Take()).ToHex());
}

std::string RunEndPayload(const storage::v1::RunRecord& record, absl::string_view occurrence,
                          const RunSum& sum) {
  const RunCounts& counts = sum.counts;
  const std::string name = JsonName(absl::StrCat("tenants/", record.tenant(), "/schedules/",
                                                 record.schedule_id(), "/runs/", occurrence));
  std::string json = absl::StrCat("{\"run\":\"", name, "\",\"nominal_time\":\"",
                                  JsonTime(record.nominal_time_micros()), "\",\"complete_time\":\"",
                                  JsonTime(record.complete_time_micros()), "\"");
  absl::StrAppend(&json, ",\"event_count\":", record.event_count());
  absl::StrAppend(&json, ",\"succeeded\":", counts.succeeded, ",\"failed\":", counts.failed);
  absl::StrAppend(&json, ",\"expired\":", counts.expired, ",\"skipped\":", counts.skipped);
  absl::StrAppend(&json, ",\"cancelled\":", counts.cancelled);
  absl::StrAppend(&json, ",\"never_started\":", counts.never_started);
  absl::StrAppend(&json, ",\"tokens\":", counts.tokens);
  if (record.window_close_micros() != 0) {
    const WindowVerdict verdict =
        JudgeWindow(sum.ProgressOf(record), record.complete_time_micros());
    absl::StrAppend(&json, ",\"window\":\"", WindowStateName(verdict.state),
                    "\",\"window_close_time\":\"", JsonTime(record.window_close_micros()), "\"");
  }
  if (record.event_count() <= 1) return json + "}";
  absl::StrAppend(&json, ",\"slowest\":[");
  absl::string_view comma;
  for (const storage::v1::SlowEventRecord& slow : sum.rest.slowest()) {
    absl::StrAppend(&json, std::exchange(comma, ","), "{\"event\":\"", name, "/events/",
                    slow.index(), "\",\"seconds\":", JsonSeconds(slow.duration_micros()), "}");
  }
  return json + "]}";
}

void AddRunEndEvent(const storage::v1::RunRecord& record, const RunKey& run, const RunSum& sum,
                    const InternedDelivery& interned, uint32_t queue_shards, absl::Time now,
                    kv::Group& group) {
  const std::string id = RunEndEventId(record.tenant(), run);
  const std::string payload = RunEndPayload(record, run.occurrence, sum);
  AddOwnEvent(record.tenant(), id, payload, interned, queue_shards, now, group);
}

namespace {

using kv::ColumnFamily;
using kv::Mutation;

// The last field of a part's key is the shard: the rest is the run's key.
constexpr size_t kShardBytes = 2;

// The conditions of a group that closes a run: fence, record as read, no event of that name yet.
constexpr uint16_t kNoSuchEvent = 2;

}  // namespace

RunCloser::RunCloser(kv::KvClient& client, std::shared_ptr<Executor> executor,
                     EmitterMetrics& metrics, Options options)
    : client_(client),
      executor_(std::move(executor)),
      metrics_(metrics),
      options_(std::move(options)) {}

void RunCloser::Start() { Watch(); }

void RunCloser::Stop() {
  stopped_ = true;
  marks_watch_ = nullptr;
  parts_watch_ = nullptr;
  runs_.clear();
  windowed_.clear();
  ended_.clear();
  to_read_.clear();
  to_tell_.clear();
}

void RunCloser::Watch() {
  const auto open = [this](ColumnFamily cf, void (RunCloser::*on_batch)(const kv::WatchBatch&)) {
    kv::WatchRequest request;
    request.cf = cf;
    request.from_seq = kv::kWatchFromNow;
    const std::weak_ptr<RunCloser> weak = weak_from_this();
    kv::WatchObserver observer;
    observer.on_batch = [weak, on_batch](kv::WatchBatch batch) {
      if (auto self = weak.lock(); self != nullptr && !self->stopped_)
        (self.get()->*on_batch)(batch);
    };
    observer.on_lagged = [weak](absl::Status) {
      if (auto self = weak.lock(); self != nullptr && !self->stopped_) self->OnLagged();
    };
    return client_.OpenWatch(std::move(request), /*excluding_own=*/false, executor_,
                             std::move(observer));
  };
  marks_watch_ = open(ColumnFamily::kCheckpoints, &RunCloser::OnMarks);
  parts_watch_ = open(ColumnFamily::kRunParts, &RunCloser::OnParts);
}

// One of the watches has ended: opens both again, then reads everything again.
void RunCloser::OnLagged() {
  marks_watch_ = nullptr;
  parts_watch_ = nullptr;
  // Not at once, for two reasons: this is called by a watch that is being destroyed, and while the
  // store cannot be reached new watches would end at once, too.
  executor_->PostAfter(kCloseRetry, [self = shared_from_this()] {
    if (self->stopped_ || self->marks_watch_ != nullptr) return;
    self->Watch();
    self->runs_.clear();
    self->windowed_.clear();
    self->ended_.clear();
    self->to_read_.clear();
    self->to_tell_.clear();
    for (uint32_t partition : self->partitions_) self->ReadMarks(partition, std::string());
  });
}

void RunCloser::AddPartition(uint32_t partition) {
  if (stopped_) return;
  partitions_.insert(partition);
  ReadMarks(partition, std::string());
}

void RunCloser::DropPartition(uint32_t partition) {
  partitions_.erase(partition);
  for (auto it = runs_.begin(); it != runs_.end();) {
    if (it->second.partition == partition) {
      ended_.erase(it->first);
      windowed_.erase(it->first);
      it = runs_.erase(it);
    } else {
      ++it;
    }
  }
}

void RunCloser::ReadMarks(uint32_t partition, std::string begin) {
  const std::string prefix = ActiveRunPrefix(static_cast<uint16_t>(partition));
  kv::ScanRequest request;
  request.cf = ColumnFamily::kCheckpoints;
  request.begin = begin.empty() ? prefix : std::move(begin);
  request.end = PrefixEnd(prefix);
  request.keys_only = true;
  if (Perturb(client_.runtime(), Site::kCloserMarkScanOfOne)) request.limit = 1;
  client_.Scan(std::move(request), executor_,
               [self = shared_from_this(), partition](absl::StatusOr<kv::ScanResult> result) {
                 if (self->stopped_ || !result.ok() || !self->partitions_.contains(partition))
                   return;
                 for (const kv::Entry& entry : result->entries) {
                   if (const auto run = DecodeActiveRunKey(entry.key)) {
                     self->Track(partition, EncodeRunKey({run->uid, run->occurrence}));
                   }
                 }
                 if (result->more && !result->entries.empty()) {
                   self->ReadMarks(partition, KeyAfter(result->entries.back().key));
                 }
               });
}

void RunCloser::OnMarks(const kv::WatchBatch& batch) {
  for (const kv::WatchedMutation& mutation : batch.mutations) {
    const auto run = DecodeActiveRunKey(mutation.key);
    if (!run || !partitions_.contains(run->partition)) continue;
    const std::string key = EncodeRunKey({run->uid, run->occurrence});
    if (mutation.kind == Mutation::Kind::kPut) OnMark(run->partition, key);
    if (mutation.kind == Mutation::Kind::kDelete) Forget(key);
  }
}

// If a schedule is changed away from an occurrence and back, the occurrence's run is written again
// and may have another n.
void RunCloser::OnMark(uint32_t partition, const std::string& run_key) {
  const auto known = runs_.find(run_key);
  if (known == runs_.end()) return Track(partition, run_key);
  known->second.event_count = 0;
  ended_.erase(run_key);
  to_read_.push_back(run_key);
  ReadNext();
}

void RunCloser::Track(uint32_t partition, std::string run_key) {
  if (runs_.contains(run_key)) return;
  if (runs_.size() >= kActiveRunsMax) {
    overflowed_ = true;
    return;
  }
  runs_[run_key].partition = partition;
  to_read_.push_back(std::move(run_key));
  ReadNext();
}

void RunCloser::ReadNext() {
  const size_t reads_max = Perturb(client_.runtime(), Site::kCloserReadsOne) ? 1 : kRunReadsMax;
  while (reading_ < reads_max && !to_read_.empty()) {
    std::string key = std::move(to_read_.front());
    to_read_.pop_front();
    if (runs_.contains(key)) ReadRun(std::move(key));
  }
}

void RunCloser::ReadRun(std::string run_key) {
  ++reading_;
  client_.MultiGet({{ColumnFamily::kRuns, run_key}}, executor_,
                   [self = shared_from_this(), run_key](absl::StatusOr<kv::GetResult> result) {
                     const auto it = self->runs_.find(run_key);
                     storage::v1::RunRecord record;
                     if (self->stopped_ || it == self->runs_.end() || !result.ok() ||
                         !result->values[0] || !record.ParseFromString(*result->values[0])) {
                       return self->ReadEnded();
                     }
                     if (result->seq < it->second.read_at) return self->ReadEnded();
                     it->second.read_at = result->seq;
                     it->second.record = *std::move(result->values[0]);
                     it->second.event_count = record.event_count();
                     if (record.window_close_micros() != 0) {
                       self->windowed_.insert(run_key);
                     } else {
                       self->windowed_.erase(run_key);
                     }
                     it->second.to_tell =
                         record.has_on_complete() && it->second.on_complete == nullptr;
                     self->ReadParts(run_key, run_key);
                   });
}

void RunCloser::ReadParts(std::string run_key, std::string begin) {
  kv::ScanRequest request;
  request.cf = ColumnFamily::kRunParts;
  request.begin = std::move(begin);
  request.end = PrefixEnd(run_key);
  if (Perturb(client_.runtime(), Site::kCloserPartScanOfOne)) request.limit = 1;
  client_.Scan(std::move(request), executor_,
               [self = shared_from_this(), run_key](absl::StatusOr<kv::ScanResult> result) {
                 const auto it = self->runs_.find(run_key);
                 if (self->stopped_ || it == self->runs_.end() || !result.ok())
                   return self->ReadEnded();
                 for (const kv::Entry& entry : result->entries)
                   self->Add(it->second, entry.key, entry.value, result->seq);
                 if (result->more && !result->entries.empty()) {
                   return self->ReadParts(run_key, KeyAfter(result->entries.back().key));
                 }
                 self->CloseIfEnded(run_key, it->second);
                 self->ReadEnded();
               });
}

void RunCloser::ReadEnded() {
  TakeFrom<size_t>(reading_, 1);
  if (!stopped_) ReadNext();
}

void RunCloser::OnParts(const kv::WatchBatch& batch) {
  for (const kv::WatchedMutation& mutation : batch.mutations) {
    if (mutation.kind != Mutation::Kind::kPut || mutation.key.size() <= kShardBytes) continue;
    const auto it =
        runs_.find(absl::string_view(mutation.key).substr(0, mutation.key.size() - kShardBytes));
    // A run that is not known yet is read when its mark is seen.
    if (it == runs_.end()) continue;
    Add(it->second, mutation.key, mutation.value, batch.seq);
    CloseIfEnded(it->first, it->second);
  }
}

// A scan and the watch may deliver a part in either order.
void RunCloser::Add(Run& run, absl::string_view part_key, absl::string_view value,
                    kv::CommitSeq seq) {
  storage::v1::RunPartRecord part;
  if (!part.ParseFromArray(value.data(), static_cast<int>(value.size())))
    return metrics_.records_broken.Increment();
  Part& known = run.parts[std::string(part_key)];
  if (seq < known.seq) return;
  known.seq = seq;
  run.sum.Replace(known.counts, part);
}

void RunCloser::CloseIfEnded(const std::string& run_key, Run& run) {
  // Below zero if the masters' part has been read and others have not.
  const auto ended = static_cast<int64_t>(run.sum.counts.ended());
  if (run.event_count == 0 || ended < static_cast<int64_t>(run.event_count) || run.closing) return;
  ended_.insert(run_key);
  CloseSoon(kCloseEvery);
}

void RunCloser::CloseSoon(absl::Duration delay) {
  if (std::exchange(close_timer_, true)) return;
  if (Perturb(client_.runtime(), Site::kCloserLate)) delay += kCloseRetry;
  executor_->PostAfter(delay, [self = shared_from_this()] {
    self->close_timer_ = false;
    if (!self->stopped_) self->CloseEnded();
  });
}

void RunCloser::CloseEnded() {
  Closing closing;
  std::vector<std::string> waiting;
  const size_t runs_max = Perturb(client_.runtime(), Site::kCloserClosesOne) ? 1 : kRunsClosedMax;
  while (!ended_.empty() && closing.runs.size() < runs_max) {
    const std::string key = std::move(ended_.extract(ended_.begin()).value());
    const auto it = runs_.find(key);
    if (it == runs_.end() || it->second.closing) continue;
    Run& run = it->second;
    const std::optional<RunKey> run_key = DecodeRunKey(key);
    storage::v1::RunRecord record;
    if (!run_key || !record.ParseFromString(run.record)) continue;
    if (!options_.leases.valid(run.partition)) {
      // Either the partition is about to be dropped, or a late renewal finds the lease still ours.
      waiting.push_back(key);
      continue;
    }
    if (run.to_tell) {
      if (!std::exchange(run.reading_target, true)) to_tell_.push_back(key);
      continue;
    }
    run.closing = true;
    AddGroup(key, *run_key, std::move(record), run, closing);
  }
  ReadTargets();
  if (!ended_.empty()) CloseSoon(kCloseEvery);
  if (!waiting.empty()) {
    ended_.insert(waiting.begin(), waiting.end());
    CloseSoon(kCloseRetry);
  }
  if (closing.runs.empty()) return;
  client_.CommitAsync(std::move(closing.commit), executor_,
                      [self = shared_from_this(),
                       runs = std::move(closing.runs)](absl::StatusOr<kv::CommitResult> result) {
                        if (!self->stopped_) self->OnClosed(runs, result);
                      });
}

void RunCloser::AddGroup(const std::string& key, const RunKey& run_key,
                         storage::v1::RunRecord record, const Run& run, Closing& closing) {
  const absl::Time now = client_.NowLow();
  const bool tells = run.Tells();
  InternedDelivery interned;
  if (tells) {
    interned = Intern(*run.on_complete, now);
    if (closing.interned.insert(interned.hash).second)
      closing.commit.groups.push_back(InternGroup(interned));
  }
  kv::Group group;
  kv::Condition as_read;
  as_read.cf = ColumnFamily::kRuns;
  as_read.key = key;
  as_read.kind = kv::Condition::Kind::kValueEquals;
  as_read.value = run.record;
  group.conditions = {options_.leases.fence(run.partition), std::move(as_read)};
  record.set_complete_time_micros(ToMicros(now));
  group.mutations.resize(2);
  group.mutations[0].cf = ColumnFamily::kRuns;
  group.mutations[0].key = key;
  group.mutations[0].value = record.SerializeAsString();
  group.mutations[1].cf = ColumnFamily::kCheckpoints;
  group.mutations[1].kind = Mutation::Kind::kDelete;
  group.mutations[1].key =
      ActiveRunKey(static_cast<uint16_t>(run.partition), run_key.uid, run_key.occurrence);
  if (tells)
    AddRunEndEvent(record, run_key, run.sum, interned, options_.layout.queue_shards, now, group);
  closing.runs.push_back({.key = key, .group = closing.commit.groups.size(), .told = tells});
  closing.commit.groups.push_back(std::move(group));
}

void RunCloser::OnClosed(const std::vector<Closing::Closed>& runs,
                         const absl::StatusOr<kv::CommitResult>& result) {
  for (const Closing::Closed& closed : runs) {
    if (result.ok() && result->verdicts[closed.group].applied) {
      metrics_.runs_closed.Increment();
      if (closed.told) metrics_.run_end_events.Increment();
      Forget(closed.key);
      continue;
    }
    const auto it = runs_.find(closed.key);
    if (it == runs_.end()) continue;
    Run& run = it->second;
    run.closing = false;
    if (result.ok() && result->verdicts[closed.group].failed_condition == kNoSuchEvent) {
      // A client has made an event of that very name.
      Log(LogLevel::kError, "emitter.closer", "the event of a run's end exists; nobody is told");
      run.on_complete = nullptr;
      CloseIfEnded(closed.key, run);
      continue;
    }
    // Another owner's by now (then it is dropped), or the record was not as read: read it again.
    executor_->PostAfter(kCloseRetry, [self = shared_from_this(), key = closed.key] {
      if (self->stopped_ || !self->runs_.contains(key)) return;
      self->to_read_.push_back(key);
      self->ReadNext();
    });
  }
}

void RunCloser::ReadTargets() {
  while (reading_targets_ < kRunReadsMax && !to_tell_.empty()) {
    const std::string key = std::move(to_tell_.front());
    to_tell_.pop_front();
    const auto it = runs_.find(key);
    const std::optional<RunKey> run_key = DecodeRunKey(key);
    storage::v1::RunRecord record;
    if (it == runs_.end() || !run_key || !record.ParseFromString(it->second.record)) continue;
    ++reading_targets_;
    client_.MultiGet({{ColumnFamily::kDefinitions, DefinitionKey(run_key->uid, record.version())}},
                     executor_,
                     [self = shared_from_this(), key](absl::StatusOr<kv::GetResult> result) {
                       TakeFrom<size_t>(self->reading_targets_, 1);
                       if (self->stopped_) return;
                       self->OnTarget(key, std::move(result));
                       self->ReadTargets();
                     });
  }
}

void RunCloser::OnTarget(const std::string& run_key, absl::StatusOr<kv::GetResult> result) {
  const auto it = runs_.find(run_key);
  if (it == runs_.end()) return;
  Run& run = it->second;
  run.reading_target = false;
  if (!result.ok()) {
    ended_.insert(run_key);
    return CloseSoon(kCloseRetry);
  }
  run.to_tell = false;
  storage::v1::DefinitionRecord definition;
  const std::optional<std::string>& value = result->values[0];
  if (value.has_value() && !definition.ParseFromString(*value)) {
    metrics_.records_broken.Increment();
  } else if (definition.has_on_complete()) {
    run.on_complete = std::make_shared<const storage::v1::DeliveryRecord>(definition.on_complete());
    run.only_failures = definition.on_complete_if_failed();
  }
  CloseIfEnded(run_key, run);
}

void RunCloser::JudgeWindows() {
  const int64_t now = ToMicros(client_.NowLow());
  auto next = windowed_.upper_bound(judged_to_);
  for (size_t n = 0; n < kWindowsJudgedMax && next != windowed_.end(); ++n, ++next) {
    const auto run = runs_.find(*next);
    storage::v1::RunRecord record;
    judged_to_ = *next;
    if (run == runs_.end() || !record.ParseFromString(run->second.record)) continue;
    at_risk_ += JudgeWindow(run->second.sum.ProgressOf(record), now).state != WindowState::kOnTrack;
  }
  if (next != windowed_.end()) return;
  judged_to_.clear();
  metrics_.runs_at_risk.Set(static_cast<double>(std::exchange(at_risk_, 0)));
}

void RunCloser::Forget(const std::string& run_key) {
  ended_.erase(run_key);
  windowed_.erase(run_key);
  if (runs_.erase(run_key) == 0 || !overflowed_ || runs_.size() > kActiveRunsMax / 2) return;
  overflowed_ = false;
  for (uint32_t partition : partitions_) ReadMarks(partition, std::string());
}

}  // namespace escapement::emitter
