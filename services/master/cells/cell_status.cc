#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/key_codec.h"
#include "common/base/proto_time.h"
#include "common/statistics/minute_sums.h"
#include "common/storage/children_table.h"
#include "common/storage/statistics_table.h"
#include "escapement/storage/v1/statistics_records.pb.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"
#include "services/master/cells/cell_service.h"

namespace escapement::master {
namespace {

constexpr uint32_t kQueueRowsAtOnce = 10'000;
constexpr int64_t kHourMicros = 60 * kMinuteMicros;
// After this time all processes have written what they counted in a minute.
constexpr absl::Duration kCountedAfter = absl::Seconds(15);  // more than kStatisticsEvery

class StatusReading : public std::enable_shared_from_this<StatusReading> {
 public:
  using Done = absl::AnyInvocable<void(absl::StatusOr<v1::CellStatus>)>;

  StatusReading(ReachedCell cell, Done done)
      : context_(*cell.context),
        admin_(cell.admin),
        tenants_(std::move(cell.tenants)),
        done_(std::move(done)) {}

  void Start() {
    if (admin_ == nullptr) return ReadCheckpoints();
    // The answer may come when the service has gone; then its executor drops the rest.
    admin_->GetStatus([self = shared_from_this(),
                       executor = context_.executor](absl::StatusOr<v1::StoreStatus> status) {
      if (status.ok()) *self->answer_.mutable_store() = *std::move(status);
      executor->Post([self] { self->ReadCheckpoints(); });
    });
  }

 private:
  void ReadCheckpoints() {
    std::vector<kv::Key> keys;
    for (uint32_t partition = 0; partition < context_.layout.partitions; ++partition) {
      keys.push_back(
          {kv::ColumnFamily::kCheckpoints, EmittedToKey(static_cast<uint16_t>(partition))});
    }
    context_.client.MultiGet(std::move(keys), context_.executor,
                             [self = shared_from_this()](absl::StatusOr<kv::GetResult> result) {
                               if (!result.ok()) return self->done_(StoreFailed(result.status()));
                               self->OnCheckpoints(*result);
                             });
  }

  void OnCheckpoints(const kv::GetResult& result) {
    absl::Duration behind = -absl::InfiniteDuration();
    for (const std::optional<std::string>& emitted_to : result.values) {
      if (emitted_to.has_value())
        behind = std::max(behind, result.store_time - DecodeCheckpoint(*emitted_to));
    }
    if (behind > -absl::InfiniteDuration())
      SetDuration(absl::ToInt64Microseconds(behind), *answer_.mutable_emission_behind());
    minute_ = ToMicros(result.store_time - kCountedAfter) / kMinuteMicros - 1;
    CountQueue("");
  }

  void CountQueue(std::string begin) {
    kv::ScanRequest scan;
    scan.cf = kv::ColumnFamily::kEvents;
    scan.begin = std::move(begin);
    scan.limit = kQueueRowsAtOnce;
    scan.keys_only = true;
    context_.client.Scan(
        std::move(scan), context_.executor,
        [self = shared_from_this()](absl::StatusOr<kv::ScanResult> page) {
          if (!page.ok()) return self->done_(StoreFailed(page.status()));
          const auto rows = static_cast<int64_t>(page->entries.size());
          self->answer_.set_queued_count(
              std::min(self->answer_.queued_count() + rows, kCountRowsMax));
          if (!page->more || rows == 0 || self->answer_.queued_count() == kCountRowsMax)
            return self->AddNextTenant();
          self->CountQueue(KeyAfter(page->entries.back().key));
        });
  }

  void AddNextTenant() {
    if (tenants_.empty()) return Answer();
    const std::string subject = TenantStatistics(tenants_.back());
    tenants_.pop_back();
    const auto hour = static_cast<uint32_t>(minute_ * kMinuteMicros / kHourMicros);
    kv::ScanRequest scan;
    scan.cf = kv::ColumnFamily::kPolicies;
    scan.begin = StatisticsKeyFrom(subject, hour);
    scan.end = StatisticsKeyFrom(subject, hour + 1);
    scan.limit = kQueueRowsAtOnce;
    context_.client.Scan(std::move(scan), context_.executor,
                         [self = shared_from_this()](absl::StatusOr<kv::ScanResult> rows) {
                           if (!rows.ok()) return self->done_(StoreFailed(rows.status()));
                           self->Add(*rows);
                           self->AddNextTenant();
                         });
  }

  void Add(const kv::ScanResult& rows) {
    for (const kv::Entry& row : rows.entries) {
      storage::v1::StatisticsRecord record;
      if (!record.ParseFromString(row.value)) continue;
      for (const storage::v1::MinuteRecord& minute : record.minutes())
        if (minute.minute() == minute_ % 60) sums_.Add(SumsOf(minute));
    }
  }

  void Answer() {
    SetTimestamp(minute_ * kMinuteMicros, *answer_.mutable_minute());
    answer_.set_ended_per_second(
        static_cast<double>(sums_.succeeded + sums_.failed + sums_.others) / 60);
    answer_.set_late_count(static_cast<int64_t>(sums_.late));
    SetDuration(sums_.lateness_max_micros, *answer_.mutable_lateness_max());
    done_(std::move(answer_));
  }

  MasterContext& context_;
  kv::StoreAdmin* const admin_;
  std::vector<std::string> tenants_;  // those whose sums are not added yet
  Done done_;
  v1::CellStatus answer_;
  int64_t minute_ = 0;  // since 1970
  StatisticsSums sums_;
};

}  // namespace

void ReadCellStatus(ReachedCell cell,
                    absl::AnyInvocable<void(absl::StatusOr<v1::CellStatus>)> done) {
  std::make_shared<StatusReading>(std::move(cell), std::move(done))->Start();
}

}  // namespace escapement::master
