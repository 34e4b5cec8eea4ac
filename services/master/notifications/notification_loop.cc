#include "services/master/notifications/notification_loop.h"

#include <algorithm>
#include <utility>

#include "common/base/key_codec.h"
#include "common/base/log.h"
#include "common/storage/schedule_table.h"
#include "services/master/base/limits.h"

namespace escapement::master {

void NotificationLoop::Rest() {
  world_.context.executor->PostAfter(every_, [this] { Read(SubscriptionPrefix()); });
}

void NotificationLoop::Read(std::string begin) {
  kv::ScanRequest scan;
  scan.cf = kv::ColumnFamily::kPolicies;
  scan.begin = std::move(begin);
  scan.end = PrefixEnd(SubscriptionPrefix());
  scan.limit = kSubscriptionsAtOnce;
  world_.context.client.Scan(std::move(scan), world_.context.executor,
                             [this](absl::StatusOr<kv::ScanResult> rows) {
                               if (!rows.ok()) return Rest();
                               rest_ = rows->more ? KeyAfter(rows->entries.back().key) : "";
                               for (kv::Entry& row : rows->entries) rows_.push_back(std::move(row));
                               CheckNext();
                             });
}

void NotificationLoop::CheckNext() {
  if (rows_.empty()) return rest_.empty() ? Rest() : Read(std::move(rest_));
  kv::Entry row = std::move(rows_.front());
  rows_.pop_front();
  const absl::Duration begin = world_.context.runtime.clock().Elapsed();
  check_ = CheckSubscription(world_, std::move(row), [this, begin](const absl::Status& status) {
    if (!status.ok()) {
      Log(LogLevel::kWarning, "master.notifications", "a subscription could not be checked",
          {{"error", status.ToString()}});
    }
    const absl::Duration taken = world_.context.runtime.clock().Elapsed() - begin;
    world_.context.executor->PostAfter(std::min(taken * kNotifyShare, kNotifyPauseMax), [this] {
      check_ = nullptr;
      CheckNext();
    });
  });
}

}  // namespace escapement::master
