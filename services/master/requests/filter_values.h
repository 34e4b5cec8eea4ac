// Values in the filters of lists that several resources have in common: names and kinds of targets.
//
// Pure.

#ifndef SERVICES_MASTER_REQUESTS_FILTER_VALUES_H_
#define SERVICES_MASTER_REQUESTS_FILTER_VALUES_H_

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/filter/filter.h"
#include "escapement/v1/resources.pb.h"

namespace escapement::master {

// Parses the text and binds its comparisons. INVALID_ARGUMENT (filter).
absl::StatusOr<Filter> ReadFilter(absl::string_view text,
                                  absl::FunctionRef<absl::Status(FilterComparison&)> bind);

// A value without '/' is the id of a resource in the tenant's collection; others are full names.
std::string FullNameOf(absl::string_view tenant, absl::string_view collection,
                       absl::string_view value);
// A value that ends with '*' matches all names that begin so.
bool NameMatches(absl::string_view name, absl::string_view value);
// The longest prefix that the id of every match has, in a filter whose values of `name` are full
// names. Empty: any id may match.
std::string IdPrefixOf(const Filter& filter, absl::string_view tenant,
                       absl::string_view collection);

// "http" or "grpc"; empty if the target is unset.
absl::string_view TargetKind(const v1::Target& target);
// Accepts = and != with the kind of a target.
absl::Status BindTargetKind(const FilterComparison& comparison);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_REQUESTS_FILTER_VALUES_H_
