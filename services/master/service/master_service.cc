#include "services/master/service/master_service.h"

#include <string>
#include <utility>

#include "common/base/log.h"
#include "common/kv/client/kv_client.h"
#include "common/kv/layout.h"
#include "common/metrics/metrics.h"
#include "common/tokens/token_batch.h"
#include "services/master/audit/audit_service.h"
#include "services/master/base/limits.h"
#include "services/master/base/master_context.h"
#include "services/master/base/metrics.h"
#include "services/master/calendars/calendar_service.h"
#include "services/master/calendars/retiming_loop.h"
#include "services/master/cells/cell_directory.h"
#include "services/master/cells/cell_service.h"
#include "services/master/events/delivery_sweep_loop.h"
#include "services/master/events/event_service.h"
#include "services/master/explain/explain_service.h"
#include "services/master/heartbeat/heartbeat_loop.h"
#include "services/master/keys/key_service.h"
#include "services/master/notifications/notification_loop.h"
#include "services/master/notifications/subscription_service.h"
#include "services/master/operations/dead_letter_service.h"
#include "services/master/operations/event_cancel_service.h"
#include "services/master/operations/operation_loop.h"
#include "services/master/operations/operation_service.h"
#include "services/master/policies/policy_service.h"
#include "services/master/requests/request_table.h"
#include "services/master/runs/account_loop.h"
#include "services/master/runs/run_service.h"
#include "services/master/schedules/changes/pause_request_loop.h"
#include "services/master/schedules/definition_sweep_loop.h"
#include "services/master/schedules/schedule_service.h"
#include "services/master/statistics/statistics_service.h"
#include "services/master/sweeps/sweep_loop.h"
#include "services/master/target_states/target_service.h"
#include "services/master/tenants/tenant_rules.h"
#include "services/master/tenants/tenant_service.h"

namespace escapement::master {
namespace {

constexpr absl::Duration kLayoutRetryEvery = absl::Seconds(1);

}  // namespace

struct MasterService::Parts {
  Parts(Options options, kv::KvStore& store, Runtime& runtime, MasterService* home)
      : own_metrics(options.metrics == nullptr ? std::make_unique<Metrics>() : nullptr),
        metrics(options.metrics == nullptr ? *own_metrics : *options.metrics),
        secrets(options.sealer),
        fresh_token_key(options.fresh_token_key.empty() ? FreshTokenKey()
                                                        : options.fresh_token_key),
        executor(runtime.NewExecutor(options.instance)),
        client(store, runtime, ClientOptions(options)),
        context{.client = client,
                .runtime = runtime,
                .executor = executor,
                .metrics = metrics,
                .secrets = secrets,
                .layout = {}},
        schedules(context),
        events(context),
        runs(context, directory, options.run_list_days),
        policies(context),
        retiming(context),
        calendars(context, retiming),
        cell_directory(client, executor),
        cells(context, options.open_store),
        tenants(context, directory, cell_directory),
        keys(context),
        audit(context, home == nullptr ? nullptr : &home->context().client),
        targets(context),
        statistics(context),
        subscriptions(context),
        dead_letters(context, operation_loop, options.dead_letter_retention),
        event_cancels(context, operation_loop),
        operations(context),
        explanations(context),
        directory(client, executor),
        cell(options.cell),
        rules(context, directory),
        bootstrap(context, options.bootstrap_key_file),
        sweep(context),
        access_sweep(client, executor, kSweepEvery, AccessSweep()),
        target_sweep(client, executor, kTargetSweepEvery, TargetSweep()),
        tenant_sweep(client, executor, kTenantSweepEvery, TenantSweep()),
        statistics_sweep(client, executor, kSweepEvery, StatisticsSweep()),
        pause_requests(context),
        operation_loop(context),
        dead_letter_sweep(client, executor, kSweepEvery,
                          DeadLetterSweep(options.dead_letter_retention, metrics)),
        definition_sweep(context, directory),
        delivery_sweep(context),
        heartbeat(executor, schedules, options.heartbeat_every),
        account_loop(context, directory, options.account_every),
        notifications({context, directory, runs, explanations}, options.notify_every) {
    metrics.heartbeat_every_seconds.Set(absl::ToDoubleSeconds(options.heartbeat_every));
    context.defaults_of = [this](const std::string& tenant) {
      return directory.DefaultsOf(tenant);
    };
  }

  kv::KvClient::Options ClientOptions(const Options& options) {
    kv::KvClient::Options client_options;
    client_options.name = options.instance;
    client_options.session_executor = executor;
    client_options.on_session_lost = [this] {
      events.ForgetInterned();
      delivery_sweep.GiveUp();
    };
    return client_options;
  }

  void ReadLayout() {
    client.MultiGet(
        {{kv::ColumnFamily::kMeta, std::string(kv::kLayoutKey)}}, executor,
        [this](absl::StatusOr<kv::GetResult> result) {
          if (!result.ok() || !result->values[0].has_value() || !UseLayout(*result->values[0])) {
            executor->PostAfter(kLayoutRetryEvery, [this] { ReadLayout(); });
          }
        });
  }

  void ReadTokenKey() {
    LoadTokenMint(client, executor, fresh_token_key, [this](std::shared_ptr<const TokenMint> mint) {
      context.mint = std::move(mint);
    });
  }

  bool UseLayout(const std::string& bytes) {
    const absl::StatusOr<kv::Layout> layout = kv::DecodeLayout(bytes);
    if (!layout.ok() || draining) return layout.ok();
    if (layout->cell != cell) {
      Log(LogLevel::kError, "master", "the store is of another cell; it is not served",
          {{"cell", layout->cell}, {"wanted", cell}});
      return false;
    }
    context.layout = *layout;
    context.ready = true;
    bootstrap.Start();
    sweep.Start();
    access_sweep.Start();
    target_sweep.Start();
    tenant_sweep.Start();
    statistics_sweep.Start();
    pause_requests.Start();
    retiming.Start();
    operation_loop.Start();
    dead_letter_sweep.Start();
    definition_sweep.Start();
    delivery_sweep.Start();
    heartbeat.Start();
    account_loop.Start();
    notifications.Start();
    return true;
  }

  const std::unique_ptr<Metrics> own_metrics;
  MasterMetrics metrics;
  const TargetSecrets secrets;
  const std::string fresh_token_key;
  const std::shared_ptr<Executor> executor;
  kv::KvClient client;
  MasterContext context;
  ScheduleService schedules;
  EventService events;
  RunService runs;
  PolicyService policies;
  RetimingLoop retiming;
  CalendarService calendars;
  CellDirectory cell_directory;
  CellService cells;
  TenantService tenants;
  KeyService keys;
  AuditService audit;
  TargetService targets;
  StatisticsService statistics;
  SubscriptionService subscriptions;
  DeadLetterService dead_letters;
  EventCancelService event_cancels;
  OperationService operations;
  ExplainService explanations;
  TenantDirectory directory;
  const uint32_t cell;
  MasterTenantRules rules;
  BootstrapKeyLoop bootstrap;
  RequestSweepLoop sweep;
  SweepLoop access_sweep;
  SweepLoop target_sweep;
  SweepLoop tenant_sweep;
  SweepLoop statistics_sweep;
  PauseRequestLoop pause_requests;
  OperationLoop operation_loop;
  SweepLoop dead_letter_sweep;
  DefinitionSweepLoop definition_sweep;
  DeliverySweepLoop delivery_sweep;
  HeartbeatLoop heartbeat;
  AccountLoop account_loop;
  NotificationLoop notifications;
  bool draining = false;  // on the executor
};

MasterService::MasterService(Options options, kv::KvStore& store, Runtime& runtime,
                             MasterService* home)
    : parts_(std::make_unique<Parts>(std::move(options), store, runtime, home)) {}

MasterService::~MasterService() { Stop(); }

void MasterService::Stop() {
  parts_->context.ready = false;
  parts_->executor->Stop();
}

void MasterService::Start() {
  parts_->executor->Post([parts = parts_.get()] {
    parts->ReadLayout();
    parts->ReadTokenKey();
    if (parts->cell == kHomeCell) {
      parts->rules.Start();
      parts->cell_directory.Start();
    }
    parts->directory.Start();
  });
}

bool MasterService::Ready() const {
  return parts_->context.ready && parts_->client.Connected() && parts_->directory.loaded();
}

void MasterService::Drain(Closure done) {
  parts_->context.ready = false;
  parts_->executor->Post([parts = parts_.get(), done = std::move(done)]() mutable {
    parts->draining = true;
    parts->context.ready = false;
    done();
  });
}

ScheduleApi& MasterService::schedules() { return parts_->schedules; }
EventApi& MasterService::events() { return parts_->events; }
RunApi& MasterService::runs() { return parts_->runs; }
PolicyApi& MasterService::policies() { return parts_->policies; }
CalendarService& MasterService::calendars() { return parts_->calendars; }
TenantService& MasterService::tenants() { return parts_->tenants; }
KeyService& MasterService::keys() { return parts_->keys; }
AuditService& MasterService::audit() { return parts_->audit; }
TargetService& MasterService::targets() { return parts_->targets; }
StatisticsService& MasterService::statistics() { return parts_->statistics; }
SubscriptionService& MasterService::subscriptions() { return parts_->subscriptions; }
DeadLetterService& MasterService::dead_letters() { return parts_->dead_letters; }
EventCancelService& MasterService::event_cancels() { return parts_->event_cancels; }
OperationService& MasterService::operations() { return parts_->operations; }
ExplainService& MasterService::explanations() { return parts_->explanations; }
MasterTenantRules& MasterService::tenant_rules() { return parts_->rules; }
MasterContext& MasterService::context() { return parts_->context; }
TenantDirectory& MasterService::directory() { return parts_->directory; }
CellDirectory& MasterService::cell_directory() { return parts_->cell_directory; }
CellService& MasterService::cells() { return parts_->cells; }

}  // namespace escapement::master
