#include "services/master/requests/request_table.h"

#include <utility>

#include "common/auth/audit_log.h"
#include "common/base/micros.h"
#include "common/base/stable_bytes.h"
#include "common/base/stable_hash.h"
#include "common/storage/name_tables.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/master/base/errors.h"

namespace escapement::master {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// The text of a field; "" if the message has no such text.
std::string TextOf(const Message& message, const char* name) {
  const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(name);
  if (field == nullptr || field->cpp_type() != FieldDescriptor::CPPTYPE_STRING) return {};
  return message.GetReflection()->GetString(message, field);
}

uint64_t VersionOf(const Message& message) {
  const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName("version");
  if (field == nullptr || field->cpp_type() != FieldDescriptor::CPPTYPE_INT64) return 0;
  return static_cast<uint64_t>(message.GetReflection()->GetInt64(message, field));
}

}  // namespace

RequestMark::RequestMark(absl::string_view tenant, absl::string_view method,
                         absl::string_view request_id, const Message& request, const Caller& caller)
    : tenant_(tenant), method_(method) {
  // The answer may know the resource better, for example its id if the server makes it.
  std::string resource = TextOf(request, "name");
  if (resource.empty()) resource = TextOf(request, "parent");
  audit_ = auth::AuditRecordOf(caller, method, resource, request_id);
  if (request_id.empty()) return;
  key_ = RequestKey(tenant, request_id);
  request_hash_ = StableHash128(SerializeDeterministically(request));
}

absl::StatusOr<bool> RequestMark::Replay(const std::optional<std::string>& row,
                                         Message* response) const {
  if (!active() || !row.has_value()) return false;
  storage::v1::RequestRecord record;
  if (!record.ParseFromString(*row)) return BrokenRecord("a request's answer");
  if (record.method() != method_ ||
      absl::string_view(record.request_hash()) != request_hash_.bytes()) {
    return RequestIdReused();
  }
  if (!response->ParseFromString(record.response())) return BrokenRecord("a request's answer");
  return true;
}

void RequestMark::AddTo(const Message& response, absl::Time now, uint64_t version_before,
                        kv::Group& group, uint64_t nonce) const {
  if (method_.empty()) return;
  storage::v1::AuditRecord audit = audit_;
  if (std::string resource = TextOf(response, "name"); !resource.empty())
    audit.set_resource(std::move(resource));
  audit.set_version_before(version_before);
  audit.set_version_after(VersionOf(response));
  auth::AddAuditRow(tenant_, std::move(audit), now, nonce, group);
  if (!active()) return;
  storage::v1::RequestRecord record;
  record.set_method(method_);
  record.set_request_hash(std::string(request_hash_.bytes()));
  record.set_response(response.SerializeAsString());
  record.set_time_micros(ToMicros(now));
  group.conditions.push_back(
      {.cf = kv::ColumnFamily::kRequests, .key = key_, .kind = kv::Condition::Kind::kAbsent});
  group.mutations.push_back(
      {.cf = kv::ColumnFamily::kRequests, .key = key_, .value = record.SerializeAsString()});
}

}  // namespace escapement::master
