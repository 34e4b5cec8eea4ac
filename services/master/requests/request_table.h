// The `requests` column family: what was answered to a request_id, so that a repeated request has
// the same answer and no second effect. The answer is written in the group that has the effect,
// under the condition that there was none.

#ifndef SERVICES_MASTER_REQUESTS_REQUEST_TABLE_H_
#define SERVICES_MASTER_REQUESTS_REQUEST_TABLE_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/uid.h"
#include "common/kv/kv_store.h"
#include "google/protobuf/message_lite.h"

namespace escapement::master {

// One request with a request_id; without one all methods do nothing.
class RequestMark {
 public:
  // `method` is the RPC's name.
  RequestMark(absl::string_view tenant, absl::string_view method, absl::string_view request_id,
              const google::protobuf::MessageLite& request);

  bool active() const { return !key_.empty(); }
  kv::Key key() const { return {kv::ColumnFamily::kRequests, key_}; }

  // Copies the remembered answer of this request_id into `response`. True if there is one.
  // INVALID_ARGUMENT if the request_id belongs to another request, DATA_LOSS if the answer cannot
  // be read.
  absl::StatusOr<bool> Replay(const std::optional<std::string>& row,
                              google::protobuf::MessageLite* response) const;

  // Adds the row and the condition that it is absent.
  void AddTo(const google::protobuf::MessageLite& response, absl::Time now, kv::Group& group) const;

 private:
  std::string key_;
  std::string method_;
  Uid request_hash_;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_REQUESTS_REQUEST_TABLE_H_
