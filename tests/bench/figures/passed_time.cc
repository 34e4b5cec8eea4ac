#include "tests/bench/figures/passed_time.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "common/kv/rocks/rocks_kv_store.h"
#include "common/runtime/system_runtime.h"

namespace escapement::bench {
namespace {

class LaterClock final : public Clock {
 public:
  LaterClock(Clock& clock, absl::Duration later) : clock_(clock), later_(later) {}
  absl::Duration Elapsed() const override { return clock_.Elapsed() + later_; }
  absl::Time WallNow() const override { return clock_.WallNow() + later_; }
  std::string BootId() const override { return clock_.BootId(); }

 private:
  Clock& clock_;
  const absl::Duration later_;
};

}  // namespace

absl::Status PassTime(const std::string& data_folder, absl::Duration time) {
  SystemRuntime runtime;
  LaterClock clock(runtime.clock(), time);
  kv::RocksKvStore::Options options;
  options.data_dir = data_folder;
  const auto store = kv::RocksKvStore::Open(std::move(options), clock);
  if (!store.ok()) return store.status();
  // Opening a session commits, and every commit stores the clock's time.
  struct Answer {
    absl::Notification given;
    absl::Status status;
  };
  const auto answer = std::make_shared<Answer>();
  (*store)->OpenSession(0, 0, [answer](absl::StatusOr<kv::SessionInfo> opened) {
    answer->status = opened.status();
    answer->given.Notify();
  });
  if (!answer->given.WaitForNotificationWithTimeout(absl::Seconds(30)))
    return absl::DeadlineExceededError("the store opened no session");
  if (!answer->status.ok()) return answer->status;
  const absl::Duration ahead = (*store)->info().store_time - runtime.clock().WallNow();
  if (ahead < time - absl::Seconds(2)) {
    return absl::InternalError(
        absl::StrCat("the store's time is only ", absl::FormatDuration(ahead), " further"));
  }
  return absl::OkStatus();
}

}  // namespace escapement::bench
