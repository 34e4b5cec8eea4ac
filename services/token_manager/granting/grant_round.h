// GrantRound: gives free tokens to those whose turn it is, in one group of a commit.
//
// Grants are made in memory as they are put into the group; if the group is refused (a schedule's
// state or a policy is not as it was read) they are taken back.
//
// Threads: one, the token manager's executor.

#ifndef SERVICES_TOKEN_MANAGER_GRANTING_GRANT_ROUND_H_
#define SERVICES_TOKEN_MANAGER_GRANTING_GRANT_ROUND_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/records/row_judge.h"
#include "services/token_manager/judging/row_actions.h"

namespace escapement::token_manager {

class GrantRound {
 public:
  // One round makes the grants of one commit. Both arguments outlive it.
  GrantRound(ShardState& state, RowActions& actions);

  // Once: claims again what is in `resends` (but what is not to be sent any more stays as it is),
  // then looks at the policies that are ready, until the round is full. The round's base is closed.
  void Build(Round& round, std::deque<Resend>& resends);
  // Moves the group that was built into `out`. False if it is empty.
  bool Close(Round& round, kv::Group* out);
  // Policies whose counts it writes.
  const std::set<Uid>& counted() const { return counted_; }

  // Once: the group has applied, or was refused for the condition of this index.
  void Applied();
  void Refused(uint16_t failed_condition, std::deque<Resend>& resends);

  // True if the round stopped early: no live queue shard has room, or too many records are being
  // read.
  bool stalled() const { return no_room_ || awaits_records_; }

 private:
  // One grant, as needed to take it back.
  struct Made {
    Uid policy;
    GrantSet::Key grant;
    std::string row_key;
    uint64_t count = 0;
    std::string target;
  };
  struct Claim {
    uint16_t queue_shard = 0;
    uint64_t number = 0;
    storage::v1::ClaimRecord record = {};
    size_t bytes = 0;
    uint64_t events = 0;
    absl::Duration timeout_max = absl::ZeroDuration();
  };
  // The former claim of a grant that is claimed again.
  struct FormerClaim {
    uint16_t queue_shard = 0;
    uint64_t epoch = 0;
    uint64_t number = 0;
    int64_t send_before_micros = 0;
  };
  enum class Visited { kDone, kMore, kFull };

  bool Full() const;
  Visited Visit(PolicyState& policy, Round& round);
  // Grants up to `tokens` events of the turn; 0: nothing, the row is not to be sent now.
  uint64_t Take(PolicyState& policy, const FairQueue::Turn& turn, uint64_t tokens, Round& round);
  void JudgeOnly(PolicyState& policy, Round& round);
  // The rows of schedules that were changed, those to come included.
  void JudgeChanged(PolicyState& policy, const Round& round);
  // False: nothing of it goes.
  bool JudgeGroup(PolicyState& policy, const RowGroup& group, const Round& round);
  std::string PassedOver(const PolicyState& policy, const Uid& schedule, absl::Time now);
  void Make(PolicyState& policy, const std::string& key, WaitingRow& row, uint64_t count,
            const RowJudgement& judged, Claim& claim, Round& round);
  // False: later.
  bool Resume(const Resend& resend, Round& round);
  // The claim that takes the next events; nullptr: no queue shard has room. `theirs`: the shard
  // that the events count in already: they need no room there.
  Claim* OpenClaim(absl::Time now, std::optional<uint16_t> theirs = std::nullopt);
  void AddEntry(Claim& claim, const PolicyState& policy, const Grant& grant, std::string event_key,
                storage::v1::EventRecord event, uint64_t first, uint64_t count);
  void RequireState(const Uid& schedule, const CachedState& state);
  void RequirePolicy(const PolicyState& policy);
  void Count(PolicyState& policy, const Grant& grant, uint64_t count, Round& round);
  void PutRows(Round& round);
  void TakeBack(const Made& made);
  void Settle(PolicyState& policy, const std::string& key);

  ShardState& state_;
  RowActions& actions_;
  const uint64_t events_max_;
  const uint64_t claim_events_turn_;
  kv::Group group_;
  std::vector<Uid> condition_of_;  // by condition: the schedule, or the policy
  std::vector<bool> of_policy_;    // by condition
  std::set<Uid> states_required_;
  std::set<Uid> policies_required_;
  std::set<Uid> counted_;
  std::map<Uid, RateLimit> rate_before_;
  std::map<std::string, storage::v1::RunPartRecord> parts_before_;
  std::vector<Made> made_;
  std::vector<Resend> resumed_;
  std::map<std::string, Uid> rows_;  // taken from, with their policies
  std::map<std::pair<Uid, GrantSet::Key>, FormerClaim> reclaimed_;
  std::vector<Claim> claims_;  // the last one is open
  uint64_t events_ = 0;
  bool no_room_ = false;
  bool awaits_records_ = false;
};

}  // namespace escapement::token_manager

#endif  // SERVICES_TOKEN_MANAGER_GRANTING_GRANT_ROUND_H_
