// WaitingLoader: loads a policy shard's rows into memory. PolicyWatch: reports every change of a
// policy's record.

#ifndef SERVICES_TOKEN_MANAGER_JUDGING_WAITING_LOADER_H_
#define SERVICES_TOKEN_MANAGER_JUDGING_WAITING_LOADER_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/uid.h"
#include "common/kv/client/kv_client.h"
#include "common/runtime/runtime.h"
#include "services/token_manager/shard/record_reader.h"
#include "services/token_manager/shard/shard_state.h"

namespace escapement::token_manager {

// PolicyWatch: reports every change of a policy's record.
//
// Threads: one, that of `executor`.
class PolicyWatch {
 public:
  struct Callbacks {
    // nullopt: it was deleted.
    std::function<void(const Uid& policy, const std::optional<std::string>& record,
                       kv::CommitSeq seq)>
        on_policy;
    // It has changed, and must be read.
    std::function<void(const Uid& policy)> on_large;
    // Called when the watch opens: at the start, and each time it has missed something. Later reads
    // are followed by the watch's changes; earlier reads may be old.
    std::function<void()> on_open;
  };

  PolicyWatch(kv::KvClient& client, std::shared_ptr<Executor> executor, Callbacks callbacks);
  ~PolicyWatch();

  void Start();

 private:
  void OpenWatch(kv::CommitSeq from);
  void OnBatch(const kv::WatchBatch& batch);

  kv::KvClient& client_;
  std::shared_ptr<Executor> executor_;
  Callbacks callbacks_;
  std::shared_ptr<int> alive_;  // its address changes with each start
  std::unique_ptr<kv::Watch> watch_;
};

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
class WaitingLoader {
 public:
  // `on_lagged`: the watch has missed something, and the shard must be loaded again.
  WaitingLoader(std::weak_ptr<PolicyShardState> state, RecordReader& reader,
                std::function<void()> on_lagged);

  void Start();
  // True once these are known: all holders, the records that their reports need, and the first rows
  // of each group.
  bool ready() const { return phase_ == Phase::kReady; }
  // Between commits: reads on.
  void Step();

  // A row of the shard was written by this process for another shard.
  void OnOwnRow(const std::string& key);

 private:
  enum class Phase { kNew, kGrants, kRows, kRecords, kReady };

  void OpenWatch(kv::CommitSeq from);
  void OnBatch(PolicyShardState& state, const kv::WatchBatch& batch);
  // Returns true if the row must be read. `value` is null if the watch has left it out.
  bool ReadWatched(PolicyShardState& state, const std::string& key, const std::string* value);
  void AddWatched(PolicyShardState& state, const std::string& key, const std::string& value,
                  kv::CommitSeq read_seq);
  void RemoveWatched(PolicyShardState& state, const std::string& key);
  void ReadRows(PolicyShardState& state, std::vector<std::string> keys);
  void OnRowRead(PolicyShardState& state, const std::string& key,
                 const std::optional<std::string>& value, kv::CommitSeq seq);
  void ScanGrants(std::string from);
  void AddGrant(PolicyShardState& state, const std::string& key, const std::string& value);
  void ScanRows(std::string from);
  // From where to go on.
  std::string AddRows(PolicyShardState& state, const kv::ScanResult& result);
  void ScanReports(PolicyShardState& state);
  void ScanGroups(PolicyShardState& state);

  std::weak_ptr<PolicyShardState> state_;
  RecordReader& reader_;
  std::function<void()> on_lagged_;
  Phase phase_ = Phase::kNew;
  std::unique_ptr<kv::Watch> watch_;
  uint64_t readings_ = 0;  // numbers given, as are scans_
  uint64_t scans_ = 0;
  size_t group_scans_ = 0;
  std::pair<Uid, GroupKey> last_read_on_;
};

}  // namespace escapement::token_manager

#endif  // SERVICES_TOKEN_MANAGER_JUDGING_WAITING_LOADER_H_
