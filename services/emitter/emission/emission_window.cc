#include "services/emitter/emission/emission_window.h"

#include <algorithm>
#include <utility>

#include "common/base/key_codec.h"
#include "common/base/log.h"
#include "common/kv/group_parts.h"
#include "common/runtime/perturb.h"
#include "services/emitter/base/options.h"

namespace escapement::emitter {
using kv::ColumnFamily;
using kv::Condition;
using kv::Mutation;

EmissionWindow::EmissionWindow(kv::KvClient& client, std::shared_ptr<Executor> executor,
                               EmitterMetrics& metrics, Options options, Done done)
    : client_(client),
      executor_(std::move(executor)),
      metrics_(metrics),
      options_(std::move(options)),
      done_(std::move(done)),
      chunk_({.layout = options_.layout,
              .begin = options_.begin,
              .end = options_.end,
              .rules = options_.rules},
             options_.catch_up != nullptr ? options_.catch_up : std::make_shared<CatchUp>()) {}

void EmissionWindow::Start() {
  metrics_.windows.Increment();
  if (options_.cursor)
    options_.ranges = After(std::move(options_.ranges), options_.cursor->last_key);
  ScanOn();
}

void EmissionWindow::ScanOn() {
  if (!done_) return;
  AddChildren();
  if (chunk_full_ || range_ >= options_.ranges.size()) return Decide();
  asked_to_ = std::min(options_.ranges.size(), range_ + kv::kScanRangesMax);
  const auto range = options_.ranges.begin() + static_cast<ptrdiff_t>(range_);
  const auto asked_to = options_.ranges.begin() + static_cast<ptrdiff_t>(asked_to_);
  const auto on_children = [self = shared_from_this()](absl::StatusOr<kv::ScanResult> result) {
    self->OnChildren(std::move(result));
  };
  if (const auto shared = std::exchange(options_.shared, nullptr))
    return shared->Read({range, asked_to}, on_children);
  kv::ScanRequest request;
  request.cf = ColumnFamily::kChildren;
  request.begin = range->begin;
  request.end = range->end;
  request.then.assign(range + 1, asked_to);
  request.limit = Perturb(client_.runtime(), Site::kEmitterScanOfOne) ? 1 : kScanRowsMax;
  client_.Scan(std::move(request), executor_, on_children);
}

void EmissionWindow::OnChildren(absl::StatusOr<kv::ScanResult> result) {
  if (!done_) return;
  if (!result.ok()) return Finish(result.status(), false);
  metrics_.rows_read.Increment(static_cast<double>(result->entries.size()));
  children_read_ += result->entries.size();
  read_ = *std::move(result);
  looked_at_ = 0;
  if (read_.more && !read_.entries.empty()) {
    GoOnAfter(read_.entries.back().key);
  } else {
    range_ = asked_to_;
  }
  ScanOn();
}

void EmissionWindow::AddChildren() {
  const bool of_one = Perturb(client_.runtime(), Site::kEmitterChunkOfOne);
  while (looked_at_ < read_.entries.size() && !chunk_full_) {
    kv::Entry& entry = read_.entries[looked_at_];
    key_ = entry.key;
    if (!Add(std::move(entry), key_)) {
      chunk_full_ = true;
      return;
    }
    last_key_.swap(key_);
    ++looked_at_;
    chunk_full_ |= chunk_.full() || (of_one && !chunk_.empty());
  }
}

bool EmissionWindow::Add(kv::Entry&& entry, const std::string& key) {
  const absl::StatusOr<EmissionChunk::Added> added = chunk_.Add(std::move(entry), read_.seq);
  if (!added.ok()) {
    metrics_.records_broken.Increment();
    Log(LogLevel::kError, "emitter.window", "a child cannot be read and is left out",
        {{"partition", options_.partition}, {"error", std::string(added.status().message())}});
    return true;
  }
  if (*added == EmissionChunk::Added::kNoRoom) return false;
  if (*added != EmissionChunk::Added::kNothingDue) metrics_.rows_due.Increment();
  if (*added == EmissionChunk::Added::kDueInPart) {
    // Where it stands after this commit is behind it, among what has been read already.
    chunk_full_ = true;
    GoOnAfter(key);
    read_.entries.resize(looked_at_ + 1);
  }
  return true;
}

void EmissionWindow::GoOnAfter(const std::string& key) {
  std::string behind = KeyAfter(key);
  const auto range = std::find_if(options_.ranges.begin(), options_.ranges.end(),
                                  [&](const KeyRange& range) { return behind < range.end; });
  range_ = static_cast<size_t>(range - options_.ranges.begin());
  if (range != options_.ranges.end()) range->begin = std::max(range->begin, std::move(behind));
}

void EmissionWindow::Decide() {
  last_chunk_ = !chunk_full_;
  if (chunk_.empty()) {
    if (last_chunk_ && !options_.cursor) return Finish(absl::OkStatus(), false);
    return CommitChunk({});
  }
  std::vector<kv::Key> definitions = chunk_.DefinitionsToRead();
  if (definitions.empty()) return ReadStates();
  client_.MultiGet(std::move(definitions), executor_,
                   [self = shared_from_this()](absl::StatusOr<kv::GetResult> result) {
                     if (!self->done_) return;
                     if (!result.ok()) return self->Finish(result.status(), false);
                     self->chunk_.SetDefinitions(*result);
                     self->ReadStates();
                   });
}

void EmissionWindow::ReadStates() {
  client_.MultiGet(chunk_.StatesToRead(), executor_,
                   [self = shared_from_this()](absl::StatusOr<kv::GetResult> result) {
                     self->OnStates(std::move(result));
                   });
}

void EmissionWindow::OnStates(absl::StatusOr<kv::GetResult> result) {
  if (!done_) return;
  if (!result.ok()) return Finish(result.status(), false);
  EmissionChunk::Groups chunk = chunk_.Build(*std::move(result));
  if (chunk.groups.empty() && last_chunk_ && !options_.cursor)
    return Finish(absl::OkStatus(), false);
  CommitChunk(std::move(chunk));
}

std::vector<Condition> EmissionWindow::Fence() const {
  std::vector<Condition> fence = options_.fence;
  fence.push_back(kv::ValueIs(ColumnFamily::kCheckpoints, EmittedToKey(options_.partition),
                              EncodeCheckpoint(options_.emitted_to), 0));
  if (options_.cursor) {
    fence.push_back(kv::ValueIs(ColumnFamily::kCheckpoints, CursorKey(options_.partition),
                                EncodeCursor(*options_.cursor), 0));
  } else {
    fence.push_back(kv::Absent(ColumnFamily::kCheckpoints, CursorKey(options_.partition)));
  }
  return fence;
}

void EmissionWindow::CommitChunk(EmissionChunk::Groups chunk) {
  kv::Group progress;
  if (last_chunk_) {
    progress.mutations.push_back(kv::Put(ColumnFamily::kCheckpoints,
                                         EmittedToKey(options_.partition),
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
        kv::Put(ColumnFamily::kCheckpoints, CursorKey(options_.partition),
                EncodeCursor({.window_end = options_.end, .last_key = last_key_})));
  }
  counts_ = std::move(chunk.counts);
  kv::Commit commit;
  commit.fence = Fence();
  for (Condition& condition : chunk.fence) commit.fence.push_back(std::move(condition));
  commit.groups = std::move(chunk.groups);
  commit.groups.push_back(std::move(progress));
  client_.CommitAsync(std::move(commit), executor_,
                      [self = shared_from_this()](absl::StatusOr<kv::CommitResult> result) {
                        self->OnCommitted(std::move(result));
                      });
}

void EmissionWindow::OnCommitted(absl::StatusOr<kv::CommitResult> result) {
  if (!done_) return;
  if (!result.ok()) return Finish(result.status(), false);
  for (size_t g = 0; g < counts_.size(); ++g) {
    if (result->verdicts[g].applied) {
      Count(counts_[g]);
    } else {
      metrics_.groups_refused.Increment(static_cast<double>(counts_[g].children));
    }
  }
  chunk_.Clear();
  chunk_full_ = false;
  if (last_chunk_) return Finish(absl::OkStatus(), true);
  options_.cursor = EmissionCursor{.window_end = options_.end, .last_key = last_key_};
  ScanOn();
}

void EmissionWindow::Count(const EmissionCounts& counts) {
  metrics_.occurrences_emitted.Increment(static_cast<double>(counts.occurrences));
  metrics_.occurrences_late.Increment(static_cast<double>(counts.late));
  metrics_.events_emitted.Increment(static_cast<double>(counts.events));
  metrics_.skipped_misfire.Increment(static_cast<double>(counts.skipped));
  metrics_.children_removed.Increment(static_cast<double>(counts.removed));
}

void EmissionWindow::Finish(absl::Status status, bool stored) {
  Done done = std::move(done_);
  done_ = nullptr;
  done(std::move(status), stored);
}

}  // namespace escapement::emitter
