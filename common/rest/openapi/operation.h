// One route of the REST door as an OpenAPI operation.
//
// Pure.

#ifndef COMMON_REST_OPENAPI_OPERATION_H_
#define COMMON_REST_OPENAPI_OPERATION_H_

#include <google/protobuf/descriptor.h>

#include <string>

#include "absl/status/statusor.h"
#include "common/rest/openapi/json_schema.h"
#include "common/rest/path_template.h"
#include "common/rest/route_table.h"

namespace escapement::rest {

// "/v1/tenants/{tenant}/schedules/{schedule}:pause".
std::string OpenApiPath(const PathTemplate& path);

// "Schedule" for ScheduleService.
std::string TagOf(const google::protobuf::ServiceDescriptor* service);

// The operation; schemas that it refers to are added to `schemas`. It also refers to
// "#/components/responses/Error".
// INVALID_ARGUMENT: a body that is no message; a field that the query cannot hold.
absl::StatusOr<Json> OperationOf(const RestRoute& route, JsonSchemas& schemas);

// The operation of a streaming RPC as newline-delimited JSON. Each line of the body is a `line`.
Json LineOperationOf(const RestRoute& route, const google::protobuf::Descriptor& line,
                     JsonSchemas& schemas);

}  // namespace escapement::rest

#endif  // COMMON_REST_OPENAPI_OPERATION_H_
