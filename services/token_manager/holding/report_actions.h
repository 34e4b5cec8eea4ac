// ReportActions: what reports, completions and passing time do to the holders of tokens
// (docs/design/throttling.md, "Reports, one by one").
//
// Each changes the state in memory and adds what follows to the round's group, which must be
// committed, or the shard dropped.
//
// Threads: one, the token manager's executor.

#ifndef SERVICES_TOKEN_MANAGER_HOLDING_REPORT_ACTIONS_H_
#define SERVICES_TOKEN_MANAGER_HOLDING_REPORT_ACTIONS_H_

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "services/token_manager/judging/record_reader.h"
#include "services/token_manager/round.h"

namespace escapement::token_manager {

class ReportActions {
 public:
  using Entry = storage::v1::GrantReportRecord::Entry;

  // `resends` takes what is to be claimed again. All outlive it.
  ReportActions(ShardState& state, Round& round, std::deque<Resend>& resends)
      : state_(state), round_(round), resends_(resends) {}

  // False: a record that is needed to act upon the entry is being read; try again after that. Or
  // (see no_room) no queue shard can take what is to be sent again; try again in a while.
  bool CanApply(const Entry& entry);
  // True if it took effect: something that it names was held.
  bool Apply(const Entry& entry);
  // Holders of the policy whose time has passed. False: as CanApply, of some of them.
  bool Expire(PolicyState& policy, size_t grants_max);
  // CanApply has found no room.
  bool no_room() const { return no_room_; }

 private:
  // A part of a grant whose holders have just been removed.
  struct Removed {
    PolicyState& policy;
    const GrantSet::Key& key;
    const Grant& grant;
    std::vector<HeldRange> ranges = {};
    uint64_t events = 0;
    uint64_t undelivered = 0;
  };
  struct End {
    storage::v1::OutcomeKind outcome = storage::v1::OUTCOME_KIND_SUCCEEDED;
    uint32_t attempts = 0;        // 0: as granted, and this one
    int64_t dispatch_micros = 0;  // 0: unknown
    int64_t time_micros = 0;
    bool delivered = false;  // those not known to be delivered were, by what is said of them now
    std::string reason = {};
    std::string output = {};
  };

  bool CanResend(PolicyState& policy, const Grant& grant, const Entry& entry);
  static bool NeedsDefinition(const Entry& entry);
  const CachedDefinition* DefinitionOf(const Grant& grant);
  void AddRows(uint64_t events, size_t reason_bytes);
  void Touch(PolicyState& policy, const GrantSet::Key& key);
  Removed Remove(PolicyState& policy, const GrantSet::Key& key, uint64_t first, uint64_t count);
  bool ApplyTo(PolicyState& policy, const Entry& entry);
  bool Deliver(PolicyState& policy, const Entry& entry);
  void NoteDelivered(const PolicyState& policy, const GrantSet::Key& key, uint64_t events);
  bool Extend(PolicyState& policy, const Entry& entry);
  bool Resent(PolicyState& policy, const Entry& entry);
  void Ended(const Removed& removed, const End& end);
  void Retry(const Removed& removed, uint32_t attempts, const std::string& reason,
             int64_t retry_at_micros, int64_t tried_micros);
  // The attempt counts as failed: it is tried again as the definition says, or has failed.
  void Failed(const Removed& removed, const End& end);
  void PutReturned(const Removed& removed, int64_t tried_micros);
  // Their target could not be reached: they wait on, or have failed by their age.
  void Unreached(const Removed& removed, const End& end);
  std::optional<std::string> TargetOf(const Grant& grant);
  void NoteTarget(const Grant& grant, const Entry& entry);

  ShardState& state_;
  Round& round_;
  std::deque<Resend>& resends_;
  bool no_room_ = false;
};

}  // namespace escapement::token_manager

#endif  // SERVICES_TOKEN_MANAGER_HOLDING_REPORT_ACTIONS_H_
