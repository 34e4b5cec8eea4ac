#include "services/master/audit/audit_filter.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/micros.h"
#include "common/base/proto_time.h"
#include "services/master/requests/filter_values.h"

namespace escapement::master {
namespace {

// Null: no such field.
const std::string* TextOf(const v1::AuditEntry& entry, absl::string_view field) {
  if (field == "principal") return &entry.principal();
  if (field == "method") return &entry.method();
  if (field == "resource") return &entry.resource();
  if (field == "result") return &entry.result();
  return nullptr;
}

absl::Status Bind(FilterComparison& comparison) {
  if (comparison.field == "time") return BindTime(comparison);
  if (TextOf(v1::AuditEntry::default_instance(), comparison.field) == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "unknown field ", comparison.field, "; use principal, method, resource, result or time"));
  }
  return RequireEquality(comparison);
}

bool Holds(const v1::AuditEntry& entry, const FilterComparison& comparison) {
  if (comparison.field == "time") {
    const absl::Time time = FromMicros(*TimestampMicros(entry.time()));
    return Compares(OrderOf(time, comparison.time), comparison.op);
  }
  const bool same = NameMatches(*TextOf(entry, comparison.field), comparison.value);
  return same == (comparison.op != FilterOperator::kNotEqual);
}

}  // namespace

absl::StatusOr<AuditFilter> AuditFilter::Read(absl::string_view text) {
  absl::StatusOr<Filter> filter = ReadFilter(text, Bind);
  if (!filter.ok()) return filter.status();
  AuditFilter read;
  read.times_ = FilterTimesOf(*filter, "time");
  read.filter_ = *std::move(filter);
  return read;
}

bool AuditFilter::Matches(const v1::AuditEntry& entry) const {
  return FilterHolds(filter_,
                     [&](const FilterComparison& comparison) { return Holds(entry, comparison); });
}

}  // namespace escapement::master
