#include "services/emitter/emission_window.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/service/log.h"
#include "common/storage/event_table.h"
#include "common/storage/schedule_table.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/emitter/limits.h"

namespace escapement::emitter {
namespace {

using kv::ColumnFamily;
using kv::Condition;
using kv::Mutation;

Condition Equals(ColumnFamily cf, std::string key, std::string value, kv::CommitSeq since) {
  return {.cf = cf,
          .key = std::move(key),
          .kind = Condition::Kind::kValueEquals,
          .value = std::move(value),
          .since = since};
}

Condition Absent(ColumnFamily cf, std::string key) {
  Condition condition;
  condition.cf = cf;
  condition.key = std::move(key);
  condition.kind = Condition::Kind::kAbsent;
  return condition;
}

Mutation Put(ColumnFamily cf, std::string key, std::string value) {
  Mutation mutation;
  mutation.cf = cf;
  mutation.key = std::move(key);
  mutation.value = std::move(value);
  return mutation;
}

}  // namespace

EmissionWindow::EmissionWindow(kv::KvClient& client, std::shared_ptr<Executor> executor,
                               EmitterMetrics& metrics, Options options, Done done)
    : client_(client),
      executor_(std::move(executor)),
      metrics_(metrics),
      options_(std::move(options)),
      done_(std::move(done)) {}

void EmissionWindow::Start() {
  metrics_.windows.Increment();
  if (options_.cursor)
    options_.ranges = After(std::move(options_.ranges), options_.cursor->last_key);
  ScanOn();
}

void EmissionWindow::ScanOn() {
  if (!done_) return;
  if (chunk_full_ || range_ >= options_.ranges.size()) return Decide();
  const KeyRange& range = options_.ranges[range_];
  kv::ScanRequest request;
  request.cf = ColumnFamily::kChildren;
  request.begin = range.begin;
  request.end = range.end;
  request.limit = kScanRowsMax;
  client_.Scan(std::move(request), executor_,
               [self = shared_from_this()](absl::StatusOr<kv::ScanResult> result) {
                 self->OnChildren(std::move(result));
               });
}

void EmissionWindow::OnChildren(absl::StatusOr<kv::ScanResult> result) {
  if (!done_) return;
  if (!result.ok()) return Finish(result.status(), false);
  metrics_.rows_read.Increment(static_cast<double>(result->entries.size()));
  for (const kv::Entry& entry : result->entries) {
    if (!Take(entry, result->seq)) {
      chunk_full_ = true;
      options_.ranges[range_].begin = entry.key;
      return ScanOn();
    }
    last_key_ = entry.key;
  }
  if (result->more && !result->entries.empty()) {
    options_.ranges[range_].begin =
        absl::StrCat(result->entries.back().key, absl::string_view("\0", 1));
  } else {
    ++range_;
  }
  ScanOn();
}

bool EmissionWindow::Take(const kv::Entry& entry, kv::CommitSeq seq) {
  const std::optional<ChildKey> key = DecodeChildKey(entry.key);
  storage::v1::ChildRecord record;
  if (!key || !record.ParseFromString(entry.value)) {
    metrics_.records_broken.Increment();
    Log(LogLevel::kError, "emitter.window", "a child cannot be read and is left out",
        {{"partition", options_.partition}});
    return true;
  }
  auto occurrences = OccurrencesOfChild(*key, record, options_.begin, options_.end);
  if (!occurrences.ok()) {
    metrics_.records_broken.Increment();
    Log(LogLevel::kError, "emitter.window", "a child cannot be evaluated and is left out",
        {{"error", std::string(occurrences.status().message())}});
    return true;
  }
  if (occurrences->empty()) return true;
  DueChild child;
  child.source = SourceOf(key->uid, record);
  const size_t mutations = OccurrenceRowCount(child.source, options_.layout) * occurrences->size();
  if (!due_.empty() &&
      (due_.size() >= kChunkChildrenMax || mutations_ + mutations > kChunkMutationsMax))
    return false;
  mutations_ += mutations;
  child.key = entry.key;
  child.value = entry.value;
  child.seq = seq;
  child.version = record.version();
  child.occurrences = *std::move(occurrences);
  due_.push_back(std::move(child));
  metrics_.rows_due.Increment();
  return true;
}

void EmissionWindow::Decide() {
  last_chunk_ = !chunk_full_;
  if (due_.empty()) {
    if (last_chunk_ && !options_.cursor) return Finish(absl::OkStatus(), false);
    return CommitChunk({});
  }
  std::vector<kv::Key> keys;
  keys.reserve(due_.size());
  for (const DueChild& child : due_)
    keys.push_back({ColumnFamily::kStates, StateKey(child.source.uid)});
  client_.MultiGet(std::move(keys), executor_,
                   [self = shared_from_this()](absl::StatusOr<kv::GetResult> result) {
                     self->OnStates(std::move(result));
                   });
}

void EmissionWindow::OnStates(absl::StatusOr<kv::GetResult> result) {
  if (!done_) return;
  if (!result.ok()) return Finish(result.status(), false);
  emitted_at_ = result->store_time;
  std::vector<kv::Group> groups;
  grouped_.clear();
  for (size_t i = 0; i < due_.size(); ++i) {
    const std::optional<std::string>& value = result->values[i];
    storage::v1::StateRecord state;
    storage::v1::ChildRecord child;
    if (!value || !state.ParseFromString(*value) || !child.ParseFromString(due_[i].value)) continue;
    if (!Fires(child, state)) continue;
    groups.push_back(GroupOf(due_[i], *value, result->seq, result->store_time));
    grouped_.push_back(i);
  }
  if (groups.empty() && last_chunk_ && !options_.cursor) return Finish(absl::OkStatus(), false);
  CommitChunk(std::move(groups));
}

kv::Group EmissionWindow::GroupOf(const DueChild& child, const std::string& state,
                                  kv::CommitSeq state_seq, absl::Time now) {
  kv::Group group;
  group.conditions.push_back(
      Equals(ColumnFamily::kStates, StateKey(child.source.uid), state, state_seq));
  group.conditions.push_back(Equals(ColumnFamily::kChildren, child.key, child.value, child.seq));
  for (const EmittedOccurrence& occurrence : child.occurrences) {
    AddOccurrenceRows(child.source, occurrence, options_.layout, now, &group.mutations);
  }
  return group;
}

std::vector<Condition> EmissionWindow::Fence() const {
  std::vector<Condition> fence = {options_.lease};
  fence.push_back(Equals(ColumnFamily::kCheckpoints, EmittedToKey(options_.partition),
                         EncodeCheckpoint(options_.emitted_to), 0));
  if (options_.cursor) {
    fence.push_back(Equals(ColumnFamily::kCheckpoints, CursorKey(options_.partition),
                           EncodeCursor(*options_.cursor), 0));
  } else {
    fence.push_back(Absent(ColumnFamily::kCheckpoints, CursorKey(options_.partition)));
  }
  return fence;
}

void EmissionWindow::CommitChunk(std::vector<kv::Group> groups) {
  kv::Group progress;
  if (last_chunk_) {
    progress.mutations.push_back(Put(ColumnFamily::kCheckpoints, EmittedToKey(options_.partition),
                                     EncodeCheckpoint(options_.end)));
    if (options_.cursor) {
      Mutation forget;
      forget.cf = ColumnFamily::kCheckpoints;
      forget.kind = Mutation::Kind::kDelete;
      forget.key = CursorKey(options_.partition);
      progress.mutations.push_back(std::move(forget));
    }
  } else {
    progress.mutations.push_back(
        Put(ColumnFamily::kCheckpoints, CursorKey(options_.partition),
            EncodeCursor({.window_end = options_.end, .last_key = last_key_})));
  }
  groups.push_back(std::move(progress));
  kv::Commit commit;
  commit.fence = Fence();
  commit.groups = std::move(groups);
  client_.CommitAsync(std::move(commit), executor_,
                      [self = shared_from_this()](absl::StatusOr<kv::CommitResult> result) {
                        self->OnCommitted(std::move(result));
                      });
}

void EmissionWindow::OnCommitted(absl::StatusOr<kv::CommitResult> result) {
  if (!done_) return;
  if (!result.ok()) return Finish(result.status(), false);
  for (size_t g = 0; g < grouped_.size(); ++g) {
    if (!result->verdicts[g].applied) {
      metrics_.groups_refused.Increment();
      continue;
    }
    const DueChild& child = due_[grouped_[g]];
    metrics_.occurrences_emitted.Increment(static_cast<double>(child.occurrences.size()));
    metrics_.events_emitted.Increment(
        static_cast<double>(child.occurrences.size() * child.source.event_count));
    for (const EmittedOccurrence& o : child.occurrences) {
      if (LaneFor(0, o.launch_time, emitted_at_) == kLaneCatchUp)
        metrics_.occurrences_late.Increment();
    }
  }
  grouped_.clear();
  due_.clear();
  mutations_ = 0;
  chunk_full_ = false;
  if (last_chunk_) return Finish(absl::OkStatus(), true);
  options_.cursor = EmissionCursor{.window_end = options_.end, .last_key = last_key_};
  ScanOn();
}

void EmissionWindow::Finish(absl::Status status, bool stored) {
  Done done = std::move(done_);
  done_ = nullptr;
  done(std::move(status), stored);
}

}  // namespace escapement::emitter
