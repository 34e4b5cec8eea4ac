// HandlerWorld: a store in memory, virtual time, a scripted consumer and any number of handlers,
// for tests.

#ifndef SERVICES_HANDLER_TESTING_HANDLER_WORLD_H_
#define SERVICES_HANDLER_TESTING_HANDLER_WORLD_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/kv/client/kv_client.h"
#include "common/kv/forwarding_kv_store.h"
#include "common/kv/memory/mem_kv_store.h"
#include "common/sim/sim_runtime.h"
#include "common/storage/event_table.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/handler/service/handler_service.h"

namespace escapement::handler {

struct SentEvent {
  absl::Time at;
  std::string target;
  DeliveryAttempt attempt;
};

// Answers each attempt `delay` after it was sent with the result of `decide`. If that is nullopt,
// the attempt ends at its timeout as kUnknown.
class ScriptedTransport : public DeliveryTransport {
 public:
  explicit ScriptedTransport(sim::SimRuntime& runtime)
      : runtime_(runtime), executor_(runtime.NewExecutor("consumer")) {}
  void Send(std::vector<DeliveryAttempt> attempts, std::shared_ptr<DeliverySink> sink) override;

  std::function<std::optional<DeliveryResult>(const DeliveryAttempt&)> decide;
  absl::Duration delay = absl::Milliseconds(1);
  std::vector<SentEvent> sent;
  size_t CountTo(const std::string& target) const;

 private:
  sim::SimRuntime& runtime_;
  std::shared_ptr<Executor> executor_;
};

// The store as handlers see it. While it is quiet, claims are committed, but their answers come
// only when the quiet time ends, and batches of watches are lost. Answers to parking commits and to
// scans can be delayed as well.
class QuietStore final : public kv::ForwardingKvStore {
 public:
  using kv::ForwardingKvStore::ForwardingKvStore;
  using KvStore::Commit;
  void Commit(std::shared_ptr<const kv::CommitRequest> request,
              Callback<kv::CommitResult> done) override;
  std::unique_ptr<kv::Watch> OpenWatch(kv::WatchRequest request,
                                       kv::WatchObserver observer) override;
  void Scan(kv::ScanRequest request, Callback<kv::ScanResult> done) override;
  void BeQuiet() { *quiet_ = true; }
  void HoldAnswersOfParked() { *holds_parked_ = true; }
  // Refuses the next commits that put a note of a takeover, for want of room.
  void RefuseNotes(int commits) { notes_to_refuse_ = commits; }
  int notes_to_refuse() const { return notes_to_refuse_; }
  // Refuses the next commit that ends something, as one that makes no sense.
  void RefuseNextEnds() { refuses_ends_ = true; }
  // Delays the answers to scans of lanes.
  void HoldAnswersOfScans() { *holds_scans_ = true; }
  void TellAll();

  uint64_t commits = 0;      // until now
  uint64_t event_scans = 0;  // scans of `events` until now
  uint64_t rows_told = 0;    // puts into `events` that watches have reported until now

 private:
  int notes_to_refuse_ = 0;
  bool refuses_ends_ = false;
  const std::shared_ptr<bool> quiet_ = std::make_shared<bool>(false);
  const std::shared_ptr<bool> holds_parked_ = std::make_shared<bool>(false);
  const std::shared_ptr<bool> holds_scans_ = std::make_shared<bool>(false);
  const std::shared_ptr<std::vector<Closure>> held_ = std::make_shared<std::vector<Closure>>();
};

class HandlerWorld {
 public:
  static constexpr uint32_t kShards = 2;

  HandlerWorld();
  // `read_delay`: the time that the store takes to answer a read.
  explicit HandlerWorld(HandlerOptions options, absl::Duration read_delay = absl::ZeroDuration());

  absl::Time now() { return runtime.world().Now(); }
  void Advance(absl::Duration duration) { runtime.AdvanceBy(duration); }

  // `dead`: instances that are proven to be dead.
  HandlerService& StartHandler(const std::string& name, std::vector<std::string> dead = {});
  // Ends the handler at once: none of its code runs any more, and it gets no further answers.
  void KillHandler(const std::string& name);
  HandlerService& handler(const std::string& name) { return *handlers_.at(name).service; }
  ScriptedTransport& transport(const std::string& name) { return *handlers_.at(name).transport; }
  // The deliveries of all handlers, including dead ones, by time.
  std::vector<SentEvent> Sent() const;

  // Commits the group; true if it applied.
  bool Commit(kv::Group group);
  void Put(kv::ColumnFamily cf, std::string key, std::string value);

  // Adds a schedule with a daily occurrence at 03:00 UTC and the gRPC URI `target`.
  Uid AddSchedule(const std::string& id, const std::string& target = "consumer");
  void SetState(const Uid& uid, storage::v1::ScheduleStateKind kind, uint64_t version = 1,
                absl::Time cancelled_before = absl::UnixEpoch());
  void AddDefinition(const Uid& uid, uint64_t version, const std::string& cron,
                     const std::string& target = "consumer");

  struct Row {
    uint16_t shard = 0;
    uint8_t lane = 5;
    absl::Time due = absl::InfinitePast();
    std::string occurrence = "o1";
    uint64_t first = 0;
    uint64_t count = 1;
    uint64_t run_count = 1;
    int64_t nominal_micros = 0;
  };
  // Returns the row's key.
  std::string AddRow(const Uid& uid, const Row& row);
  // Returns the row's key. An event without `id` gets a server-made one. Its payload must differ
  // from those of all other events.
  std::string AddOneOff(const std::string& id, absl::Time due, const std::string& payload,
                        const std::string& target = "consumer", uint16_t shard = 0);

  // The contents of the store.
  std::map<std::string, std::string> Rows(kv::ColumnFamily cf) const;
  size_t Count(kv::ColumnFamily cf) const { return Rows(cf).size(); }
  std::vector<storage::v1::DoneRecord> Done() const;
  // The events in Done records with that outcome.
  uint64_t DoneEvents(storage::v1::OutcomeKind outcome) const;
  // The counts of the only run that has any, all in one part.
  storage::v1::RunPartRecord OnlyRunPart() const;
  // The counts of all runs of the schedule.
  storage::v1::RunPartRecord ScheduleCounts(const Uid& uid) const;

  sim::SimRuntime runtime{1};
  kv::MemKvStore store;
  QuietStore quiet_store{store};
  storage::v1::RetryRecord retry;  // for definitions made from now on
  absl::Duration timeout = absl::Seconds(10);
  std::optional<storage::v1::ThrottleRecord> throttle;  // for definitions made from now on
  absl::Duration max_lateness = absl::ZeroDuration();   // for one-off events made from now on
  // HandlerOptions::first_out_max of handlers started from now on. Targets of most tests have their
  // whole room at once.
  uint64_t first_out_max = HandlerOptions().target_events_out_max;

 private:
  struct Running {
    std::unique_ptr<ScriptedTransport> transport;
    std::unique_ptr<HandlerService> service;
  };
  storage::v1::DeliveryRecord Delivery(const std::string& target) const;

  HandlerOptions options_;
  std::shared_ptr<Executor> executor_;
  kv::KvClient client_;
  std::map<std::string, Running> handlers_;
  std::vector<SentEvent> sent_by_dead_;
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_TESTING_HANDLER_WORLD_H_
