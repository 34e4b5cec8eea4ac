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

#include "common/base/message_writer.h"
#include "common/records/row_judge.h"
#include "services/token_manager/shard/round.h"

namespace escapement::token_manager {

inline constexpr size_t kClaimBytesUsual = 16 << 10;

class GrantDraft {
 public:
  // A claim for one queue shard: its events, which the handlers there are to send.
  struct Claim {
    uint16_t queue_shard = 0;
    uint64_t number = 0;
    MessageWriter record = MessageWriter(kClaimBytesUsual);  // its entries
    int entry_count = 0;
    uint64_t events = 0;
    int64_t delivery_timeout_max_micros = 0;
  };

  GrantDraft(PolicyShardState& state, absl::Time now);

  uint64_t events() const { return events_; }
  size_t grants() const { return made_.size(); }
  // Policies whose counts it writes.
  const std::map<Uid, RateLimit>& counted() const { return rate_before_; }

  // The claim that takes the next events; nullptr: no queue shard has room. `theirs`: the shard
  // that the events count in already: they need no room there.
  Claim* OpenClaim(std::optional<uint16_t> theirs = std::nullopt);
  // Grants `count` events of the row, which is judged kSend, and puts them into the claim.
  void Make(PolicyState& policy, WaitingRow& row, uint64_t count, const RowJudgement& judged,
            Claim& claim);
  // Puts events of a grant into the claim once more; they are in no other claim from then on.
  // Judged kSend.
  void MakeAgain(PolicyState& policy, GrantSet::Key name, const HeldRange& range,
                 const RowJudgement& judged, Claim& claim);

  // Moves the group into `out`. False if it is empty.
  bool Close(kv::Group& out);
  // Once: the group has applied, or was refused for the condition of this index. A refusal puts
  // the holders that were to be claimed again back into `resends`.
  void Applied();
  void Refused(uint16_t failed_condition, std::deque<Resend>& resends);

 private:
  struct TakenRow {
    Uid policy = {};
    WaitingRow* row = nullptr;  // it stays while the commit is under way
  };
  // A new grant, as needed to take it back.
  struct Made {
    GrantSet::Key name;
    TakenRow from = {};
    uint64_t count = 0;
    std::shared_ptr<const CachedDefinition> definition = nullptr;
  };
  // A grant that was claimed again; the same.
  struct Again {
    std::shared_ptr<const RowSource> source = nullptr;
    std::shared_ptr<const CachedDefinition> definition = nullptr;
    storage::v1::GrantRecord former = {};
  };
  void SetClaim(const Claim& claim, storage::v1::GrantRecord& record) const;
  // Puts events into the claim, on condition that their schedule is as it was judged. `row_key`:
  // of the row in `waiting`.
  void AddEntry(Claim& claim, const Uid& policy, const Grant& grant, const std::string& row_key,
                const std::string& event_bytes, const HeldRange& range, const RowJudgement& judged);
  void Require(kv::Condition condition, const Uid& uid, const WaitingRow* row = nullptr);
  // Events go out. The counts of all their policies change. `new_tokens`: they had none.
  void TakeRate(PolicyState& policy, const RowSource& source, GrantSet::Key name, uint64_t count,
                const std::string& target, bool new_tokens);
  void CountInRun(const RowSource& source, uint64_t count);
  void TakeBack(const Made& made);
  void VoidProbe(const PolicyState& policy, const RowSource& source,
                 const CachedDefinition& definition);
  // The commit is answered, and the row is in it no more.
  void Settle(const TakenRow& taken);

  PolicyShardState& state_;
  const absl::Time now_;
  const int64_t micros_;
  const uint64_t claim_events_turn_;
  kv::Group group_;
  struct Required {
    kv::ColumnFamily cf = kv::ColumnFamily::kStates;
    Uid uid = {};                     // the schedule of a state, or the policy
    const WaitingRow* row = nullptr;  // only for kWaiting: a row of the policy
  };
  std::vector<Required> required_;  // by condition
  std::set<Uid> states_required_;
  std::map<Uid, RateLimit> rate_before_;  // by policy whose counts change
  std::map<std::pair<Uid, std::string>, std::optional<RateLimit>> key_rate_before_;
  std::map<std::string, storage::v1::RunPartRecord> parts_before_;
  std::vector<Made> made_;
  std::map<std::pair<Uid, GrantSet::Key>, Again> again_;
  std::vector<Resend> resumed_;
  std::vector<TakenRow> rows_;
  std::vector<Claim> claims_;  // the last one is open
  uint64_t events_ = 0;
};

}  // namespace escapement::token_manager

#endif  // SERVICES_TOKEN_MANAGER_GRANTING_GRANT_DRAFT_H_
