// WaitingLoader: loads a policy shard's rows into memory.
//
// When the shard is acquired, it opens a watch on the shard's part of `waiting`. Then it reads all
// grants (the holders), the reports, and the first rows of each group; it skips the rest of a full
// group by seeking. From then on the watch reports new rows and reports. As a group drains, the
// loader reads on from the group's end.
//
// A reading begins only while no commit of the shard is under way. So a result is never older than
// a commit in the same range. (Rows of a commit are not read: they lie before the end.)
//
// Threads: one, the token manager's executor.

#ifndef SERVICES_TOKEN_MANAGER_JUDGING_WAITING_LOADER_H_
#define SERVICES_TOKEN_MANAGER_JUDGING_WAITING_LOADER_H_

#include <functional>
#include <string>

#include "common/kv/client/watched_range.h"
#include "services/token_manager/shard/shard_state.h"

namespace escapement::token_manager {

class WaitingLoader {
 public:
  // `on_lagged`: the watch has missed something, and the shard must be loaded again.
  WaitingLoader(PolicyShardState& state, std::function<void()> on_lagged);

  // True once these are known: all holders, the records that their reports need, and the first rows
  // of each group.
  bool ready() const { return phase_ == Phase::kReady; }
  // Between commits: reads on.
  void Step();

 private:
  enum class Phase { kNew, kGrants, kRows, kRecords, kReady };

  void OnBatch(const kv::WatchBatch& batch);
  void AddWatched(const std::string& key, const std::string* value);
  void Add(const std::string& key, const std::string& value, kv::CommitSeq read_seq);
  void RemoveWatched(const std::string& key);
  void ReadRows();
  template <typename Then>
  void Scan(kv::ColumnFamily cf, std::string begin, const std::string& prefix, uint32_t limit,
            Then then);
  uint32_t RowsToScan() const;
  // Reads all grants, or the first rows of all groups, as the phase is.
  void Load(std::string from);
  void AddGrant(const std::string& key, const std::string& value);
  // Returns from where to go on.
  std::string AddFirst(const kv::Entry& row, kv::CommitSeq seq);
  void ScanReports();
  void ScanGroups();

  PolicyShardState& state_;
  Phase phase_ = Phase::kNew;
  kv::WatchedRange watch_;
  uint64_t scans_ = 0;  // numbers given to scans of groups
  size_t group_scans_ = 0;
};

}  // namespace escapement::token_manager

#endif  // SERVICES_TOKEN_MANAGER_JUDGING_WAITING_LOADER_H_
