#include "services/master/requests/request_table.h"

#include "common/base/micros.h"
#include "common/base/stable_hash.h"
#include "common/storage/name_tables.h"
#include "common/storage/one_off_rows.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/master/errors.h"

namespace escapement::master {

RequestMark::RequestMark(absl::string_view tenant, absl::string_view method,
                         absl::string_view request_id, const google::protobuf::MessageLite& request)
    : method_(method) {
  if (request_id.empty()) return;
  key_ = RequestKey(tenant, request_id);
  request_hash_ = StableHash128(SerializeDeterministically(request));
}

absl::StatusOr<bool> RequestMark::Replay(const std::optional<std::string>& row,
                                         google::protobuf::MessageLite* response) const {
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

void RequestMark::AddTo(const google::protobuf::MessageLite& response, absl::Time now,
                        kv::Group& group) const {
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
