// The rows that a change writes about itself, in the group that has its effect: its entry in the
// audit and, if it has a request_id, its answer in the column family `requests`. So a
// repeated request gets the same answer and has no second effect: the group applies only if no
// answer is stored for its request_id yet.

#ifndef SERVICES_MASTER_REQUESTS_REQUEST_TABLE_H_
#define SERVICES_MASTER_REQUESTS_REQUEST_TABLE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/uid.h"
#include "common/kv/kv_store.h"
#include "common/rpc/call_gate.h"
#include "common/rpc/done.h"
#include "escapement/storage/v1/access_records.pb.h"
#include "google/protobuf/message.h"
#include "services/master/base/master_context.h"

namespace escapement::master {

// The caller that the audit names for changes which the platform makes by itself.
const Caller& PlatformCaller();

// One request for a change.
class RequestMark {
 public:
  // Writes nothing: for requests that change nothing.
  RequestMark() = default;
  // `method` is the RPC's name. `tenant` may be kAllTenants.
  RequestMark(absl::string_view tenant, absl::string_view method, absl::string_view request_id,
              const google::protobuf::Message& request, const Caller& caller);

  // True if there is a request_id.
  bool active() const { return !key_.empty(); }
  kv::Key key() const { return {kv::ColumnFamily::kRequests, key_}; }

  // Copies the remembered answer of this request_id into `response`. True if there is one.
  // INVALID_ARGUMENT if the request_id belongs to another request, DATA_LOSS if the answer cannot
  // be read.
  absl::StatusOr<bool> Replay(const std::optional<std::string>& row,
                              google::protobuf::Message* response) const;

  // Adds the audit's row. With a request_id also the answer's row, and the condition that it is
  // absent. `version_before` is that of the resource; 0: it did not exist, or has no versions.
  // `nonce` differs for equal requests that may both have an effect.
  void AddTo(const google::protobuf::Message& response, absl::Time now, uint64_t version_before,
             kv::Group& group, uint64_t nonce = 0) const;

 private:
  std::string key_;
  std::string tenant_;
  std::string method_;
  Uid request_hash_;
  storage::v1::AuditRecord audit_;
};

// The mark of a request whose type has request_id and validate_only.
template <typename Request, typename Response>
RequestMark MarkOf(absl::string_view tenant, absl::string_view method, const Request& request,
                   const Done<Response>& done) {
  if (request.validate_only()) return RequestMark();
  return RequestMark(tenant, method, request.request_id(), request, *done.caller());
}

// RequestSweepLoop: drops remembered answers (request_id) that are older than their retention.
// Every master does it; dropping twice does nothing.
//
// Threads: the context's executor.

class RequestSweepLoop {
 public:
  // `context` outlives it; its executor is stopped before the loop is destroyed.
  explicit RequestSweepLoop(MasterContext& context) : context_(context) {}

  // Looks at all rows, page by page with pauses; begins again a while after the end.
  void Start();

 private:
  void Step();
  void OnPage(kv::ScanResult page);
  void GoOn();
  void StartLater();

  MasterContext& context_;
  std::string position_;
  bool many_ = false;  // more than one page
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_REQUESTS_REQUEST_TABLE_H_
