// RecordReader: reads what a policy shard needs to know before it can act: the records and counts
// of policies of which something waits or is held, its own parts in runs, and payloads.
//
// Policies' records are kept current by a watch of the service (OnPolicy).
//
// Threads: one, the token manager's executor.

#ifndef SERVICES_TOKEN_MANAGER_SHARD_RECORD_READER_H_
#define SERVICES_TOKEN_MANAGER_SHARD_RECORD_READER_H_

#include <optional>
#include <string>
#include <vector>

#include "services/token_manager/shard/shard_state.h"

namespace escapement::token_manager {

class RecordReader {
 public:
  explicit RecordReader(PolicyShardState& state) : state_(state) {}

  // Reads what is wanted, a part of it at a time.
  void Step();
  // True if all records and counts that are wanted have been read.
  bool idle() const {
    return !policies_ && !parts_ && state_.unread.empty() && !state_.parts.wanted();
  }

  // The policy was changed, or deleted (nullopt).
  static void OnPolicy(PolicyShardState& state, PolicyState& policy,
                       const std::optional<std::string>& value, kv::CommitSeq seq);
  // A commit found the record not to be as it was read, or the watch has missed something.
  static void ReadAgain(PolicyShardState& state, PolicyState& policy);
  static void ReadAllAgain(PolicyShardState& state) {
    for (const auto& [uid, policy] : state.policies()) ReadAgain(state, *policy);
  }

 private:
  void ReadPolicies();
  void ReadParts();
  void ReadPayloads();
  // `reading` is true until the answer; `then` takes it.
  template <typename Then>
  void Read(std::vector<kv::Key> keys, bool& reading, Then then);

  PolicyShardState& state_;
  bool policies_ = false;  // are being read
  bool parts_ = false;
  bool payloads_ = false;
};

}  // namespace escapement::token_manager

#endif  // SERVICES_TOKEN_MANAGER_SHARD_RECORD_READER_H_
