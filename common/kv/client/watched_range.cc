#include "common/kv/client/watched_range.h"

#include <utility>

namespace escapement::kv {
namespace {

constexpr absl::Duration kStartAgain = absl::Milliseconds(100);

template <typename Then>
auto WhileAlive(const std::shared_ptr<int>& alive, Then then) {
  return [alive = std::weak_ptr<int>(alive), then = std::move(then)](const auto&... results) {
    if (!alive.expired()) then(results...);
  };
}

}  // namespace

WatchedRange::WatchedRange(KvClient& client, std::shared_ptr<Executor> executor, bool excluding_own,
                           Callbacks callbacks)
    : client_(client),
      executor_(std::move(executor)),
      excluding_own_(excluding_own),
      callbacks_(std::move(callbacks)) {}

void WatchedRange::Start(ScanRequest range) {
  range_ = std::move(range);
  alive_ = std::make_shared<int>();
  watch_.reset();
  client_.Scan(range_, executor_,
               WhileAlive(alive_, [this](const absl::StatusOr<ScanResult>& read) {
                 if (!read.ok()) return Again();
                 OpenWatch(read->seq);
                 callbacks_.on_open(*read);
               }));
}

void WatchedRange::OpenWatch(CommitSeq from) {
  watch_ = client_.OpenWatch(
      {.cf = range_.cf, .begin = range_.begin, .end = range_.end, .from_seq = from}, excluding_own_,
      executor_,
      {.on_batch = WhileAlive(alive_, callbacks_.on_batch),
       .on_lagged = WhileAlive(alive_, [this](const absl::Status&) {
         callbacks_.on_lagged != nullptr ? callbacks_.on_lagged() : Again();
       })});
}

void WatchedRange::Again() {
  executor_->PostAfter(kStartAgain, WhileAlive(alive_, [this] { Start(range_); }));
}

}  // namespace escapement::kv
