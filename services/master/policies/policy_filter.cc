#include "services/master/policies/policy_filter.h"

#include <cmath>
#include <cstdint>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/micros.h"
#include "common/base/proto_time.h"
#include "services/master/requests/filter_values.h"

namespace escapement::master {
namespace {

using v1::ThrottlePolicy;

bool IsWholeNumber(absl::string_view field) {
  return field == "max_concurrent" || field == "burst";
}
bool IsTime(absl::string_view field) { return field == "create_time" || field == "update_time"; }

absl::Status BindNumber(FilterComparison& comparison) {
  double rate = 0;
  const bool read = IsWholeNumber(comparison.field)
                        ? absl::SimpleAtoi(comparison.value, &comparison.number)
                        : absl::SimpleAtod(comparison.value, &rate) && std::isfinite(rate);
  if (!read || comparison.op == FilterOperator::kHas)
    return absl::InvalidArgumentError(
        absl::StrCat(comparison.field, " takes =, !=, <, <=, > or >= and a number"));
  return absl::OkStatus();
}

class Binder {
 public:
  explicit Binder(absl::string_view tenant) : tenant_(tenant) {}

  absl::Status operator()(FilterComparison& comparison) const {
    const std::string& field = comparison.field;
    const std::string& value = comparison.value;
    if (IsTime(field)) return BindTime(comparison);
    if (IsWholeNumber(field) || field == "max_per_second") return BindNumber(comparison);
    if (field == "display_name" && comparison.op == FilterOperator::kHas) return absl::OkStatus();
    if (field == "name") {
      comparison.value = FullNameOf(tenant_, "policies", value);
    } else if (field == "state") {
      ThrottlePolicy::State state;
      if (!ThrottlePolicy::State_Parse(value, &state) || state == ThrottlePolicy::STATE_UNSPECIFIED)
        return absl::InvalidArgumentError("state must be ENABLED or PAUSED");
      comparison.number = state;
    } else if (field == "on_expiry") {
      ThrottlePolicy::OnExpiry rule;
      if (!ThrottlePolicy::OnExpiry_Parse(value, &rule) ||
          rule == ThrottlePolicy::ON_EXPIRY_UNSPECIFIED)
        return absl::InvalidArgumentError("on_expiry must be RECLAIM or HOLD");
      comparison.number = rule;
    } else if (field == "fairness") {
      ThrottlePolicy::Fairness rule;
      if (!ThrottlePolicy::Fairness_Parse(value, &rule) ||
          rule == ThrottlePolicy::FAIRNESS_UNSPECIFIED)
        return absl::InvalidArgumentError("fairness must be BY_SCHEDULE or FIFO");
      comparison.number = rule;
    } else if (field != "display_name") {
      return absl::InvalidArgumentError(absl::StrCat(
          "unknown field ", field,
          "; use name, display_name, state, max_concurrent, max_per_second, burst, on_expiry, "
          "fairness, create_time or update_time"));
    }
    return RequireEquality(comparison);
  }

 private:
  const absl::string_view tenant_;
};

// A limit of 0 means that there is none: it is not below other limits.
template <typename T>
bool LimitHolds(T limit, T value, FilterOperator op) {
  return (limit != 0 || value == 0) && Compares(OrderOf(limit, value), op);
}

bool Holds(const ThrottlePolicy& policy, const FilterComparison& comparison) {
  const std::string& field = comparison.field;
  const auto equal = [&](bool same) {
    return same == (comparison.op != FilterOperator::kNotEqual);
  };
  if (IsTime(field)) {
    const auto& shown = field == "create_time" ? policy.create_time() : policy.update_time();
    return Compares(OrderOf(FromMicros(*TimestampMicros(shown)), comparison.time), comparison.op);
  }
  if (field == "max_concurrent")
    return LimitHolds<int64_t>(policy.max_concurrent(), comparison.number, comparison.op);
  if (field == "burst")
    return LimitHolds<int64_t>(policy.burst(), comparison.number, comparison.op);
  if (field == "max_per_second") {
    double rate = 0;
    return absl::SimpleAtod(comparison.value, &rate) &&
           LimitHolds(policy.max_per_second(), rate, comparison.op);
  }
  if (field == "name") return equal(NameMatches(policy.name(), comparison.value));
  if (field == "state") return equal(policy.state() == comparison.number);
  if (field == "on_expiry") return equal(policy.on_expiry() == comparison.number);
  if (field == "fairness") return equal(policy.fairness() == comparison.number);
  if (comparison.op == FilterOperator::kHas)
    return absl::StrContains(policy.display_name(), comparison.value);
  return equal(policy.display_name() == comparison.value);
}

}  // namespace

absl::StatusOr<PolicyFilter> PolicyFilter::Read(absl::string_view text, absl::string_view tenant) {
  absl::StatusOr<Filter> filter = ReadFilter(text, Binder(tenant));
  if (!filter.ok()) return filter.status();
  PolicyFilter read;
  read.id_prefix_ = IdPrefixOf(*filter, tenant, "policies");
  read.filter_ = *std::move(filter);
  return read;
}

bool PolicyFilter::Matches(const ThrottlePolicy& policy) const {
  return FilterHolds(filter_,
                     [&](const FilterComparison& comparison) { return Holds(policy, comparison); });
}

}  // namespace escapement::master
