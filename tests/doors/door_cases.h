// Requests for every unary RPC, and the codes of their answers to an admin of all tenants.

#ifndef TESTS_DOORS_DOOR_CASES_H_
#define TESTS_DOORS_DOOR_CASES_H_

#include <google/protobuf/message.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/rest/route_table.h"
#include "nlohmann/json.hpp"
#include "tests/integration/probes.h"

namespace escapement::doors {

// '@' in a request stands for the door's own letter, so that each door has resources of its own.
// "$KEY" stands for the id of a key of its own in tenants/default.
struct DoorCase {
  std::string method;
  std::string request;  // text format
  absl::StatusCode code = absl::StatusCode::kOk;
};

// In this order: a case may use what an earlier one has made.
const std::vector<DoorCase>& DoorCases();

// RestCallOf: the HTTP request that means the same as a gRPC call, by the route of its method. This
// is the reverse of common/rest/request_reader.h, written apart from it.
//
// Pure.

// Path, query and body hold every field of the request that is set.
integration::HttpCall RestCallOf(const rest::RestRoute& route,
                                 const google::protobuf::Message& request);

// SchemaMismatch: whether a JSON value fits a schema of the OpenAPI document. It knows the keywords
// that the document uses, and refuses others.
//
// Pure.

// "" if `value` fits; otherwise the place and the reason: "$.schedules[0].state: not in the enum".
// A property that the schema does not name is a mismatch.
std::string SchemaMismatch(const nlohmann::json& document, const nlohmann::json& schema,
                           const nlohmann::json& value, const std::string& place = "$");

}  // namespace escapement::doors

#endif  // TESTS_DOORS_DOOR_CASES_H_
