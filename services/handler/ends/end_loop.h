// EndLoop: commits the ends of one queue shard: outcomes of claimed events, and rows that end
// without a claim.
//
// One commit is under way at a time. Ends that arrive in between go into the next commit, so that
// batches grow with the load and each count of a run has one writer.
//
// Threads: one, the handler's executor.

#ifndef SERVICES_HANDLER_ENDS_END_LOOP_H_
#define SERVICES_HANDLER_ENDS_END_LOOP_H_

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "services/handler/ends/end_batch.h"
#include "services/handler/shard/shard_loader.h"
#include "services/handler/shard/shard_state.h"

namespace escapement::handler {

class EndLoop {
 public:
  // `state` and `loader` must outlive it.
  EndLoop(QueueShardState& state, ShardLoader& loader) : state_(state), loader_(loader) {}

  void Add(Outcome&& outcome);

  // Ends a row that was not claimed. Its key must be held. `cached` is the state of the schedule
  // by which the row was judged; null for one-off events.
  void AddRow(RowEnd end, QueuedRow row, std::shared_ptr<const CachedState> cached);

  // Deletes rows of `inflight` that have no claim, or whose claim has ended.
  void AddGarbage(std::vector<std::string> inflight_keys);

  void Step(absl::Time now);

  // The time (Clock::Elapsed) by which Step must be called; nullopt: nothing waits.
  std::optional<absl::Duration> NextStep() const;

  bool idle() const {
    return !committing_ && outcomes_.empty() && rows_.empty() && garbage_.empty();
  }

 private:
  struct WaitingRow {
    RowEnd end;
    QueuedRow row;
    std::shared_ptr<const CachedState> cached;
  };
  // Rows whose ends apply together or not at all: rows that change the same counts, so that these
  // are written once, or one row that changes none.
  struct RowGroup {
    kv::Group group;
    RunParts parts;                      // the counts that the group writes
    const CachedState* state = nullptr;  // the last state added as a condition
    std::vector<WaitingRow> rows;
    std::vector<QueuedRow> rests;  // rows that the group writes
  };
  // One commit: the batch's group first, then the groups of rows.
  struct PendingCommit {
    EndBatch batch;
    std::vector<RowGroup> row_groups;
  };
  static constexpr size_t kRowsOfGroupMax = 1024;
  bool empty() const { return outcomes_.empty() && rows_.empty() && garbage_.empty(); }
  // Commits at the next whole multiple of `delay` in Clock::Elapsed, or earlier.
  void FlushWithin(absl::Duration delay);
  bool IsDue() const;
  std::vector<Outcome> TakeOutcomes();
  void Flush(absl::Time now);
  // The keys have empty counts in parts_ until they are read.
  void FetchParts(std::vector<std::string> missing);
  void AddRows(absl::Time now, PendingCommit& pending, kv::Commit& commit);
  // The group for the row; null: the row goes into a later commit.
  RowGroup* GroupFor(const WaitingRow& row, PendingCommit& pending,
                     std::map<std::string, size_t>& by_part) const;
  void Send(std::shared_ptr<PendingCommit> pending, kv::Commit commit);
  void OnCommitted(PendingCommit& pending, const kv::CommitResult& result);
  // Releases the keys of rows, and queues the rows that are in the store under them.
  void RereadRows(std::vector<kv::Key> keys);

  QueueShardState& state_;
  ShardLoader& loader_;
  std::vector<Outcome> outcomes_;
  std::deque<WaitingRow> rows_;
  // The bound for rows of one group. A group is refused if one of its rows has changed; the bound
  // then falls to 1 and doubles with each commit.
  size_t rows_of_group_max_ = kRowsOfGroupMax;
  std::vector<std::string> garbage_;
  absl::Duration flush_at_;  // Clock::Elapsed by which waiting ends are committed
  // The delay of the last FlushWithin. The next one with this delay would not make flush_at_
  // earlier. Zero: flush_at_ was set otherwise since then.
  absl::Duration flush_delay_;
  // True if not all waiting ends are mere reports of deliveries whose token stays out.
  bool urgent_ = false;
  bool committing_ = false;
  uint64_t commits_ = 0;
  KnownParts parts_;  // the counts as they are in the store
  // The counts of the first outcomes, this many, are in parts_, or are being read.
  size_t known_outcomes_ = 0;
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_ENDS_END_LOOP_H_
