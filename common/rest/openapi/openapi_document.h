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

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/rest/openapi/json_schema.h"
#include "common/rest/path_template.h"
#include "common/rest/route_table.h"

namespace escapement::rest {

struct OpenApiInfo {
  std::string title;
  std::string version;
  std::string description;
  // By the full name of a streaming RPC with an annotation: the message that is one line.
  std::map<std::string, std::string> line_messages = {};
  // Examples: [{"operation": "createThing", "parameters": {"thingId": "one"}, "body": {…}}, …], at
  // most one for each operation id. The body of a streaming RPC is a line. One without an operation
  // has values of path parameters for all operations.
  Json examples = Json::array();
};

// The JSON text. `files` come after those that they import and have source info
// (protoc --include_imports --include_source_info). `services` have full names; tags and paths
// follow their order.
// INVALID_ARGUMENT: RouteTable refuses the services; a file does not build; a body that is no
// message; a field that can be given only in the query, which cannot hold it; a streaming RPC with
// an annotation and no line message. Also: examples that are no list, or an example of no
// operation, body or parameter.
absl::StatusOr<std::string> OpenApiDocument(const google::protobuf::FileDescriptorSet& files,
                                            const std::vector<std::string>& services,
                                            const OpenApiInfo& info);

// One route of the REST door as an OpenAPI operation.
//
// Pure.

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

// The comments of proto declarations as prose for readers of the API.
//
// Pure.

// A comment without the line breaks of the proto file. Paragraphs are separated by an empty line;
// list items ("- item") keep lines of their own.
std::string CommentText(absl::string_view comment);

// The comment above a declaration, "" if it has none or the descriptors have no comments.
template <typename Descriptor>
std::string CommentOf(const Descriptor* declaration) {
  google::protobuf::SourceLocation location;
  return declaration->GetSourceLocation(&location) ? CommentText(location.leading_comments)
                                                   : std::string();
}

// The comment above a field. "As in Schedule." at its beginning is replaced by the comment of the
// field with the same name in that message of the same package.
std::string FieldComment(const google::protobuf::FieldDescriptor* field);

// Whether the text of a field has the sentence "Required." Our protos mark fields so.
bool SaysRequired(absl::string_view text);
// Whether the text of a field begins with "Output only".
bool SaysOutputOnly(absl::string_view text);

}  // namespace escapement::rest

#endif  // COMMON_REST_OPENAPI_OPENAPI_DOCUMENT_H_
