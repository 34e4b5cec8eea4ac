// RecordTransaction: one change of a resource that is one record: read → decide → commit, again
// from the read while races are lost. A remembered answer (request_id) is given before anything is
// decided.
//
// Threads: runs on the context's executor.

#ifndef SERVICES_MASTER_REQUESTS_RECORD_TRANSACTION_H_
#define SERVICES_MASTER_REQUESTS_RECORD_TRANSACTION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/kv/kv_store.h"
#include "common/metrics/metrics.h"
#include "google/protobuf/message.h"
#include "services/master/base/master_context.h"
#include "services/master/requests/request_table.h"

namespace escapement::master {

// A change's writes and its answer.
struct RecordDecision {
  kv::Group group;
  std::unique_ptr<google::protobuf::Message> response;  // has the RPC's type
  // For each condition of the group, the answer to the caller if that condition is the first that
  // does not hold. OK (or beyond the end): the change lost a race and reads again.
  std::vector<absl::Status> refusals;
  uint64_t version_before = 0;  // the resource's; 0: it did not exist, or has no versions
};

struct RecordChange {
  kv::Key key;
  std::string resource;  // its name, for errors
  RequestMark mark = {};
  // Reads whatever else the decision needs, once for each try, before it. `bytes` is the record as
  // it is stored; unset: there is none. If the function is unset, nothing more is read.
  absl::AnyInvocable<void(const std::optional<std::string>& bytes,
                          absl::AnyInvocable<void(absl::Status)> done)>
      read_more = nullptr;
  // Called with the same record and the store's time, once for each try.
  absl::AnyInvocable<absl::StatusOr<RecordDecision>(const std::optional<std::string>& bytes,
                                                    absl::Time now)>
      decide = nullptr;
  std::unique_ptr<google::protobuf::Message> response = nullptr;  // an empty one of the RPC's type
  bool validate_only = false;    // decide and answer, write nothing
  Counter* committed = nullptr;  // counts the change when it is durable; null: none does
};

using RecordChanged =
    absl::AnyInvocable<void(absl::StatusOr<std::unique_ptr<google::protobuf::Message>>)>;

// ABORTED (CONTENDED) after too many lost races.
void ChangeRecord(MasterContext& context, RecordChange change, RecordChanged done);

// Turns the transaction's answer into the RPC's.
template <typename Response>
RecordChanged AsAnswer(Done<Response> done) {
  return [done = std::move(done)](
             absl::StatusOr<std::unique_ptr<google::protobuf::Message>> response) mutable {
    if (!response.ok()) return done(response.status());
    done(std::move(static_cast<Response&>(**response)));
  };
}

}  // namespace escapement::master

#endif  // SERVICES_MASTER_REQUESTS_RECORD_TRANSACTION_H_
