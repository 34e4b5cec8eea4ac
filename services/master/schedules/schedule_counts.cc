#include "services/master/schedules/schedule_counts.h"

#include <cstddef>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "common/base/key_codec.h"
#include "common/storage/run_table.h"
#include "services/master/base/errors.h"

namespace escapement::master {
namespace {

using storage::v1::RunPartRecord;

class CountsRead : public std::enable_shared_from_this<CountsRead> {
 public:
  using Read = absl::AnyInvocable<void(absl::StatusOr<std::vector<RunPartRecord>>)>;
  CountsRead(MasterContext& context, size_t schedules, Read done)
      : context_(context), sums_(schedules), left_(schedules), done_(std::move(done)) {}

  void Start(const std::vector<Uid>& uids) {
    if (uids.empty()) return done_(std::move(sums_));
    for (size_t i = 0; i < uids.size(); ++i) {
      kv::ScanRequest scan;
      scan.cf = kv::ColumnFamily::kRunParts;
      scan.begin = ScheduleCountsPrefix(uids[i]);
      scan.end = PrefixEnd(scan.begin);
      scan.limit = context_.RunPartsMax();
      context_.client.Scan(std::move(scan), context_.executor,
                           [self = shared_from_this(), i](absl::StatusOr<kv::ScanResult> parts) {
                             self->OnParts(i, parts);
                           });
    }
  }

 private:
  void OnParts(size_t schedule, const absl::StatusOr<kv::ScanResult>& parts) {
    if (!parts.ok()) {
      status_.Update(StoreFailed(parts.status()));
    } else {
      for (const kv::Entry& entry : parts->entries) {
        RunPartRecord part;
        if (!part.ParseFromString(entry.value)) {
          status_.Update(BrokenRecord("the counts of a schedule"));
        } else {
          AddScheduleCounts(part, sums_[schedule]);
        }
      }
    }
    if (--left_ > 0) return;
    if (!status_.ok()) return done_(status_);
    done_(std::move(sums_));
  }

  MasterContext& context_;
  std::vector<RunPartRecord> sums_;
  size_t left_;  // schedules that are being read
  absl::Status status_;
  Read done_;
};

}  // namespace

void ReadScheduleCounts(MasterContext& context, const std::vector<Uid>& uids,
                        CountsRead::Read done) {
  std::make_shared<CountsRead>(context, uids.size(), std::move(done))->Start(uids);
}

}  // namespace escapement::master
