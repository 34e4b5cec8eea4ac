#include "services/master/tenants/row_counter.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "common/base/key_codec.h"
#include "common/storage/event_table.h"
#include "common/storage/policy_table.h"
#include "common/storage/schedule_table.h"
#include "escapement/storage/v1/records.pb.h"
#include "google/protobuf/io/coded_stream.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"

namespace escapement::master {
namespace {

using kv::ColumnFamily;

// Small, so that other calls have their turn between two pages.
constexpr uint32_t kPageRows = 2'000;
constexpr uint32_t kPageBytes = 1 << 20;

// True if the EventRecord in `bytes` has this tenant. Reads no further than its first field, which
// is the tenant.
bool IsOfTenant(absl::string_view bytes, absl::string_view tenant) {
  google::protobuf::io::CodedInputStream in(reinterpret_cast<const uint8_t*>(bytes.data()),
                                            static_cast<int>(bytes.size()));
  // A length-delimited field; protobuf.dev, "Encoding".
  constexpr uint32_t kTenantTag = storage::v1::EventRecord::kTenantFieldNumber << 3 | 2;
  uint32_t size = 0;
  return in.ReadTag() == kTenantTag && in.ReadVarint32(&size) && size == tenant.size() &&
         absl::StartsWith(bytes.substr(static_cast<size_t>(in.CurrentPosition())), tenant);
}

class Counting : public std::enable_shared_from_this<Counting> {
 public:
  using Done = absl::AnyInvocable<void(absl::StatusOr<int64_t>)>;

  Counting(MasterContext& context, CountedRows which, std::string tenant, int64_t count_max,
           Done done)
      : context_(context),
        which_(which),
        tenant_(std::move(tenant)),
        count_max_(count_max),
        done_(std::move(done)) {
    scan_.limit = kPageRows;
    scan_.bytes_max = kPageBytes;
    switch (which_) {
      case CountedRows::kSchedules:
        scan_.cf = ColumnFamily::kSchedules;
        scan_.begin = SchedulePrefix(tenant_);
        scan_.end = PrefixEnd(scan_.begin);
        scan_.keys_only = true;
        break;
      case CountedRows::kPolicies:
        scan_.cf = ColumnFamily::kPolicies;
        scan_.begin = PolicyPrefix(tenant_);
        scan_.end = PrefixEnd(scan_.begin);
        scan_.keys_only = true;
        break;
      case CountedRows::kPendingEvents:  // the keys do not have the tenant
        scan_.cf = ColumnFamily::kEvents;
        break;
    }
  }

  void Read() {
    context_.client.Scan(scan_, context_.executor,
                         [self = shared_from_this()](absl::StatusOr<kv::ScanResult> page) {
                           if (!page.ok()) return self->done_(StoreFailed(page.status()));
                           self->OnPage(*page);
                         });
  }

 private:
  void OnPage(const kv::ScanResult& page) {
    rows_ += static_cast<int64_t>(page.entries.size());
    if (which_ == CountedRows::kPendingEvents) {
      for (const kv::Entry& entry : page.entries) count_ += IsPendingEvent(entry);
    } else {
      count_ = rows_;
    }
    if (!page.more || page.entries.empty() || count_ >= count_max_ || rows_ >= kCountRowsMax)
      return done_(std::min(count_, count_max_));
    scan_.begin = KeyAfter(page.entries.back().key);
    Read();
  }

  // Rows of schedules have an occurrence.
  bool IsPendingEvent(const kv::Entry& entry) const {
    const auto key = DecodeEventKey(entry.key);
    return key.has_value() && key->occurrence.empty() && IsOfTenant(entry.value, tenant_);
  }

  MasterContext& context_;
  const CountedRows which_;
  const std::string tenant_;
  const int64_t count_max_;
  Done done_;
  kv::ScanRequest scan_;
  int64_t rows_ = 0;
  int64_t count_ = 0;
};

}  // namespace

void CountRows(MasterContext& context, CountedRows which, const std::string& tenant,
               int64_t count_max, absl::AnyInvocable<void(absl::StatusOr<int64_t>)> done) {
  std::make_shared<Counting>(context, which, tenant, count_max, std::move(done))->Read();
}

}  // namespace escapement::master
