// JsonSchemas: proto messages as JSON Schema (2020-12), by the proto3 JSON mapping with
// lowerCamelCase names.
//
//   - Messages and enums become components, named without the package of the services
//     ("Schedule.State"). google.protobuf types are written in place.
//   - The server refuses unknown fields of requests, and answers may get further fields. So
//     additionalProperties is false in messages that only requests have. A message of both is open,
//     and a body of that type refuses unknown fields by unevaluatedProperties, at its own level.
//   - A message that is the whole body of a request has no fields that the path gives.
//   - Fields with the comment "Required." are required in whole bodies and, if each answer has them
//     (json_bytes.h), in messages of answers; not in those of a PATCH.
//   - Enums have no value ..._UNSPECIFIED: answers leave it out, and requests can.
//   - Bytes that clients give are also there as text and as JSON (strict_json.h).
//
// One thread.

#ifndef COMMON_REST_OPENAPI_JSON_SCHEMA_H_
#define COMMON_REST_OPENAPI_JSON_SCHEMA_H_

#include <google/protobuf/descriptor.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/rest/route_table.h"
#include "nlohmann/json.hpp"

namespace escapement::rest {

// Keeps fields in the order of the protos.
using Json = nlohmann::ordered_json;

class JsonSchemas {
 public:
  // `routes` say which messages are bodies and answers. They must outlive this object.
  explicit JsonSchemas(const std::vector<RestRoute>& routes);

  // The schema of a field's value, without its comment. It may refer to components.
  Json OfField(const google::protobuf::FieldDescriptor* field);
  // The schema of a message.
  Json OfMessage(const google::protobuf::Descriptor* message);
  // The schema of the body of a request; `route` has a body.
  Json OfBody(const RestRoute& route);
  // Whether a request without a body would lack a required field.
  bool BodyIsRequired(const RestRoute& route) const;

  // All components that the calls above referred to, with all that these refer to; by name.
  const std::map<std::string, Json>& components() const { return components_; }

 private:
  using Message = google::protobuf::Descriptor;
  using Field = google::protobuf::FieldDescriptor;

  std::string ComponentName(absl::string_view full_name) const;
  Json Reference(const std::string& name) const;
  Json OfValue(const Field* field);
  Json OfEnum(const google::protobuf::EnumDescriptor* type);
  // The component of a message that is no google.protobuf type.
  Json Component(const Message* message);
  // Whether a field of a component is required.
  bool IsRequired(const Field* field) const;
  // Whether a field belongs to the body that is its whole message.
  bool IsInBody(const Field* field) const;

  std::string package_prefix_;  // "escapement.v1."; component names are without it
  std::set<const Message*> in_answers_;
  std::set<const Message*> patches_;  // bodies of PATCH: all of their fields are optional
  // Messages that are the whole body of a request and nothing else, with the fields of the path.
  std::map<const Message*, std::set<const Field*>> whole_bodies_;
  std::map<std::string, Json> components_;
};

// A comment with a schema; nothing if it is empty.
void Describe(Json& schema, const std::string& text);

}  // namespace escapement::rest

#endif  // COMMON_REST_OPENAPI_JSON_SCHEMA_H_
