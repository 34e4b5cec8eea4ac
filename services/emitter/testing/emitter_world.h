// A store, emitters in processes of their own on virtual time, and a hand that makes schedules as
// the master does.

#ifndef SERVICES_EMITTER_TESTING_EMITTER_WORLD_H_
#define SERVICES_EMITTER_TESTING_EMITTER_WORLD_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/kv/client/kv_client.h"
#include "common/kv/forwarding_kv_store.h"
#include "common/kv/memory/mem_kv_store.h"
#include "common/sim/sim_process.h"
#include "common/sim/sim_world.h"
#include "common/storage/children_table.h"
#include "common/storage/event_table.h"
#include "escapement/storage/v1/records.pb.h"
#include "gtest/gtest.h"
#include "services/emitter/service/emitter_service.h"

namespace escapement::emitter {

// Lets a test act just before a commit that adds event rows or Done records is given to the store.
class HookedKvStore final : public kv::ForwardingKvStore {
 public:
  using ForwardingKvStore::ForwardingKvStore;
  // Called with what sends the commit on; may keep it or drop it (then it never arrives).
  std::function<void(std::function<void()> send)> before_rows;
  // Called with what hands on the answer to such a commit.
  std::function<void(std::function<void()> answer)> before_answer;
  size_t children_read = 0;  // by scans
  size_t children_scans = 0;

  using KvStore::Commit;
  void Commit(std::shared_ptr<const kv::CommitRequest> request,
              Callback<kv::CommitResult> done) override;
  void Scan(kv::ScanRequest request, Callback<kv::ScanResult> done) override;
};

class EmitterWorld : public ::testing::Test {
 protected:
  EmitterOptions service_options_;  // for emitters started from now on; the name differs

  // 2026-03-01T00:00:00Z.
  explicit EmitterWorld(absl::Time start = absl::FromUnixSeconds(1'772'323'200));
  ~EmitterWorld() override;

  void StartEmitter(const std::string& name);
  void KillEmitter(const std::string& name);  // as kill -9
  const EmitterService& emitter(const std::string& name) const {
    return *emitters_.at(name).service;
  }
  void DrainEmitter(const std::string& name);  // until it is done

  // As the master: definition, state, children and what falls into [now, planned_to), in one group.
  // `adjust` may set further fields of the definition.
  Uid AddSchedule(const std::string& cron, const std::string& zone = "UTC",
                  uint64_t event_count = 1,
                  const std::function<void(storage::v1::DefinitionRecord&)>& adjust = nullptr);
  Uid AddInterval(absl::Duration every, absl::Time anchor,
                  const std::function<void(storage::v1::DefinitionRecord&)>& adjust = nullptr);
  Uid AddList(const std::vector<absl::Time>& times,
              const std::function<void(storage::v1::DefinitionRecord&)>& adjust = nullptr);
  // To adjust with.
  static std::function<void(storage::v1::DefinitionRecord&)> Misfire(
      storage::v1::MisfireKind action, uint32_t max_catch_up, absl::Duration threshold);
  // How many the schedule has in the index.
  size_t ChildrenOf(const Uid& uid) const;
  // A change of the schedule that leaves its times alone: a new version.
  kv::Group UpdateGroup(const Uid& uid);
  // Updates as the master does: the same group emits the occurrences until now, with all that was
  // read as conditions. False if another writer came first, or a window is half emitted.
  bool TryUpdate(const Uid& uid);
  void Commit(std::vector<kv::Group> groups);

  void Advance(absl::Duration duration) { world_.AdvanceBy(duration); }
  absl::Time Now() const { return world_.Now(); }
  absl::Time Checkpoint(const std::string& key) const;

  struct Row {
    EventKey key;
    storage::v1::EventRecord record;
  };
  // The rows of `events` now.
  std::vector<Row> Rows() const;
  const kv::MemDisk::Family& Disk(kv::ColumnFamily cf) const;

  // Expects that exactly the occurrences of all schedules in [from, to) have been put as rows, each
  // put once over the whole history, and with instants after `to` allowed.
  void ExpectEmittedOnce(absl::Time from, absl::Time to);

  struct Account {
    size_t fired = 0, skipped = 0, summarised = 0;
    size_t summaries = 0;  // records
    bool operator==(const Account&) const = default;
  };
  // Expects that each occurrence of one schedule, or of all, is accounted for exactly once: as
  // rows, as a Done record, or in a summary.
  Account ExpectAccounted(absl::Time from, absl::Time to);
  Account ExpectAccounted(const Uid& uid, absl::Time from, absl::Time to);
  // The Done records of the occurrences by id, and when their rows were put.
  using Skipped = std::map<std::string, storage::v1::DoneRecord>;
  using FiredAt = std::map<std::string, absl::Time>;
  std::map<Uid, Skipped> AllSkips() const;
  std::map<Uid, FiredAt> AllFired() const;
  Skipped Skips(const Uid& uid) const { return AllSkips()[uid]; }
  FiredAt Fired(const Uid& uid) const { return AllFired()[uid]; }

  sim::SimWorld world_;
  sim::SimProcess store_process_;
  bool own_machines_ = false;  // emitters that start tell the store about their machines' clocks
  kv::Layout layout_{.partitions = 4, .queue_shards = 4};
  std::unique_ptr<kv::MemKvStore> store_;
  std::unique_ptr<HookedKvStore> hooked_;
  // Every durable put of an event row: key → how often, with when.
  std::map<std::string, std::vector<absl::Time>> puts_;
  // Each durable commit, as it becomes durable.
  std::function<void(const kv::CommitRequest&)> on_durable_;

  struct Schedule {
    storage::v1::DefinitionRecord definition;
    storage::v1::StateRecord state;
    absl::Time from;  // its occurrences count from here
  };
  std::map<Uid, Schedule> schedules_;

 private:
  static Account ExpectAccounted(const Schedule& schedule, const FiredAt& fired,
                                 const Skipped& skips, absl::Time from, absl::Time to);

  struct Emitter {
    std::unique_ptr<sim::SimProcess> process;
    std::unique_ptr<EmitterService> service;
  };
  std::map<std::string, Emitter> emitters_;
  uint64_t starts_ = 0;
  sim::SimProcess client_process_;
  std::shared_ptr<Executor> executor_;
  std::unique_ptr<kv::KvClient> client_;
  uint64_t uids_ = 0;
};

}  // namespace escapement::emitter

#endif  // SERVICES_EMITTER_TESTING_EMITTER_WORLD_H_
