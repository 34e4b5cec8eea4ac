// RowActions: parks, skips, drops, moves, ends or carries over rows that are not to be granted,
// because of the state of their schedule (row_judge.h) or the end of their window. Also gives rows
// another key.
//
// The rows of one schedule are one group of a commit, on condition that the schedule is still as it
// was when they were judged. A row is busy until the commit has its answer.
//
// A row of a former version may have been written again since it was read, because a change back to
// its definition makes the same keys. So the group also has the condition that the row is as it was
// read, and the key is read again afterwards (RowReads).
//
// Threads: one, the token manager's executor.

#ifndef SERVICES_TOKEN_MANAGER_JUDGING_ROW_ACTIONS_H_
#define SERVICES_TOKEN_MANAGER_JUDGING_ROW_ACTIONS_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "common/records/row_judge.h"
#include "services/token_manager/shard/round.h"

namespace escapement::token_manager {

class RowActions {
 public:
  explicit RowActions(PolicyShardState& state) : state_(state) {}

  static constexpr size_t kMax = 1000;  // that one commit takes

  bool empty() const { return pending_.empty(); }
  // No more are taken at the moment.
  bool full() const { return pending_.size() >= kMax; }

  // Begins the action that the judgement asks for instead of a grant (kSend, kFetch: none, false).
  // The row is busy from then on. Its counts must be known (PolicyShardState::CountsKnown).
  bool Add(PolicyState& policy, const std::string& key, WaitingRow& row,
           const RowJudgement& judged);
  // The row waits for another attempt, and its schedule's next occurrence has come (row_judge.h).
  // As Add.
  void Fail(PolicyState& policy, const std::string& key, WaitingRow& row,
            const RowJudgement& judged);
  // The row's ClosesAt is over at `now`. If a record is being read, nothing happens before that.
  void CloseWindow(PolicyState& policy, const std::string& key, WaitingRow& row, absl::Time now);
  // The row gets the key that says when it may go (WaitingRows::TakeMisplaced).
  void Rekey(PolicyState& policy, const std::string& key, WaitingRow& row);

  // Adds groups to the commit. They must be followed by OnCommitted, or the shard dropped.
  void Build(const Round& round, std::vector<kv::Group>& groups);
  // `verdicts`: of each of Build's groups, in order.
  void OnCommitted(absl::Span<const kv::Verdict> verdicts);

 private:
  struct Withheld {
    std::string key;
    // kSend: the row goes on waiting as `record` (Rekeyed). State null: whatever it is.
    RowJudgement judged;
    storage::v1::EventRecord record;
    std::shared_ptr<const RowSource> source;  // its counts are pinned while it is in hand
  };
  struct Group {
    std::vector<Withheld> actions;
    std::map<std::string, storage::v1::RunPartRecord> parts_before;
    std::vector<std::string> moved_to;  // rows of `waiting`
  };
  void Withhold(PolicyState& policy, const std::string& key, WaitingRow& row, RowJudgement judged,
                storage::v1::EventRecord record = {});
  void AddTo(Group& group, const Withheld& action, const Round& round, kv::Group& out);
  void End(Group& group, const WaitingRow& row, const RowJudgement& judged, const Round& round,
           kv::Group& out);
  void Settle(const Withheld& action, bool applied);
  void Count(const RowJudgement& judged, uint64_t events);

  PolicyShardState& state_;
  std::deque<Withheld> pending_;
  std::map<Uid, Group> committing_;  // by schedule
};

}  // namespace escapement::token_manager

#endif  // SERVICES_TOKEN_MANAGER_JUDGING_ROW_ACTIONS_H_
