#include "tests/simulation/scenario.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/base/check.h"
#include "common/sim/sim_network.h"
#include "common/sim/sim_process.h"
#include "common/sim/sim_world.h"
#include "services/master/cells/cell_service.h"
#include "services/master/service/cell_masters.h"
#include "services/master/tenants/tenant_service.h"
#include "tests/simulation/actors/accountant.h"
#include "tests/simulation/actors/consumer.h"
#include "tests/simulation/actors/event_owner.h"
#include "tests/simulation/actors/event_user.h"
#include "tests/simulation/actors/message_parts.h"
#include "tests/simulation/actors/policy_user.h"
#include "tests/simulation/actors/schedule_user.h"
#include "tests/simulation/actors/user_calls.h"
#include "tests/simulation/actors/worker.h"
#include "tests/simulation/cast.h"
#include "tests/simulation/checkers/checkers.h"
#include "tests/simulation/record/commit_log.h"
#include "tests/simulation/world/fault_plan.h"
#include "tests/simulation/world/hosts.h"
#include "tests/simulation/world/replica_set.h"

namespace escapement::simulation {

namespace {

// How long the work that is under way when the users end may take. Work that takes longer counts as
// left over.
constexpr absl::Duration kSettleMax = absl::Seconds(150);
// How long after the last fault leases may need new owners, and the store may distrust its clock.
constexpr absl::Duration kAftermath = absl::Seconds(15);
// The schedule whose attempts hang. One of its runs fills the room of its target.
constexpr char kHangingSchedule[] = "hangs";
constexpr uint64_t kHangingTargetOutMax = 16;
// The tenant of all users in kCells.
constexpr char kFarTenant[] = "far";

class Scenario {
 public:
  explicit Scenario(const ScenarioOptions& options)
      : options_(options),
        plan_(PlanOf({options.cast, options.seed, options.faults, options.length})),
        world_(options.seed,
               {.start_time = BeginOf(options.seed), .post_latency_max = absl::Microseconds(30)}),
        perturbations_(world_),
        random_(options.seed, "scenario"),
        store_network_(world_, "store network"),
        user_network_(world_, "user network"),
        owner_network_(world_, "owner network"),
        consumer_network_(world_, "consumer network"),
        consumer_(consumer_network_, HabitsOf(plan_.consumer)),
        user_process_(world_, "user"),
        account_network_(world_, "account network"),
        account_process_(world_, "accountant") {
    if (options.tracer) world_.set_tracer(options.tracer);
    MakeHosts();
    MakeUsers();
  }

  ScenarioResult Run() {
    site_->StartAll();
    if (home_ != nullptr) home_->Start();
    for (const auto& host : hosts_) host->Start();
    if (home_ != nullptr) PrepareCell();
    for (const auto& user : policy_users_) user->Start();
    for (const auto& user : schedule_users_) user->Start();
    for (const auto& user : event_users_) user->Start();
    for (const auto& user : event_owners_) user->Start();
    if (accountant_ != nullptr) accountant_->Start();
    if (options_.faults) ScheduleFaults();
    ScheduleCalm();
    world_.AdvanceBy(plan_.batches ? plan_.faults_end : plan_.users_end);
    if (plan_.batches) {
      world_.RunUntil([this] { return !AnyWaiting(site_->disk()) && !AnyGrant(site_->disk()); },
                      plan_.users_end - plan_.faults_end);
    }
    if (accountant_ != nullptr) {
      accountant_->Finish();
      world_.RunUntil([this] { return accountant_->finished(); }, kSettleMax);
    }
    for (const auto& user : schedule_users_) user->Finish();
    if (worker_ != nullptr) worker_->Tidy();
    // Policies are deleted after all schedules: a change under way may still give a schedule a
    // policy.
    world_.RunUntil([this] { return Finished(schedule_users_); }, kSettleMax);
    for (const auto& user : policy_users_) user->Finish();
    world_.RunUntil([this] { return Settled(); }, kSettleMax);
    // Leaves time for a faulty platform to send something twice.
    world_.AdvanceBy(absl::Seconds(5));
    return Judge();
  }

 private:
  Perturbations* perturbations() { return options_.perturb ? &perturbations_ : nullptr; }

  ConsumerHabits HabitsOf(ConsumerHabits habits) const {
    if (plan_.hanging) habits.hangs_for = kHangingSchedule;
    return habits;
  }

  int Draw(CastPlan::Number number) {
    if (number.most <= number.least) return number.least;
    return number.least +
           static_cast<int>(random_.Below(static_cast<uint64_t>(number.most - number.least + 1)));
  }

  void MakeStore() {
    kv::Layout layout;
    layout.partitions = static_cast<uint32_t>(1 + random_.Below(6));
    layout.queue_shards = static_cast<uint32_t>(1 + random_.Below(5));
    if (plan_.tokens) layout.policy_shards = static_cast<uint32_t>(1 + random_.Below(4));
    const auto on_durable = [this](const kv::CommitRecord& record) {
      commits_.push_back(ReadCommit(record, world_.Now()));
      if (options_.tracer) options_.tracer(world_.Now(), "store", DescribeCommit(record));
    };
    if (plan_.replicated) {
      auto replicas = std::make_unique<ReplicaSet>(
          world_,
          ReplicaSet::Options{2 + static_cast<int>(random_.Below(2)), !plan_.own_machines, layout,
                              on_durable, options_.replica_mistakes, perturbations()});
      replicas_ = replicas.get();
      site_ = std::move(replicas);
      return;
    }
    kv::MemKvStore::Options store_options;
    store_options.layout = layout;
    store_options.on_durable = on_durable;
    if (plan_.cells) {
      kv::MemKvStore::Options home_options;
      home_options.layout = layout;
      home_ = std::make_unique<StoreHost>(world_, "home", home_options, perturbations());
      store_options.layout.cell = 1;
    }
    auto store = std::make_unique<StoreHost>(world_, "store", store_options, perturbations());
    store_ = store.get();
    site_ = std::move(store);
    store_->set_knows_boot(plan_.clock_leaps);
    store_->PlantClockFault(options_.clock_fault);
    if (options_.unsynced > absl::ZeroDuration()) LieAboutSyncs();
  }

  // An operator adds the cell, with the tenant of all users, and waits until all masters know it.
  void PrepareCell() {
    v1::CreateCellRequest cell;
    cell.set_cell_id("1");
    cell.mutable_cell()->set_store_address("store");
    v1::CreateTenantRequest tenant;
    tenant.set_tenant_id(kFarTenant);
    tenant.mutable_tenant()->set_cell("cells/1");
    operator_calls_ =
        std::make_unique<UserCalls>(user_network_, user_process_, Masters(), "default");
    operator_calls_->UntilKnown<v1::Cell>(
        [cell](MasterApis& apis, auto done) {
          apis.cells->home().cells().CreateCell(cell, std::move(done));
        },
        [this, tenant](const absl::StatusOr<v1::Cell>&) {
          operator_calls_->UntilKnown<v1::Tenant>(
              [tenant](MasterApis& apis, auto done) {
                apis.cells->home().tenants().CreateTenant(tenant, std::move(done));
              },
              [](const absl::StatusOr<v1::Tenant>&) {});
        });
    const bool known = world_.RunUntil(
        [this] {
          return std::all_of(apis_.begin(), apis_.end(), [](const auto& apis) {
            // A tenant that is not known has the home cell's service.
            const auto master = apis->cells->Of(kFarTenant);
            return master.ok() && *master != &apis->cells->home() &&
                   apis->cells->DoorOf(1).value_or(nullptr) != nullptr;
          });
        },
        absl::Minutes(1));
    CHECK(known) << "the masters do not know the cell";
  }

  std::vector<const UserCalls::Endpoint*> Masters() const {
    std::vector<const UserCalls::Endpoint*> masters;
    for (const auto& endpoint : endpoints_) masters.push_back(endpoint.get());
    return masters;
  }

  void MakeHosts() {
    MakeStore();
    const int masters = 2;
    const int emitters = 1 + static_cast<int>(random_.Below(3));
    const int handlers = 1 + static_cast<int>(random_.Below(3));
    for (int i = 0; i < masters; ++i) AddMaster(absl::StrCat("master", i));
    for (int i = 0; i < emitters; ++i) AddHost(absl::StrCat("emitter", i), MakeEmitter, nullptr);
    for (int i = 0; i < handlers; ++i) AddHandler(absl::StrCat("handler", i));
    if (!plan_.tokens) return;
    const int token_managers = 1 + static_cast<int>(random_.Below(2));
    for (int i = 0; i < token_managers; ++i) AddTokenManager(absl::StrCat("token_manager", i));
  }

  void LieAboutSyncs() {
    synced_ = store_->disk();
    synced_commits_ = commits_.size();
    store_->LieAboutSyncs([this](kv::MemDisk& disk) {
      disk = synced_;
      commits_.resize(synced_commits_);
    });
    world_.After(options_.unsynced, "disk", [this] { LieAboutSyncs(); });
  }

  TokenEndpoint* NewDoor(const std::string& process) {
    if (!plan_.tokens) return nullptr;
    doors_.push_back(std::make_unique<TokenEndpoint>());
    doors_.back()->process = process;
    return doors_.back().get();
  }

  void Decorate(TokenEndpoint* door) {
    if (!options_.decorate_door || door == nullptr) return;
    decorated_doors_.push_back(options_.decorate_door(*door->service));
    door->service = decorated_doors_.back().get();
  }

  void AddMaster(const std::string& name) {
    endpoints_.push_back(std::make_unique<UserCalls::Endpoint>());
    UserCalls::Endpoint* endpoint = endpoints_.back().get();
    endpoint->process = name;
    apis_.push_back(std::make_unique<MasterApis>());
    MasterApis* apis = apis_.back().get();
    TokenEndpoint* door = NewDoor(name);
    AddHost(
        name,
        [this, endpoint, apis, door](sim::SimProcess& process, kv::KvStore& store,
                                     const ServiceIdentity& self) {
          auto service = home_ == nullptr
                             ? MakeMaster(process, store, self, apis, door)
                             : MakeMasterOfCells(process, home_->Connect(store_network_, process),
                                                 store, self, apis, door);
          endpoint->service = apis;
          Decorate(door);
          return service;
        },
        [endpoint, door] {
          endpoint->service = nullptr;
          if (door != nullptr) door->service = nullptr;
        });
  }

  void AddHandler(const std::string& name) {
    AddHost(
        name,
        [this](sim::SimProcess& process, kv::KvStore& store, const ServiceIdentity& self) {
          auto transport = consumer_.NewTransport(process, self.instance);
          if (options_.decorate_transport)
            transport = options_.decorate_transport(std::move(transport), process);
          return MakeHandler(process, store, self, std::move(transport),
                             plan_.hanging ? kHangingTargetOutMax : 0);
        },
        nullptr);
  }

  void AddTokenManager(const std::string& name) {
    TokenEndpoint* door = NewDoor(name);
    AddHost(
        name,
        [this, door](sim::SimProcess& process, kv::KvStore& store, const ServiceIdentity& self) {
          auto service = MakeTokenManager(process, store, self, door);
          Decorate(door);
          return service;
        },
        [door] { door->service = nullptr; });
  }

  template <typename Make>
  void AddHost(std::string name, Make make, std::function<void()> on_down) {
    hosts_.push_back(std::make_unique<ServiceHost>(
        store_network_, *site_,
        ServiceHost::Options{std::move(name), std::move(make), std::move(on_down),
                             options_.decorate_store, perturbations(), &observations_,
                             plan_.clock_leaps,
                             options_.lock_without_proof && !hosts_.empty() ? "handler0" : ""}));
  }

  void MakeUsers() {
    const std::string tenant = plan_.cells ? kFarTenant : "default";
    owner_calls_ = std::make_unique<UserCalls>(owner_network_, user_process_, Masters(), tenant);
    if (options_.accounts) {
      account_calls_ =
          std::make_unique<UserCalls>(account_network_, account_process_, Masters(), tenant);
      accountant_ = std::make_unique<Accountant>(
          *account_calls_, Accountant::Options{.begin = world_.options().start_time});
    }
    calls_ = std::make_unique<UserCalls>(user_network_, user_process_, Masters(), tenant);
    // A request_id is known for a day only, and a leap may be longer.
    if (!plan_.clock_leaps) calls_->Repeat(8, &answers_);
    if (plan_.tokens) MakeThrottledUsers();
    const int schedules = Draw(plan_.schedules);
    for (int i = 0; i < schedules; ++i) {
      ScheduleUser::Options options;
      options.id = absl::StrCat("s", i);
      options.zones = {"UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata",
                       "Australia/Lord_Howe"};
      if (plan_.clock_leaps) options.leap = plan_.clock_step;
      options.times = plan_.calendar;
      options.cancels = plan_.cancels;
      options.minute_lists = plan_.mixed;
      options.rest_min = plan_.rest_min;
      options.rest_max = plan_.rest_max;
      options.count_max = plan_.count_max;
      options.kind = i + 1;  // the first are those that take batches
      // Some schedules change rarely. Then emitters, not users' calls, handle what they miss in a
      // downtime.
      if (options.times && i % 2 == 0) {
        options.rest_min = absl::Seconds(8);
        options.rest_max = absl::Seconds(30);
      }
      schedule_users_.push_back(std::make_unique<ScheduleUser>(*calls_, std::move(options)));
    }
    if (plan_.hanging) {
      ScheduleUser::Options options;
      options.id = kHangingSchedule;
      options.zones = {"UTC"};
      options.count_max = 2 * static_cast<int64_t>(kHangingTargetOutMax);
      schedule_users_.push_back(std::make_unique<ScheduleUser>(*calls_, std::move(options)));
    }
    for (int i = 0; i < plan_.event_users; ++i) {
      EventUser::Options options;
      options.name = absl::StrCat("e", i);
      options.calls = plan_.event_calls;
      if (plan_.tokens) options.rest_max = absl::Seconds(12);
      options.policies = [this] { return PoliciesForGood(); };
      options.several = several_;
      event_users_.push_back(std::make_unique<EventUser>(*calls_, std::move(options)));
    }
    for (int i = 0; i < plan_.event_owners; ++i) {
      event_owners_.push_back(std::make_unique<EventOwner>(
          *owner_calls_, EventOwner::Options{.name = absl::StrCat("o", i)}));
    }
  }

  // Empty before they are made, and from when they are to be deleted.
  std::vector<std::string> PoliciesForGood() const {
    std::vector<std::string> names;
    for (const auto& user : policy_users_) {
      if (!user->made() || user->finishing()) return {};
      names.push_back(user->name());
    }
    return names;
  }

  void MakeThrottledUsers() {
    std::vector<const Worker::Door*> doors;
    for (const auto& door : doors_) doors.push_back(door.get());
    worker_ = std::make_unique<Worker>(user_network_, consumer_.process(), std::move(doors),
                                       options_.work.value_or(plan_.work));
    consumer_.set_worker(worker_.get());
    const bool batches = plan_.batches;
    ScheduleUser::Throttling throttling;
    const int policies = Draw(plan_.policies);
    // Events under several limits; the checks of idle tokens are for runs without.
    several_ = !batches && policies > 1 && Draw({0, 1}) == 1;
    throttling.several = several_;
    for (int i = 0; i < policies; ++i) {
      PolicyUser::Options options;
      options.id = absl::StrCat("p", i);
      options.rates = !batches;
      if (batches) options.limit_min = 20;
      // Each event can go at some time.
      if (several_) options.limit_min = options.key_limit_min = kWeightMax;
      policy_users_.push_back(std::make_unique<PolicyUser>(*calls_, options));
      throttling.policies.push_back(policy_users_.back()->name());
    }
    throttling.ready = [this] {
      return std::all_of(policy_users_.begin(), policy_users_.end(),
                         [](const auto& user) { return user->made(); });
    };
    throttling.count_max = plan_.throttled_count_max;
    throttling.batch = batches ? 5000 : 0;
    const int schedules = Draw(plan_.throttled_schedules);
    for (int i = 0; i < schedules; ++i) {
      ScheduleUser::Options options;
      options.id = absl::StrCat("t", i);
      options.zones = {"UTC", "Asia/Kolkata"};
      options.changes = !batches;
      options.throttling = throttling;
      options.times = options.minute_lists = plan_.mixed;
      options.cancels = plan_.cancels;
      options.target = absl::StrCat("consumer", i % 2, ".test");
      schedule_users_.push_back(std::make_unique<ScheduleUser>(*calls_, std::move(options)));
    }
  }

  // From the calm on consumers hang only for one schedule. Users stop changing limits ten seconds
  // after it.
  void ScheduleCalm() {
    const absl::Duration calm =
        options_.faults ? plan_.faults_end + kAftermath : absl::Duration(absl::Seconds(10));
    calm_ = world_.Now() + calm;
    world_.After(std::min(calm, plan_.faults_end), "calm", [this] { perturbations_.Calm(); });
    if (!plan_.tokens) return;
    world_.After(plan_.faults_end, "calm",
                 [this] { consumer_.set_habits(HabitsOf({.fails = 20'000, .rejects = 2'000})); });
    world_.After(plan_.faults_end + kAftermath + absl::Seconds(10), "calm", [this] {
      for (const auto& user : policy_users_) user->Calm();
    });
  }

  void ScheduleFaults() {
    std::vector<Host*> services;
    for (const auto& host : hosts_) services.push_back(host.get());
    if (home_ != nullptr) services.push_back(home_.get());
    FaultPlan::Options options = plan_.fault_plan;
    options.faults = Draw(plan_.faults);
    if (plan_.only_downtimes) options.faults = 0;
    options.downtimes = Draw(plan_.downtimes);
    options.replica_faults = Draw(plan_.replica_faults);
    options.log_set_back = options_.log_set_back;
    faults_ =
        std::make_unique<FaultPlan>(world_,
                                    FaultPlan::Parts{*site_, store_, replicas_, std::move(services),
                                                     store_network_, consumer_network_},
                                    options);
    faults_->Schedule();
    consumer_.set_kill([this](const std::string& handler) { faults_->Poison(handler); });
    user_network_.set_faults({.loss = 20'000, .duplication = 20'000});
    owner_network_.set_faults({.loss = 20'000});
    world_.After(plan_.faults_end, "calm", [this] {
      user_network_.set_faults({});
      owner_network_.set_faults({});
    });
  }

  template <typename Users>
  static bool Finished(const Users& users) {
    return std::all_of(users.begin(), users.end(),
                       [](const auto& user) { return user->finished(); });
  }

  bool Settled() const {
    if (!Finished(schedule_users_) || !Finished(event_users_) || !Finished(event_owners_) ||
        !Finished(policy_users_))
      return false;
    if (AnyQueued(site_->disk()) || AnyGrant(site_->disk())) return false;
    if (plan_.calendar && !ReadTimesLeftover(site_->disk()).empty()) return false;
    return worker_ == nullptr || worker_->idle();
  }

  ScenarioResult Judge() {
    ScenarioResult result;
    History& history = result.history;
    history.seed = options_.seed;
    history.fault_free = !options_.faults;
    history.only_downtimes = plan_.only_downtimes || history.fault_free;
    history.calendar = plan_.calendar;
    history.cell = plan_.cells ? 1 : 0;
    // A successor on another machine may put store time behind true time.
    history.clock_leaps = plan_.clock_leaps || plan_.own_machines;
    if (plan_.hanging) history.hanging = kHangingSchedule;
    history.begin = world_.options().start_time;
    history.end = world_.Now();
    auto complain = [&](const std::string& what) { result.violations.push_back({"answer", what}); };
    auto hear = [&](const auto& user, const char* kind) {
      for (const std::string& complaint : user->complaints()) complain(complaint);
      if (!user->finished()) complain(absl::StrCat("a user of ", kind, " never came to an end"));
    };
    for (const auto& user : schedule_users_) {
      for (const ScheduleLife& life : user->lives()) history.schedules.push_back(life);
      hear(user, "a schedule");
    }
    for (const auto& user : event_users_) {
      const std::vector<OneOff> events = user->Events();
      history.one_offs.insert(history.one_offs.end(), events.begin(), events.end());
      hear(user, "events");
    }
    for (const auto& user : event_owners_) {
      history.one_offs.insert(history.one_offs.end(), user->events().begin(), user->events().end());
      hear(user, "events of its own");
    }
    for (const auto& user : policy_users_) hear(user, "a policy");
    if (accountant_ != nullptr) {
      history.accounts = accountant_->accounts();
      hear(accountant_, "accounts");
    }
    if (worker_ != nullptr) {
      history.works = worker_->works();
      for (const std::string& complaint : worker_->complaints()) complain(complaint);
      if (!worker_->idle()) complain("a token call was never answered");
    }
    history.calm = calm_;
    history.answers = std::move(answers_);
    history.receipts = consumer_.receipts();
    history.poison = consumer_.poison();
    for (const auto& host : hosts_) history.died.insert(host->died().begin(), host->died().end());
    history.done = ReadDone(site_->disk());
    history.leftover = ReadLeftover(site_->disk());
    if (plan_.calendar) {
      for (std::string& row : ReadTimesLeftover(site_->disk()))
        history.leftover.push_back(std::move(row));
    }
    history.commits = std::move(commits_);
    history.acknowledged = std::move(observations_.acknowledged);
    history.reads = std::move(observations_.reads);
    history.unknown_ends = observations_.unknown_ends;
    if (replicas_ != nullptr) {
      history.log = replicas_->log();
      history.copies = replicas_->WrongCopies();
    }
    if (home_ != nullptr) {
      for (const std::string& row : ReadLeftover(home_->disk()))
        history.leftover.push_back("in the home cell: " + row);
    }
    history.clock_confirmed = site_->clock_confirmed();
    history.clock_set = site_->clock_set();
    for (Violation& violation : CheckAll(history))
      result.violations.push_back(std::move(violation));
    result.trace_hash = world_.trace_hash();
    result.events_run = world_.events_run();
    result.simulated = world_.Elapsed();
    result.site_hits = perturbations_.hits();
    result.site_passages = perturbations_.passages();
    if (faults_ != nullptr) {
      result.killed = faults_->killed();
      result.faults = faults_->counts();
    }
    if (replicas_ != nullptr) {
      for (const auto& [kind, count] : replicas_->counts()) result.faults[kind] += count;
    }
    return result;
  }

  const ScenarioOptions& options_;
  const CastPlan plan_;
  absl::Time calm_ = absl::InfiniteFuture();
  std::vector<Commit> commits_;
  kv::MemDisk synced_;  // the content that is really synced; for LieAboutSyncs
  size_t synced_commits_ = 0;
  std::vector<Answer> answers_;
  StoreObservations observations_;
  sim::SimWorld world_;
  sim::SimPerturbations perturbations_;
  sim::SimRandom random_;
  sim::SimNetwork store_network_;
  sim::SimNetwork user_network_;
  sim::SimNetwork owner_network_;  // doubles no call
  sim::SimNetwork consumer_network_;
  Consumer consumer_;
  sim::SimProcess user_process_;
  sim::SimNetwork account_network_;
  sim::SimProcess account_process_;
  std::unique_ptr<StoreHost> home_;  // only in kCells
  std::unique_ptr<StoreSite> site_;
  StoreHost* store_ = nullptr;      // the site, if it is one process
  ReplicaSet* replicas_ = nullptr;  // the site, if it is replicas
  std::vector<std::unique_ptr<MasterApis>> apis_;
  std::vector<std::unique_ptr<UserCalls::Endpoint>> endpoints_;
  std::vector<std::unique_ptr<TokenEndpoint>> doors_;
  std::vector<std::unique_ptr<TokenApi>> decorated_doors_;  // also doors of former incarnations
  std::unique_ptr<Worker> worker_;
  std::unique_ptr<UserCalls> calls_, owner_calls_, account_calls_;
  std::unique_ptr<UserCalls> operator_calls_;  // only in kCells
  std::unique_ptr<Accountant> accountant_;     // null: nobody asks for accounts
  std::vector<std::unique_ptr<ScheduleUser>> schedule_users_;
  std::vector<std::unique_ptr<EventUser>> event_users_;
  std::vector<std::unique_ptr<EventOwner>> event_owners_;
  bool several_ = false;  // events have several limits
  std::vector<std::unique_ptr<PolicyUser>> policy_users_;
  std::unique_ptr<FaultPlan> faults_;
  // Destroyed before all members above, which the hosts use.
  std::vector<std::unique_ptr<ServiceHost>> hosts_;
};

}  // namespace

ScenarioResult RunScenario(const ScenarioOptions& options) {
  // There is one thread, and the search for deadlocks would take a tenth of its time.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  return Scenario(options).Run();
}

// The text that a failed run prints.

std::string Report(const ScenarioOptions& options, const ScenarioResult& result) {
  if (result.violations.empty()) return "";
  std::string report = absl::StrCat("seed ", options.seed, options.faults ? "" : " without faults",
                                    ": ", result.violations.size(), " violations\n");
  for (size_t i = 0; i < std::min<size_t>(result.violations.size(), 20); ++i) {
    absl::StrAppend(&report, "  ", result.violations[i].rule, ": ", result.violations[i].what,
                    "\n");
  }
  absl::StrAppend(
      &report, "run it again: tools/dev sim --seed=", options.seed,
      options.cast == Cast::kPlain ? "" : absl::StrCat(" --cast=", NameOf(options.cast)),
      LastsAsWished(options.cast)
          ? absl::StrCat(" --minutes=", absl::ToInt64Minutes(options.length))
          : "",
      options.faults ? "" : " --nofaults", options.perturb ? "" : " --noperturb",
      options.log_set_back ? " --log_set_back" : "", options.accounts ? " --accounts" : "",
      " --trace\n");
  return report;
}

}  // namespace escapement::simulation
