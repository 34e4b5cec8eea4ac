// SchemaMismatch: whether a JSON value fits a schema of the OpenAPI document. It knows the keywords
// that the document uses, and refuses others.
//
// Pure.

#ifndef TESTS_DOORS_SCHEMA_CHECK_H_
#define TESTS_DOORS_SCHEMA_CHECK_H_

#include <string>

#include "nlohmann/json.hpp"

namespace escapement::doors {

// "" if `value` fits; otherwise the place and the reason: "$.schedules[0].state: not in the enum".
// A property that the schema does not name is a mismatch.
std::string SchemaMismatch(const nlohmann::json& document, const nlohmann::json& schema,
                           const nlohmann::json& value, const std::string& place = "$");

}  // namespace escapement::doors

#endif  // TESTS_DOORS_SCHEMA_CHECK_H_
