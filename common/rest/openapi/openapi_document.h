// OpenApiDocument: the REST door of services as OpenAPI 3.1, made from their descriptors and the
// comments of their protos.
//
// Paths are those of RouteTable. A '*' of a path becomes a parameter named like the segment before
// it: "/v1/{name=tenants/*/schedules/*}:pause" is
// "/v1/tenants/{tenant}/schedules/{schedule}:pause". The same input gives the same bytes.
//
// Pure.

#ifndef COMMON_REST_OPENAPI_OPENAPI_DOCUMENT_H_
#define COMMON_REST_OPENAPI_OPENAPI_DOCUMENT_H_

#include <google/protobuf/descriptor.pb.h>

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace escapement::rest {

struct OpenApiInfo {
  std::string title;
  std::string version;
  std::string description;
  // By the full name of a streaming RPC with an annotation: the message that is one line.
  std::map<std::string, std::string> line_messages = {};
};

// The JSON text. `files` come after those that they import and have source info
// (protoc --include_imports --include_source_info). `services` have full names; tags and paths
// follow their order.
// INVALID_ARGUMENT: RouteTable refuses the services; a file does not build; a body that is no
// message; a field that can be given only in the query, which cannot hold it; a streaming RPC with
// an annotation and no line message.
absl::StatusOr<std::string> OpenApiDocument(const google::protobuf::FileDescriptorSet& files,
                                            const std::vector<std::string>& services,
                                            const OpenApiInfo& info);

}  // namespace escapement::rest

#endif  // COMMON_REST_OPENAPI_OPENAPI_DOCUMENT_H_
