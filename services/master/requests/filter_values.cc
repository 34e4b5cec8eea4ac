#include "services/master/requests/filter_values.h"

#include <google/protobuf/descriptor.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/status/errors.h"

namespace escapement::master {
namespace {

bool IsTargetKind(absl::string_view name) {
  const auto* kind = v1::Target::descriptor()->oneof_decl(0);
  for (int i = 0; i < kind->field_count(); ++i) {
    if (kind->field(i)->name() == name) return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<Filter> ReadFilter(absl::string_view text,
                                  absl::FunctionRef<absl::Status(FilterComparison&)> bind) {
  absl::StatusOr<Filter> filter = ParseFilter(text);
  if (!filter.ok()) return InvalidField("filter", filter.status().message());
  if (absl::Status status = BindComparisons(*filter, bind); !status.ok())
    return InvalidField("filter", status.message());
  return filter;
}

std::string FullNameOf(absl::string_view tenant, absl::string_view collection,
                       absl::string_view value) {
  if (absl::StrContains(value, '/')) return std::string(value);
  return absl::StrCat("tenants/", tenant, "/", collection, "/", value);
}

bool NameMatches(absl::string_view name, absl::string_view value) {
  return absl::ConsumeSuffix(&value, "*") ? absl::StartsWith(name, value) : name == value;
}

std::string IdPrefixOf(const Filter& filter, absl::string_view tenant,
                       absl::string_view collection) {
  const std::string begin = FullNameOf(tenant, collection, "");
  std::string prefix;
  ForEachNeeded(filter, [&](const FilterComparison& comparison) {
    absl::string_view value = comparison.value;
    if (comparison.field != "name" || comparison.op != FilterOperator::kEqual ||
        !absl::ConsumePrefix(&value, begin))
      return;
    absl::ConsumeSuffix(&value, "*");
    if (value.size() > prefix.size()) prefix = std::string(value);
  });
  return prefix;
}

absl::string_view TargetKind(const v1::Target& target) {
  const auto* kind = v1::Target::descriptor()->oneof_decl(0);
  const auto* field = target.GetReflection()->GetOneofFieldDescriptor(target, kind);
  return field == nullptr ? absl::string_view() : absl::string_view(field->name());
}

absl::Status BindTargetKind(const FilterComparison& comparison) {
  if (!IsTargetKind(comparison.value))
    return absl::InvalidArgumentError("target must be the kind of a target, such as http");
  return RequireEquality(comparison);
}

}  // namespace escapement::master
