// GrantDraft: the grants that one commit is to make. They are made in memory at once; if the store
// refuses the group, because a schedule's state or a policy is not as it was read, they are taken
// back.
//
// Threads: one, the token manager's executor.

#ifndef SERVICES_TOKEN_MANAGER_GRANTING_GRANT_DRAFT_H_
#define SERVICES_TOKEN_MANAGER_GRANTING_GRANT_DRAFT_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/records/row_judge.h"
#include "services/token_manager/shard/round.h"

namespace escapement::token_manager {

class GrantDraft {
 public:
  // A claim for one queue shard: its events, which the handlers there are to send.
  struct Claim {
    uint16_t queue_shard = 0;
    uint64_t number = 0;
    storage::v1::ClaimRecord record = {};
    size_t bytes = 0;
    uint64_t events = 0;
    absl::Duration timeout_max = absl::ZeroDuration();
  };

  explicit GrantDraft(PolicyShardState& state);

  uint64_t events() const { return events_; }
  size_t grants() const { return made_.size(); }
  // Policies whose counts it writes.
  const std::set<Uid>& counted() const { return counted_; }

  // The claim that takes the next events; nullptr: no queue shard has room. `theirs`: the shard
  // that the events count in already: they need no room there.
  Claim* OpenClaim(absl::Time now, std::optional<uint16_t> theirs = std::nullopt);
  // Grants `count` events of the row, which is judged kSend, and puts them into the claim.
  void Make(PolicyState& policy, const std::string& key, WaitingRow& row, uint64_t count,
            const RowJudgement& judged, Claim& claim, const Round& round);
  // Puts events of a grant into the claim once more; they are in no other claim from then on.
  // Judged kSend.
  void MakeAgain(PolicyState& policy, GrantSet::Key name, const HeldRange& range,
                 const RowJudgement& judged, Claim& claim, const Round& round);

  // Moves the group into `out`. False if it is empty.
  bool Close(const Round& round, kv::Group& out);
  // Once: the group has applied, or was refused for the condition of this index. A refusal puts
  // the holders that were to be claimed again back into `resends`.
  void Applied();
  void Refused(uint16_t failed_condition, std::deque<Resend>& resends);

 private:
  // One grant, as needed to take it back.
  struct Made {
    Uid policy;
    GrantSet::Key grant;
    std::string row_key;
    uint64_t count = 0;
    std::string target;
    std::string paused_key;  // empty: the policy has no limits for keys
    std::shared_ptr<const RowSource> source;
  };
  void AddEntry(Claim& claim, const PolicyState& policy, const Grant& grant, std::string event_key,
                storage::v1::EventRecord event, uint64_t first, uint64_t count);
  void RequireState(const Uid& schedule, const CachedState& state);
  void RequirePolicy(const PolicyState& policy);
  // A one-off event may be cancelled until it is granted.
  void RequireRow(const PolicyState& policy, const std::string& key);
  // One more event of the policy, or more, goes out. The counts of all its policies change.
  void TakeRate(PolicyState& policy, const Grant& grant, uint64_t count, const std::string& target,
                const Round& round);
  void VoidProbes(const std::string& target, const std::string& paused_key);
  void Count(PolicyState& policy, const Grant& grant, uint64_t count, const Round& round);
  void PutRows(const Round& round);
  void TakeBack(const Made& made);
  void Settle(PolicyState& policy, const std::string& key);

  PolicyShardState& state_;
  const uint64_t claim_events_turn_;
  kv::Group group_;
  struct Required {
    enum class What : uint8_t { kState, kPolicy, kRow };
    What what = What::kState;
    Uid uid = {};          // the schedule, or the policy
    std::string row = {};  // only for kRow: a row of the policy
  };
  std::vector<Required> required_;  // by condition
  std::set<Uid> states_required_;
  std::set<Uid> policies_required_;
  std::set<Uid> counted_;
  std::map<Uid, RateLimit> rate_before_;
  std::map<std::pair<Uid, std::string>, std::optional<RateLimit>> key_rate_before_;
  std::map<std::string, storage::v1::RunPartRecord> parts_before_;
  std::vector<Made> made_;
  std::vector<Resend> resumed_;
  std::map<std::string, Uid> rows_;  // taken from, with their policies
  struct Former {
    Grant grant;  // as it was
    std::string target;
  };
  std::map<std::pair<Uid, GrantSet::Key>, Former> reclaimed_;
  std::vector<Claim> claims_;  // the last one is open
  uint64_t events_ = 0;
};

}  // namespace escapement::token_manager

#endif  // SERVICES_TOKEN_MANAGER_GRANTING_GRANT_DRAFT_H_
