// MasterWorld: a master over a store in memory, on virtual time; for tests.

#ifndef SERVICES_MASTER_TESTING_MASTER_WORLD_H_
#define SERVICES_MASTER_TESTING_MASTER_WORLD_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/kv/client/kv_client.h"
#include "common/kv/memory/mem_kv_store.h"
#include "common/sim/sim_runtime.h"
#include "common/storage/event_table.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/master/audit/audit_service.h"
#include "services/master/calendars/calendar_service.h"
#include "services/master/explain/explain_service.h"
#include "services/master/keys/key_service.h"
#include "services/master/notifications/subscription_service.h"
#include "services/master/operations/dead_letter_service.h"
#include "services/master/operations/event_cancel_service.h"
#include "services/master/operations/operation_service.h"
#include "services/master/service/master_service.h"
#include "services/master/statistics/statistics_service.h"
#include "services/master/target_states/target_service.h"
#include "services/master/tenants/tenant_service.h"

namespace escapement::master {

class MasterWorld {
 public:
  MasterWorld();
  ~MasterWorld();

  // Calls a method of an API and waits, in virtual time, for its answer.
  //   auto schedule = fixture.Call(&ScheduleApi::CreateSchedule, request);
  template <typename Api, typename Request, typename Response>
  absl::StatusOr<Response> Call(void (Api::*method)(Request, Done<Response>), Request request) {
    std::optional<absl::StatusOr<Response>> answer;
    (ApiOf(static_cast<Api*>(nullptr)).*method)(
        std::move(request),
        [&](absl::StatusOr<Response> response) { answer = std::move(response); });
    if (!runtime.RunUntil([&] { return answer.has_value(); }, absl::Minutes(5)))
      return absl::DeadlineExceededError("-");
    return *std::move(answer);
  }
  absl::StatusOr<v1::IngestResponse> Ingest(v1::IngestRequest request, bool return_ids = false);

  // Ends the master and starts another one over the same store.
  void Restart(MasterOptions options = {});

  // As another service would: each group must apply, or the test fails.
  void Commit(std::vector<kv::Group> groups);
  // `done` gets whether all groups applied. Does not wait.
  void TryCommit(std::vector<kv::Group> groups, absl::AnyInvocable<void(bool applied)> done);
  void Put(kv::ColumnFamily cf, std::string key, std::string value);
  void Delete(kv::ColumnFamily cf, std::string key);
  std::optional<std::string> Get(kv::ColumnFamily cf, const std::string& key);

  // All rows of a column family / of all but the store's own and the audit.
  const kv::MemDisk::Family& Rows(kv::ColumnFamily cf) const;
  std::string Dump() const;
  // `events`, decoded, by occurrence.
  std::vector<std::pair<EventKey, storage::v1::EventRecord>> Events() const;

  // Where events wait under policies of tenant "default" that the API has made.
  uint16_t PolicyShardOfTenant() const;

  // The emitter's checkpoints of all partitions.
  void SetCheckpoints(absl::Time emitted_to, absl::Time planned_to);

  absl::Time Now() const { return runtime_now(); }

  sim::SimRuntime runtime{1};
  std::unique_ptr<kv::MemKvStore> store;
  std::unique_ptr<MasterService> master;
  kv::Layout layout;

 private:
  ScheduleApi& ApiOf(ScheduleApi*) { return master->schedules(); }
  EventApi& ApiOf(EventApi*) { return master->events(); }
  RunApi& ApiOf(RunApi*) { return master->runs(); }
  PolicyApi& ApiOf(PolicyApi*) { return master->policies(); }
  CalendarService& ApiOf(CalendarService*) { return master->calendars(); }
  TenantService& ApiOf(TenantService*) { return master->tenants(); }
  KeyService& ApiOf(KeyService*) { return master->keys(); }
  AuditService& ApiOf(AuditService*) { return master->audit(); }
  TargetService& ApiOf(TargetService*) { return master->targets(); }
  StatisticsService& ApiOf(StatisticsService*) { return master->statistics(); }
  SubscriptionService& ApiOf(SubscriptionService*) { return master->subscriptions(); }
  DeadLetterService& ApiOf(DeadLetterService*) { return master->dead_letters(); }
  EventCancelService& ApiOf(EventCancelService*) { return master->event_cancels(); }
  OperationService& ApiOf(OperationService*) { return master->operations(); }
  ExplainService& ApiOf(ExplainService*) { return master->explanations(); }
  absl::Time runtime_now() const;

  std::shared_ptr<Executor> executor_;
  std::unique_ptr<kv::KvClient> client_;
};

// As a handler: its claim with this number of the row, with the shard's mark; on condition that the
// row is there.
kv::Group ClaimOf(const EventKey& key, uint64_t number = 1);

// tenants/default/schedules/… that is valid: every minute, to an HTTP target.
v1::CreateScheduleRequest ValidSchedule(const std::string& id,
                                        const std::string& cron = "* * * * *");
// A valid one-off event, due at `due`.
v1::CreateEventRequest ValidEvent(absl::Time due, const std::string& id = "");
// A batch of `count` events due at `due`.
v1::IngestRequest ValidBatch(absl::Time due, int count);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_TESTING_MASTER_WORLD_H_
