// MasterService: the public API of the platform over one session with the store of one cell.
// Stateless except for caches: any number may run.
//
// Threads: the APIs may be called from any thread; Start, Drain and the destructor from one, not
// from an answer's callback.

#ifndef SERVICES_MASTER_SERVICE_MASTER_SERVICE_H_
#define SERVICES_MASTER_SERVICE_MASTER_SERVICE_H_

#include <memory>

#include "common/kv/kv_store.h"
#include "common/runtime/runtime.h"
#include "services/master/api/master_apis.h"
#include "services/master/base/options.h"

namespace escapement::master {

class AuditService;
class CalendarService;
class CellDirectory;
class CellService;
class DeadLetterService;
class EventCancelService;
class ExplainService;
class KeyService;
class OperationService;
class StatisticsService;
class MasterTenantRules;
class SubscriptionService;
class TargetService;
class TenantDirectory;
class TenantService;
struct MasterContext;

class MasterService {
 public:
  using Options = MasterOptions;

  // `store` and `runtime` outlive the service, and so does `home`: the service of the home cell;
  // null if this is that one.
  MasterService(Options options, kv::KvStore& store, Runtime& runtime,
                MasterService* home = nullptr);
  // Drops what is under way: its callbacks are destroyed without being run.
  ~MasterService();
  MasterService(const MasterService&) = delete;
  MasterService& operator=(const MasterService&) = delete;

  // Reads the layout and is ready then; calls before that are answered UNAVAILABLE (NOT_READY).
  void Start();
  bool Ready() const;
  // Refuses new calls; what is under way goes on. `done` runs on the service's executor.
  void Drain(Closure done);
  // Ends all work, as the destructor does. Not on the executor.
  void Stop();

  ScheduleApi& schedules();
  EventApi& events();
  RunApi& runs();
  PolicyApi& policies();
  CalendarService& calendars();
  TenantService& tenants();
  KeyService& keys();
  AuditService& audit();
  TargetService& targets();
  StatisticsService& statistics();
  SubscriptionService& subscriptions();
  DeadLetterService& dead_letters();
  EventCancelService& event_cancels();
  OperationService& operations();
  ExplainService& explanations();

  // For the gate: the conditions for every call that names a tenant. Only in the home cell.
  MasterTenantRules& tenant_rules();

  // For who serves several cells (cell_masters.h). Cells only in the home cell.
  MasterContext& context();
  TenantDirectory& directory();
  CellDirectory& cell_directory();
  CellService& cells();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_SERVICE_MASTER_SERVICE_H_
