// Requests for every unary RPC, and the codes of their answers to an admin of all tenants.

#ifndef TESTS_DOORS_DOOR_CASES_H_
#define TESTS_DOORS_DOOR_CASES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

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

}  // namespace escapement::doors

#endif  // TESTS_DOORS_DOOR_CASES_H_
