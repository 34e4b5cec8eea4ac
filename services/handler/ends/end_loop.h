// EndLoop: commits what became of events, for one queue shard: the outcomes of claimed ones, and
// rows that end without a claim.
//
// One commit is under way at a time: what arrives meanwhile goes with the next, so that batches
// grow with the load, and the counts of runs have a single writer in order.
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
#include "services/handler/intake/shard_loader.h"
#include "services/handler/shard_state.h"

namespace escapement::handler {

class EndLoop {
 public:
  // `loader` outlives it.
  EndLoop(ShardState& state, ShardLoader& loader) : state_(state), loader_(loader) {}

  void Add(Outcome outcome);

  // The row (its key is held) ends without having been claimed. `cached` is the state by which that
  // was decided; null for one-off events.
  void AddRow(RowEnd end, QueuedRow row, std::shared_ptr<const CachedState> cached);

  // Rows of `inflight` that mean nothing any more.
  void AddGarbage(std::vector<std::string> inflight_keys);

  void Step(absl::Time now);

  // Until when a Step is due, of Clock::Elapsed; nullopt: nothing waits.
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
  // Rows that apply together or not at all: those of one run, so that its count is put once, or a
  // row that counts in no run.
  struct RowGroup {
    kv::Group group;
    RunParts parts;                      // as the group puts them
    const CachedState* state = nullptr;  // the last one that is a condition
    std::vector<WaitingRow> rows;
  };
  // The contents of one commit: the batch's group first, then the groups of rows.
  struct Flight {
    kv::Commit commit;
    EndBatch batch;
    std::vector<RowGroup> row_groups;
  };
  static constexpr size_t kRowsOfRunMax = 1024;
  bool nothing_to_do() const { return outcomes_.empty() && rows_.empty() && garbage_.empty(); }
  // At the next whole multiple of `delay` of Clock::Elapsed, at the latest.
  void FlushWithin(absl::Duration delay);
  bool Due() const;
  std::vector<Outcome> TakeOutcomes();
  void Flush(absl::Time now);
  void FetchParts(std::vector<std::string> missing);
  void AddRows(absl::Time now, Flight& flight);
  // The group that takes the row; nullptr: it goes with a later commit.
  RowGroup* GroupFor(const WaitingRow& row, Flight& flight,
                     std::map<std::string, size_t>& by_run) const;
  void Send(std::shared_ptr<Flight> flight);
  void OnCommitted(Flight& flight, const kv::CommitResult& result);
  // Lets go of the key of a row, and queues what is there.
  void ReadAgain(std::vector<kv::Key> keys);

  ShardState& state_;
  ShardLoader& loader_;
  std::vector<Outcome> outcomes_;
  std::deque<WaitingRow> rows_;
  // Rows of one run in one commit: a group of many is refused if one of its rows has changed, and
  // then they go one by one for a while.
  size_t rows_of_run_max_ = kRowsOfRunMax;
  std::vector<std::string> garbage_;
  absl::Duration flush_at_;  // Clock::Elapsed by which those are to be committed
  // Somebody waits for one of them: not all are only news of a delivery whose token stays out.
  bool awaited_ = false;
  bool committing_ = false;
  uint64_t commits_ = 0;
  RunParts parts_;  // as in the store
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_ENDS_END_LOOP_H_
