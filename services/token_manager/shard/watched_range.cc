#include "services/token_manager/shard/watched_range.h"

#include <utility>

namespace escapement::token_manager {
namespace {

constexpr absl::Duration kAgain = absl::Milliseconds(100);

}  // namespace

WatchedRange::WatchedRange(kv::KvClient& client, std::shared_ptr<Executor> executor,
                           bool excluding_own, Callbacks callbacks)
    : client_(client),
      executor_(std::move(executor)),
      excluding_own_(excluding_own),
      callbacks_(std::move(callbacks)) {}

void WatchedRange::Start(kv::ScanRequest range) {
  range_ = std::move(range);
  alive_ = std::make_shared<int>();
  watch_.reset();
  client_.Scan(
      range_, executor_,
      [this, alive = std::weak_ptr<int>(alive_)](const absl::StatusOr<kv::ScanResult>& read) {
        if (alive.expired()) return;
        if (!read.ok()) return Again();
        OpenWatch(read->seq);
        callbacks_.on_open(*read);
      });
}

void WatchedRange::OpenWatch(kv::CommitSeq from) {
  watch_ = client_.OpenWatch(
      {.cf = range_.cf, .begin = range_.begin, .end = range_.end, .from_seq = from}, excluding_own_,
      executor_,
      {.on_batch =
           [this, alive = std::weak_ptr<int>(alive_)](const kv::WatchBatch& batch) {
             if (!alive.expired()) callbacks_.on_batch(batch);
           },
       .on_lagged =
           [this, alive = std::weak_ptr<int>(alive_)](const absl::Status&) {
             if (alive.expired()) return;
             callbacks_.on_lagged != nullptr ? callbacks_.on_lagged() : Again();
           }});
}

void WatchedRange::Again() {
  executor_->PostAfter(kAgain, [this, alive = std::weak_ptr<int>(alive_)] {
    if (!alive.expired()) Start(range_);
  });
}

}  // namespace escapement::token_manager
