#include "common/kv/client/range_mirror.h"

#include <utility>

#include "absl/time/time.h"
#include "common/base/key_codec.h"

namespace escapement::kv {
namespace {

constexpr absl::Duration kAgain = absl::Milliseconds(200);  // after a failure or the end of a watch

}  // namespace

RangeMirror::RangeMirror(KvClient& client, ColumnFamily cf, KeyRange range,
                         std::shared_ptr<Executor> executor,
                         std::function<void(const Rows& rows)> on_change)
    : client_(client),
      cf_(cf),
      range_(std::move(range)),
      executor_(std::move(executor)),
      on_change_(std::move(on_change)) {}

void RangeMirror::Start() { Read(range_.begin, {}, 0); }

// `seq` is that of the first page: the watch repeats what changed between the pages.
void RangeMirror::Read(std::string begin, Rows rows, CommitSeq seq) {
  ScanRequest scan;
  scan.cf = cf_;
  scan.begin = std::move(begin);
  scan.end = range_.end;
  client_.Scan(std::move(scan), executor_,
               [this, rows = std::move(rows), seq](absl::StatusOr<ScanResult> page) mutable {
                 if (!page.ok()) return ReadLater();
                 if (seq == 0) seq = page->seq;
                 std::string next =
                     page->more && !page->entries.empty() ? KeyAfter(page->entries.back().key) : "";
                 for (Entry& entry : page->entries)
                   rows[std::move(entry.key)] = std::move(entry.value);
                 if (!next.empty()) return Read(std::move(next), std::move(rows), seq);
                 rows_ = std::move(rows);
                 Watch(seq);
                 on_change_(rows_);
               });
}

void RangeMirror::ReadLater() {
  executor_->PostAfter(kAgain, [this] {
    watch_ = nullptr;
    Start();
  });
}

void RangeMirror::Watch(CommitSeq seq) {
  watch_ = client_.OpenWatch({.cf = cf_, .begin = range_.begin, .end = range_.end, .from_seq = seq},
                             /*excluding_own=*/false, executor_,
                             {.on_batch = [this](const WatchBatch& batch) { OnBatch(batch); },
                              .on_lagged = [this](const absl::Status&) { ReadLater(); }});
}

void RangeMirror::OnBatch(const WatchBatch& batch) {
  for (const WatchedMutation& mutation : batch.mutations) {
    switch (mutation.kind) {
      case Mutation::Kind::kPut:
      case Mutation::Kind::kPutStamped:
        if (mutation.value_omitted) return ReadLater();
        rows_[mutation.key] = mutation.value;
        break;
      case Mutation::Kind::kDelete:
        rows_.erase(mutation.key);
        break;
      case Mutation::Kind::kDeleteRange:
        rows_.erase(rows_.lower_bound(mutation.key), rows_.lower_bound(mutation.value));
        break;
    }
  }
  on_change_(rows_);
}

}  // namespace escapement::kv
