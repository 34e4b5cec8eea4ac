// TokenWorld: for tests, a store in memory, virtual time, queue shards with live leases, a scripted
// handler, and any number of token managers.

#ifndef SERVICES_TOKEN_MANAGER_TESTING_TOKEN_WORLD_H_
#define SERVICES_TOKEN_MANAGER_TESTING_TOKEN_WORLD_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/kv/client/kv_client.h"
#include "common/kv/forwarding_kv_store.h"
#include "common/kv/memory/mem_kv_store.h"
#include "common/sim/sim_runtime.h"
#include "common/storage/schedule_table.h"
#include "common/storage/waiting_table.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/token_manager/service/token_manager_service.h"

namespace escapement::token_manager {

// An event of a claim, with the token it holds.
struct SentEvent {
  absl::Time at;
  Uid uid;
  std::string occurrence;
  uint64_t index = 0;
  uint32_t attempts = 0;  // that had begun before
  uint64_t run_count = 1;
  storage::v1::GrantRef grant;
};

// A store whose watches tell late, or miss something, whose answers may come late, and
// that may be full.
class PoorStore final : public kv::ForwardingKvStore {
 public:
  PoorStore(kv::KvStore& inner, Runtime& runtime)
      : ForwardingKvStore(inner), executor_(runtime.NewExecutor("watches")) {}
  std::unique_ptr<kv::Watch> OpenWatch(kv::WatchRequest request,
                                       kv::WatchObserver observer) override;

  using KvStore::Commit;
  void Commit(std::shared_ptr<const kv::CommitRequest> request,
              Callback<kv::CommitResult> done) override;
  void MultiGet(std::vector<kv::Key> keys, Callback<kv::GetResult> done) override;
  void Scan(kv::ScanRequest request, Callback<kv::ScanResult> done) override;
  // The watches that are open have missed something: those of `waiting`, or of `policies`.
  void Lag(kv::ColumnFamily cf = kv::ColumnFamily::kWaiting);

  // Delays of watches of `waiting`, and of `states`, that are opened from now on.
  absl::Duration delay = absl::ZeroDuration();
  absl::Duration states_delay = absl::ZeroDuration();
  // Delay of the answers to reads of policies.
  absl::Duration policies_delay = absl::ZeroDuration();
  // Delays of the answers to reads of `waiting`: of single rows, and of ranges.
  absl::Duration get_delay = absl::ZeroDuration();
  absl::Duration scan_delay = absl::ZeroDuration();
  bool full = false;  // no commit under a fence has room
  // True for commits whose answers are held back until LetAnswersGo; nullptr: none.
  std::function<bool(const kv::CommitRequest&)> answered_late = nullptr;
  void LetAnswersGo();

 private:
  struct Opened {
    kv::ColumnFamily cf;
    std::function<void(absl::Status)> on_lagged;
    bool ended = false;
  };
  // `done`, called so much later.
  template <typename T>
  Callback<T> Late(absl::Duration by, Callback<T> done);

  std::vector<std::shared_ptr<Opened>> opened_;
  std::vector<Closure> answers_;
  std::shared_ptr<Executor> executor_;
};

// Long enough for everything under way to come to rest.
inline constexpr absl::Duration kSettle = absl::Seconds(3);

class TokenWorld {
 public:
  using Entry = storage::v1::GrantReportRecord::Entry;
  using Kind = storage::v1::GrantReportRecord::Kind;
  static constexpr uint32_t kQueueShards = 2;
  static constexpr uint32_t kPolicyShards = 2;
  static uint16_t ShardOf(const Uid& policy) { return PolicyShardOf(policy, kPolicyShards); }

  TokenWorld() : TokenWorld(TokenManagerOptions()) {}
  explicit TokenWorld(TokenManagerOptions options, uint64_t seed = 1);

  absl::Time now() { return runtime.world().Now(); }
  void Advance(absl::Duration duration) { runtime.AdvanceBy(duration); }

  TokenManagerService& Start(const std::string& name);
  void Kill(const std::string& name) { managers_.erase(name); }
  TokenManagerService& manager(const std::string& name) { return *managers_.at(name); }

  // Writes; true if the group applied.
  bool Commit(kv::Group group);
  void Put(kv::ColumnFamily cf, std::string key, std::string value);
  void Delete(kv::ColumnFamily cf, std::string key);

  // --- what is there ---
  struct Schedule {
    std::string policy_id = {};  // empty: none
    std::string target = "consumer";
    bool on_release = true;
    std::optional<storage::v1::WindowRecord> window = std::nullopt;
    uint32_t priority = 5;
    uint64_t version = 1;
    std::string cron = "0 3 * * *";
    std::string policy_key = {};
  };
  // Its uid; the schedule is enabled.
  Uid AddSchedule(const std::string& id, const Schedule& schedule);
  void AddDefinition(const Uid& uid, const Schedule& schedule);
  void SetState(const Uid& uid, storage::v1::ScheduleStateKind kind, uint64_t version = 1,
                absl::Time cancelled_before = absl::UnixEpoch());
  Uid PutPolicy(const std::string& id, const storage::v1::PolicyRecord& record);
  static storage::v1::PolicyRecord Limits(uint64_t max_concurrent);

  struct Row {
    absl::Time due;
    uint64_t count = 1;
    std::string occurrence = "o1";
    bool run_kept = false;
    std::optional<absl::Time> window_begin = std::nullopt;  // nullopt: when it is due
  };
  // Returns its key.
  std::string AddRow(const Uid& uid, const Schedule& schedule, const Row& row);
  struct OneOff {
    std::string policy_id = {};
    absl::Time due = {};
    std::string target = "consumer";
    std::string id = {};  // empty: a server-made one
    std::string payload = "payload";
    bool on_release = true;
    std::string policy_key = {};
    // With several limits: all policies have PolicyRecord.by_tenant.
    uint64_t weight = 1;
    std::vector<storage::v1::LimitRecord> more = {};
    bool by_tenant = false;
    uint8_t priority = 5;
    absl::Duration max_lateness = absl::ZeroDuration();
  };
  // As the master does it. Returns its uid.
  Uid AddOneOff(const OneOff& event);
  // As the master does it: both rows, on condition that they are there. False: it has been granted.
  bool CancelOneOff(const Uid& uid);
  // As the master does it: state and row of the new version are of one commit.
  void ChangeSchedule(const Uid& uid, const Schedule& schedule, const Row& row);
  void PutLiveQueueShard(uint16_t shard, absl::Duration ttl = absl::Hours(24));

  // --- the handler ---
  // Takes all claims that there are, and of each event what `decide` says (default: DELIVERED for
  // ON_RELEASE, SUCCEEDED for others) reports; nullopt: nothing. The claims are deleted with it.
  // Returns what it has taken.
  std::vector<SentEvent> Handle(
      const std::function<std::optional<Entry>(const SentEvent&)>& decide = nullptr);
  static Entry EntryOf(const SentEvent& event, Kind kind);
  // Stores a report of these entries, all of one policy shard.
  void Report(uint16_t policy_shard, const std::vector<Entry>& entries);

  // --- the consumer ---
  // The answer of Apply at this manager.
  absl::StatusOr<std::vector<bool>> Apply(const std::string& name, uint16_t policy_shard,
                                          const std::vector<Entry>& entries);
  bool Complete(const std::string& name, const SentEvent& event,
                Kind kind = storage::v1::GrantReportRecord::COMPLETED);

  // --- what is in the store ---
  std::map<std::string, std::string> Rows(kv::ColumnFamily cf) const;
  size_t Count(kv::ColumnFamily cf) const;
  std::vector<std::pair<WaitingKey, storage::v1::EventRecord>> Waiting() const;
  std::vector<storage::v1::GrantRecord> Grants() const;
  uint64_t Held(const Uid& policy) const;
  storage::v1::PolicyCountsRecord Counts(const Uid& policy) const;
  std::vector<storage::v1::DoneRecord> Done() const;
  uint64_t DoneEvents(storage::v1::OutcomeKind outcome) const;
  storage::v1::RunPartRecord Part(const Uid& uid, const std::string& occurrence,
                                  const Uid& policy) const;

  sim::SimRuntime runtime;
  // After each durable commit, in order.
  std::function<void(const kv::CommitRecord&)> on_commit;
  kv::MemKvStore store;
  PoorStore poor_store;            // the token managers'
  storage::v1::RetryRecord retry;  // for definitions made from now on

 private:
  kv::MemKvStore::Options StoreOptions();
  static kv::Mutation RowMutation(const Uid& uid, const Schedule& schedule, const Row& row);

  TokenManagerOptions options_;
  std::shared_ptr<Executor> executor_;
  kv::KvClient client_;
  std::map<std::string, std::unique_ptr<TokenManagerService>> managers_;
  uint64_t reports_ = 0;
  uint64_t one_offs_ = 0;
};

}  // namespace escapement::token_manager

#endif  // SERVICES_TOKEN_MANAGER_TESTING_TOKEN_WORLD_H_
