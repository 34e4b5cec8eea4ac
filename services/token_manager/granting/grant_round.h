// GrantRound: gives free tokens to those whose turn it is, in one group of a commit (GrantDraft).
//
// Threads: one, the token manager's executor.

#ifndef SERVICES_TOKEN_MANAGER_GRANTING_GRANT_ROUND_H_
#define SERVICES_TOKEN_MANAGER_GRANTING_GRANT_ROUND_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "services/token_manager/granting/grant_draft.h"
#include "services/token_manager/judging/row_actions.h"

namespace escapement::token_manager {

class GrantRound {
 public:
  // One round makes the grants of one commit. `state` and `actions` outlive it.
  GrantRound(PolicyShardState& state, RowActions& actions, absl::Time now);

  // Once: claims again what is in `resends` (but what is not to be sent any more stays as it is),
  // then looks at the policies that are ready, until the round is full. The round's base is closed.
  void Build(Round& round, std::deque<Resend>& resends);
  // The grants of the round, to be committed.
  GrantDraft& draft() { return draft_; }

  // True if the round stopped early: no live queue shard has room, or too many records are being
  // read.
  bool stalled() const { return no_room_ || awaits_records_; }

 private:
  bool Full() const;
  // True: the policy may be granted more.
  bool Visit(PolicyState& policy);
  // Grants up to `tokens` events of the turn; 0: nothing, the row is not to be sent now.
  uint64_t Take(PolicyState& policy, const FairQueue::Turn& turn, uint64_t tokens);
  void JudgeOnly(PolicyState& policy);
  // The rows of schedules that were changed, those to come included.
  void JudgeChanged(PolicyState& policy);
  void JudgeLongWaiting(PolicyState& policy);
  // Up to the first row that may stay, or the whole group. True: something goes, or is being read.
  bool JudgeGroup(PolicyState& policy, const RowGroup& group, bool whole);
  // Null: not known.
  std::shared_ptr<const CachedDefinition> DefinitionOf(const RowSource& row) const;
  // How many events with these limits may go now, by all of them.
  struct Room {
    uint64_t events = RateLimit::kUnlimited;         // 0 also while a policy is being read
    std::optional<LimitName> closed = std::nullopt;  // the first limit that lets none go
  };
  Room RoomFor(PolicyState& policy, const RowSource& source, const GroupKey& group);
  // A free token of the policy may not be enough for an event.
  bool NeedsMore(const PolicyState& policy, const RowSource& source) const;
  bool MayHope(PolicyState& policy, const RowSource& source);
  void ReviewReservations();
  // Groups that stand aside for a limit that may have room again take part.
  void WakeOpened();
  // Why the group of the row has no turn now; empty: it has.
  std::string PassedOver(PolicyState& policy, const QueuedSlice& first);
  // How many events a pause of their key allows at that time.
  uint64_t AllowedOfKey(const PolicyState& policy, const RowSource& source, absl::Time at) const;
  // When an event that keeps its token may be tried again, as far as is known now.
  absl::Time MayRetryAt(PolicyState& policy, const RowSource& source,
                        const std::string& target) const;
  // False: later.
  bool Resume(const Resend& resend);

  PolicyShardState& state_;
  RowActions& actions_;
  const absl::Time now_;
  const uint64_t events_max_;
  GrantDraft draft_;
  std::optional<uint64_t> asked_;  // Room::events for the row that PassedOver was asked of last
  bool no_room_ = false;
  bool awaits_records_ = false;
};

}  // namespace escapement::token_manager

#endif  // SERVICES_TOKEN_MANAGER_GRANTING_GRANT_ROUND_H_
