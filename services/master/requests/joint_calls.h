// JointCalls: the store as changes use it that are made together. The reads that they begin in one
// turn of the executor are one MultiGet, and the groups that they commit in one turn are one
// commit. So a batch of changes takes as many calls of the store as one change.
//
// Each caller still reads its keys at one snapshot, and gets the verdict of its own group.
//
// Threads: the context's executor, where the callbacks run. The first call may come from any
// thread.

#ifndef SERVICES_MASTER_REQUESTS_JOINT_CALLS_H_
#define SERVICES_MASTER_REQUESTS_JOINT_CALLS_H_

#include <memory>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "common/kv/kv_store.h"
#include "services/master/base/master_context.h"

namespace escapement::master {

class JointCalls : public std::enable_shared_from_this<JointCalls> {
 public:
  using OnRead = absl::AnyInvocable<void(absl::StatusOr<kv::GetResult>)>;
  using OnCommitted = absl::AnyInvocable<void(absl::StatusOr<kv::Verdict>)>;

  // `context` outlives the calls.
  explicit JointCalls(MasterContext& context) : context_(context) {}

  // At most kv::kMultiGetKeysMax keys.
  void MultiGet(std::vector<kv::Key> keys, OnRead done);
  void Commit(kv::Group group, OnCommitted done);

 private:
  struct Read {
    std::vector<kv::Key> keys;
    OnRead done;
  };
  struct Write {
    kv::Group group;
    OnCommitted done;
  };

  // Sends what has been asked for by the end of this turn.
  void SendSoon();
  void Send();
  void SendReads(std::vector<Read> reads);
  void SendWrites(std::vector<Write> writes);

  MasterContext& context_;
  std::vector<Read> reads_;
  std::vector<Write> writes_;
  bool sending_soon_ = false;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_REQUESTS_JOINT_CALLS_H_
