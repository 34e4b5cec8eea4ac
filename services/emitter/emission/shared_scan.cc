#include "services/emitter/emission/shared_scan.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "common/base/check.h"
#include "common/runtime/perturb.h"

namespace escapement::emitter {

SharedScan::SharedScan(kv::KvClient& client, std::shared_ptr<Executor> executor, uint32_t rows_max)
    : client_(client), executor_(std::move(executor)), rows_max_(rows_max) {}

void SharedScan::Read(std::vector<kv::KeyRange> ranges, Done done) {
  CHECK(!ranges.empty());
  CHECK_LE(ranges.size(), kv::kScanRangesMax);
  if (stopped_) return;
  asked_.push_back({.ranges = std::move(ranges), .done = std::move(done)});
  SendSoon();
}

void SharedScan::Stop() {
  stopped_ = true;
  asked_.clear();
}

// What else is asked for in this turn of the executor goes with it.
void SharedScan::SendSoon() {
  if (std::exchange(posted_, true)) return;
  executor_->Post([self = shared_from_this()] { self->Send(); });
}

void SharedScan::Send() {
  posted_ = false;
  if (stopped_ || asked_.empty()) return;
  std::sort(asked_.begin(), asked_.end(), [](const Asked& a, const Asked& b) {
    return a.ranges.front().begin < b.ranges.front().begin;
  });
  std::vector<kv::KeyRange> ranges;
  auto last = asked_.begin();
  for (; last != asked_.end(); ++last) {
    if (ranges.size() + last->ranges.size() > kv::kScanRangesMax) break;
    ranges.insert(ranges.end(), last->ranges.begin(), last->ranges.end());
  }
  kv::ScanRequest request;
  request.cf = kv::ColumnFamily::kChildren;
  request.begin = ranges.front().begin;
  request.end = ranges.front().end;
  request.then.assign(ranges.begin() + 1, ranges.end());
  request.limit = Perturb(client_.runtime(), Site::kEmitterScanOfOne) ? 1 : rows_max_;
  std::vector<Asked> asked(std::make_move_iterator(asked_.begin()), std::make_move_iterator(last));
  asked_.erase(asked_.begin(), last);
  if (!asked_.empty()) SendSoon();
  client_.Scan(std::move(request), executor_,
               [self = shared_from_this(),
                asked = std::move(asked)](absl::StatusOr<kv::ScanResult> result) mutable {
                 self->OnRead(std::move(asked), std::move(result));
               });
}

void SharedScan::OnRead(std::vector<Asked> asked, absl::StatusOr<kv::ScanResult> result) {
  if (stopped_) return;
  if (result.ok() && result->more && result->entries.empty())
    result = absl::InternalError("a scan has returned nothing of what there is");
  if (!result.ok()) {
    for (Asked& one : asked) one.done(result.status());
    return;
  }
  const std::string read_to = result->more ? result->entries.back().key : std::string();
  auto entry = result->entries.begin();
  for (Asked& one : asked) {
    if (result->more && read_to < one.ranges.front().begin) {
      Read(std::move(one.ranges), std::move(one.done));
      continue;
    }
    const std::string& end = one.ranges.back().end;
    const auto begin = entry;
    while (entry != result->entries.end() && entry->key < end) ++entry;
    kv::ScanResult own;
    own.entries.assign(std::make_move_iterator(begin), std::make_move_iterator(entry));
    own.more = result->more && read_to < end;
    own.seq = result->seq;
    own.store_time = result->store_time;
    one.done(std::move(own));
    if (stopped_) return;
  }
}

}  // namespace escapement::emitter
