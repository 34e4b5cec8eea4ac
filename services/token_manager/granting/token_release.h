// TokenRelease: takes tokens back from their holders, and marks holders as delivered or extended,
// by reports, completions and passing time (docs/design/throttling.md, "Reports, one by one").
//
// ReleaseTokens is the one place where a token becomes free. Each action changes the state in
// memory and adds its rows to the round's group. The group must be committed, or the shard dropped.
//
// Threads: one, the token manager's executor.

#ifndef SERVICES_TOKEN_MANAGER_GRANTING_TOKEN_RELEASE_H_
#define SERVICES_TOKEN_MANAGER_GRANTING_TOKEN_RELEASE_H_

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "common/records/row_judge.h"
#include "services/token_manager/shard/round.h"

namespace escapement::token_manager {

// An event keeps its token, and its next attempt cannot begin yet: the next try is after this.
inline constexpr absl::Duration kSleepsOn = absl::Seconds(1);

// Judges events that wait or sleep. kFetch: the policy waits for a record (AwaitRecords).
RowJudgement Judge(PolicyShardState& state, PolicyState& policy, const RowSource& source);

class TokenRelease {
 public:
  using Entry = storage::v1::GrantReportRecord::Entry;

  // `resends` receives the grants that are to be claimed again. All arguments outlive it.
  TokenRelease(PolicyShardState& state, Round& round, std::deque<Resend>& resends)
      : state_(state), round_(round), resends_(resends) {}

  // Applies the entries of one report or call. effects[i] is true once entry i has taken effect: an
  // event that it names held a token.
  //
  // False: a record that an entry needs is being read, or (see no_room) no queue shard can take the
  // events that are to be sent again. Then nothing is applied but ends whose payloads are known
  // now: they are forgotten after the round, and may be too many for one. The caller tries again
  // later with the same `effects`; what was applied has no effect a second time.
  template <typename Entries>
  bool ApplyAll(const Entries& entries, std::vector<bool>& effects);
  // Handles holders of the policy whose hold time has passed, and those that wait for their next
  // attempt and whose time has come; but not those for which a record is being read.
  void Expire(PolicyState& policy, size_t grants_max);
  // True if ApplyAll found no room.
  bool no_room() const { return no_room_; }

 private:
  // The part of a grant whose tokens were just released.
  struct Released {
    PolicyState& policy;
    const Grant& grant;
    HeldRanges ranges = {};
    uint64_t events = 0;
  };
  struct Named {
    PolicyState* policy = nullptr;
    const Grant* grant = nullptr;
  };
  // The grant that an entry names; null: there is none any more.
  Named Find(const Entry& entry);
  // False: see ApplyAll.
  bool CanApply(const Entry& entry);
  bool Apply(const Entry& entry);
  // The end of a one-off event that may become a dead letter, which has its payload.
  bool NeedsPayload(const Entry& entry);
  bool CanResend(PolicyState& policy, const Grant& grant, const Entry& entry);
  // False: what the end of a failed event needs is being read.
  bool KnowsForFailure(PolicyState& policy, const Grant& grant);
  const CachedDefinition* DefinitionOf(const Grant& grant);
  void AddRows(const Released& released, size_t text_bytes);
  void Touch(PolicyState& policy, const Grant& grant);
  // Frees the tokens of `count` events of a grant from index `first` on, as far as they are held.
  Released ReleaseTokens(PolicyState& policy, const Grant& grant, uint64_t first, uint64_t count);
  // Counts hold times that have ended.
  void HoldEnded(PolicyState& policy, uint64_t events);
  bool ApplyTo(PolicyState& policy, const Grant& grant, const Entry& entry);
  // Events are delivered, or their hold time is extended.
  bool Mark(PolicyState& policy, const Grant& grant, const Entry& entry);
  void CountDelivered(const Grant& grant, uint64_t events);
  bool Resent(PolicyState& policy, const Grant& grant, const Entry& entry);
  void Ended(const Released& released, EndedRange end);
  void Retry(const Released& released, const EndedRange& end, int64_t retry_at_micros,
             int64_t tried_micros);
  // The attempt failed: the events are retried as the definition says, or become dead letters.
  void Failed(const Released& released, const EndedRange& end);
  // The events wait as before their grant; or for another attempt, if they keep their tokens.
  void PutReturned(const Released& released, int64_t tried_micros);
  // Each event of the range waits for its next attempt: it sleeps, or has a row.
  void PutRetries(const Released& released, const HeldRange& range, bool keep_tokens,
                  const storage::v1::EventRecord& event, int64_t retry_at_micros);
  // The event waits for its next attempt and keeps its token: it is a grant of its own that sleeps
  // until then. It must be a grant again before the round's end.
  void Sleep(const Released& released, const HeldRange& range, uint64_t index,
             storage::v1::EventRecord event, int64_t retry_at_micros);
  // The grant has slept long enough. Nothing happens while a record is being read.
  void Wake(PolicyState& policy, const Grant& grant);
  // True if events whose target could not be reached fail by their age.
  bool TriedTooLong(const Grant& grant);
  std::optional<std::string> TargetOf(const Grant& grant);
  void NoteTarget(const PolicyState& policy, const Grant& grant, const Entry& entry);

  PolicyShardState& state_;
  Round& round_;
  std::deque<Resend>& resends_;
  PolicyState* last_ = nullptr;  // that an entry has named
  bool no_room_ = false;
};

template <typename Entries>
bool TokenRelease::ApplyAll(const Entries& entries, std::vector<bool>& effects) {
  effects.resize(static_cast<size_t>(entries.size()));
  bool can = true;
  size_t i = 0;
  for (const Entry& entry : entries) {
    const bool known = CanApply(entry);
    if (known && NeedsPayload(entry)) effects[i] = Apply(entry) || effects[i];
    can &= known;
    ++i;
  }
  if (!can) return false;
  i = 0;
  for (const Entry& entry : entries) {
    if (!NeedsPayload(entry)) effects[i] = Apply(entry) || effects[i];
    ++i;
  }
  return true;
}

}  // namespace escapement::token_manager

#endif  // SERVICES_TOKEN_MANAGER_GRANTING_TOKEN_RELEASE_H_
