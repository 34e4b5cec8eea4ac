#include "services/handler/claims/held_rows.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/records/retry_end.h"

namespace escapement::handler {
namespace {

constexpr uint64_t kEventsMax = 1000;
constexpr char kHeldTooLong[] = "not sent: the target was down for longer than max_age";

}  // namespace

bool IsHeldTooLong(const ResolvedRow& row, absl::Duration down_for, absl::Time now) {
  const storage::v1::RetryRecord& retry =
      CheckNotNull(row.entry.context)->definition->delivery().retry();
  const absl::Time held_since = std::max(row.entry.key.due_time, now - down_for);
  return now >=
         TriedSince(row.entry.event, held_since) + absl::Microseconds(retry.max_age_micros());
}

RowEnd EndOfHeldRow(ResolvedRow& row) {
  const std::string& last_error = row.entry.event.last_error();
  RowEnd end{.payload = std::move(row.payload), .kind = EndKind::kFailed};
  end.reason = last_error.empty() ? kHeldTooLong : absl::StrCat(last_error, "; ", kHeldTooLong);
  end.entry = std::move(row.entry);
  const uint64_t count = std::min(end.entry.event.count(), kEventsMax);
  end.rest = end.entry.event.count() - count;
  end.entry.event.set_count(count);
  return end;
}

}  // namespace escapement::handler
