// RecordReader: reads what a policy shard needs to know before it can act: the records and counts
// of policies of which something waits or is held, its own parts in runs, and payloads.
//
// Policies' records are kept current by a watch of the service (OnPolicyPut).
//
// Threads: one, the token manager's executor.

#ifndef SERVICES_TOKEN_MANAGER_SHARD_RECORD_READER_H_
#define SERVICES_TOKEN_MANAGER_SHARD_RECORD_READER_H_

#include <memory>
#include <string>
#include <vector>

#include "services/token_manager/shard/shard_state.h"

namespace escapement::token_manager {

// Reason of FairQueue::Next: what the schedule's rows are judged by is being read.
inline constexpr char kBeingRead[] = "?";

// Rows of this policy that could not be judged because a record of the schedule was missing are
// judged again when it has been read.
void AwaitRecords(PolicyShardState& state, PolicyState& policy, const Uid& schedule);
// Everything that was waited for may be there.
void RecordsRead(PolicyShardState& state);

class RecordReader {
 public:
  explicit RecordReader(std::weak_ptr<PolicyShardState> state) : state_(std::move(state)) {}

  // Reads what is wanted, a part of it at a time.
  void Step();
  bool idle() const { return !policies_ && !parts_; }

  // The policy was changed, or deleted (nullopt).
  static void OnPolicy(PolicyShardState& state, const Uid& uid,
                       const std::optional<std::string>& value, kv::CommitSeq seq);
  // A commit found the record not to be as it was read, or the watch has missed something.
  static void ReadAgain(PolicyShardState& state, PolicyState& policy);

 private:
  void ReadPolicies(PolicyShardState& state);
  void ReadParts(PolicyShardState& state);
  void ReadPayloads(PolicyShardState& state);

  std::weak_ptr<PolicyShardState> state_;
  bool policies_ = false;  // are being read
  bool parts_ = false;
  bool payloads_ = false;
};

}  // namespace escapement::token_manager

#endif  // SERVICES_TOKEN_MANAGER_SHARD_RECORD_READER_H_
