// Requests for every public RPC, for tests of who may call it. A test that walks them must check
// that it knows each of PublicMethods().
//
// In the texts "TENANT" stands for a tenant's id.

#ifndef TESTS_DOORS_ACCESS_REQUESTS_H_
#define TESTS_DOORS_ACCESS_REQUESTS_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace escapement::doors {

// The methods of all PublicServices().
std::vector<const google::protobuf::MethodDescriptor*> PublicMethods();

// A request that changes nothing, and what it is answered if the caller may make it. "TENANT"
// stands for a tenant's id.
struct Probe {
  std::string request;  // text format
  absl::StatusCode code = absl::StatusCode::kOk;
};

// By the RPC's name.
const std::map<std::string, Probe>& Probes();

// A request that has an effect, and another one with the same request_id. "ID" is the
// request_id, "RUN" the occurrence of a run of schedule "s".
struct Repeated {
  std::string request;
  std::string other;
};

// By the RPC's name: of each RPC with a request_id. They need schedules "s" and "s2", policies "p"
// and "q", calendars and subscriptions "k" and "l", events "e" and "f", and a suspended tenant
// "gone-TENANT". ID, RUN, LETTER and OPERATION stand for the request_id, an occurrence, and the
// full names of a dead letter and an operation.
const std::map<std::string, Repeated>& RepeatedRequests();

// A time an hour from now, in seconds since 1970.
std::string SoonSeconds();

// The text as a request of the method.
std::unique_ptr<google::protobuf::Message> ReadRequestText(
    const google::protobuf::MethodDescriptor& method, const std::string& tenant,
    const std::string& text);

}  // namespace escapement::doors

#endif  // TESTS_DOORS_ACCESS_REQUESTS_H_
