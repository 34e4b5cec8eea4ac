#include "tests/simulation/scenario.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/sim/sim_network.h"
#include "common/sim/sim_world.h"
#include "common/storage/grant_table.h"
#include "tests/simulation/check_cap.h"
#include "tests/simulation/check_clock.h"
#include "tests/simulation/check_doubled.h"
#include "tests/simulation/check_early.h"
#include "tests/simulation/check_idle.h"
#include "tests/simulation/check_lost.h"
#include "tests/simulation/check_overlap.h"
#include "tests/simulation/check_sink.h"
#include "tests/simulation/check_stale_epoch.h"
#include "tests/simulation/check_times.h"
#include "tests/simulation/check_token_end.h"
#include "tests/simulation/commit_log.h"
#include "tests/simulation/consumer.h"
#include "tests/simulation/event_user.h"
#include "tests/simulation/fault_plan.h"
#include "tests/simulation/hosts.h"
#include "tests/simulation/policy_user.h"
#include "tests/simulation/schedule_user.h"
#include "tests/simulation/services.h"
#include "tests/simulation/store_times.h"
#include "tests/simulation/times_log.h"
#include "tests/simulation/user_calls.h"
#include "tests/simulation/worker.h"

namespace escapement::simulation {
namespace {

constexpr absl::Duration kFaultsBegin = absl::Seconds(4);
// What is under way when the users have ended is done by then, or it is left over.
constexpr absl::Duration kSettleMax = absl::Seconds(150);
// After the last fault: leases find new owners, and the store's clock is believed again.
constexpr absl::Duration kAftermath = absl::Seconds(15);

struct Times {
  absl::Duration faults_end;
  absl::Duration users_end;
};

Times TimesOf(Cast cast) {
  switch (cast) {
    case Cast::kPlain:
      return {absl::Seconds(50), absl::Seconds(65)};
    case Cast::kThrottled:
      return {absl::Seconds(50), absl::Seconds(95)};
    case Cast::kBatches:
      return {absl::Seconds(90), absl::Seconds(240)};
    case Cast::kTimes:
      return {absl::Seconds(50), absl::Seconds(70)};
    case Cast::kClocks:
      return {absl::Seconds(50), absl::Seconds(110)};  // a day is caught up with
  }
  return {};
}

ConsumerHabits HabitsOf(const ScenarioOptions& options) {
  if (!options.faults) return {.fails = 50'000, .rejects = 10'000};
  if (options.cast == Cast::kBatches)
    return {.fails = 20'000, .rejects = 1'000, .hangs = 1'000, .dawdles = 5'000};
  if (options.cast == Cast::kTimes)
    return {.fails = 40'000, .rejects = 10'000, .hangs = 10'000, .dawdles = 200'000};
  return {.fails = 60'000,
          .asks_for_delay = 20'000,
          .rejects = 10'000,
          .hangs = 20'000,
          .dawdles = 40'000};
}

WorkHabits WorkHabitsOf(const ScenarioOptions& options) {
  WorkHabits habits;
  if (options.cast == Cast::kBatches) habits.work_max = absl::Milliseconds(400);
  return habits;
}

// When the world begins: an ordinary day, changes of clocks, the end of a year.
absl::Time BeginOf(uint64_t seed) {
  constexpr int64_t kBegins[] = {
      1'772'323'200,  // 2026-03-01T00:00:00Z
      1'774'745'990,  // 2026-03-29T00:59:50Z: at 01:00 Berlin goes from 02:00 to 03:00
      1'792'889'980,  // 2026-10-25T00:59:40Z: at 01:00 Berlin goes from 03:00 to 02:00
      1'793'512'775,  // 2026-11-01T05:59:35Z: at 06:00 New York goes from 02:00 to 01:00
      1'798'761'570,  // 2026-12-31T23:59:30Z
      1'782'864'007,  // 2026-07-01T00:00:07Z
  };
  return absl::FromUnixSeconds(kBegins[seed % std::size(kBegins)]);
}

class Scenario {
 public:
  explicit Scenario(const ScenarioOptions& options)
      : options_(options),
        times_(TimesOf(options.cast)),
        world_(options.seed,
               {.start_time = BeginOf(options.seed), .post_latency_max = absl::Microseconds(30)}),
        random_(options.seed, "scenario"),
        store_network_(world_, "store network"),
        user_network_(world_, "user network"),
        consumer_network_(world_, "consumer network"),
        consumer_(consumer_network_, HabitsOf(options)),
        user_process_(world_, "user") {
    if (options.tracer) world_.set_tracer(options.tracer);
    MakeHosts();
    MakeUsers();
  }

  ScenarioResult Run() {
    store_->Start();
    for (const auto& host : hosts_) host->Start();
    for (const auto& user : policy_users_) user->Start();
    for (const auto& user : schedule_users_) user->Start();
    for (const auto& user : event_users_) user->Start();
    if (options_.faults) ScheduleFaults();
    if (throttled()) ScheduleCalm();
    world_.AdvanceBy(options_.cast == Cast::kBatches ? times_.faults_end : times_.users_end);
    if (options_.cast == Cast::kBatches) {
      world_.RunUntil([this] { return Empty(kv::ColumnFamily::kWaiting) && !AnyGrant(); },
                      times_.users_end - times_.faults_end);
    }
    for (const auto& user : schedule_users_) user->Finish();
    for (const auto& user : policy_users_) user->Finish();
    if (worker_ != nullptr) worker_->Tidy();
    world_.RunUntil([this] { return Settled(); }, kSettleMax);
    // Whoever was to double something has the time for it.
    world_.AdvanceBy(absl::Seconds(5));
    return Judge();
  }

 private:
  bool throttled() const {
    return options_.cast == Cast::kThrottled || options_.cast == Cast::kBatches;
  }
  bool OnlyDowntimes() const { return options_.cast == Cast::kTimes && options_.seed % 3 == 0; }
  // By which the store's wall clock is set, in the cast that does that.
  absl::Duration ClockStep() const {
    return options_.seed % 2 == 0 ? absl::Hours(1) : absl::Hours(24);
  }

  void MakeHosts() {
    kv::MemKvStore::Options store_options;
    store_options.layout.partitions = static_cast<uint32_t>(1 + random_.Below(6));
    store_options.layout.queue_shards = static_cast<uint32_t>(1 + random_.Below(5));
    if (throttled())
      store_options.layout.policy_shards = static_cast<uint32_t>(1 + random_.Below(4));
    store_options.on_durable = [this](const kv::CommitRecord& record) {
      commits_.push_back(ReadCommit(record, world_.Now()));
      if (options_.cast == Cast::kTimes) commits_.back().times = ReadTimesWrites(record);
      if (options_.tracer) options_.tracer(world_.Now(), "store", DescribeCommit(record));
    };
    store_ = std::make_unique<StoreHost>(world_, store_options);
    const int masters = 2;
    const int emitters = 1 + static_cast<int>(random_.Below(3));
    const int handlers = 1 + static_cast<int>(random_.Below(3));
    for (int i = 0; i < masters; ++i) AddMaster(absl::StrCat("master", i));
    for (int i = 0; i < emitters; ++i) AddHost(absl::StrCat("emitter", i), MakeEmitter, nullptr);
    for (int i = 0; i < handlers; ++i) AddHandler(absl::StrCat("handler", i));
    if (!throttled()) return;
    const int token_managers = 1 + static_cast<int>(random_.Below(2));
    for (int i = 0; i < token_managers; ++i) AddTokenManager(absl::StrCat("token_manager", i));
  }

  TokenEndpoint* NewDoor(const std::string& process) {
    if (!throttled()) return nullptr;
    doors_.push_back(std::make_unique<TokenEndpoint>());
    doors_.back()->process = process;
    return doors_.back().get();
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
        [endpoint, apis, door](sim::SimProcess& process, kv::KvStore& store,
                               const std::string& instance) {
          auto service = MakeMaster(process, store, instance, apis, door);
          endpoint->service = apis;
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
        [this](sim::SimProcess& process, kv::KvStore& store, const std::string& instance) {
          auto transport = consumer_.NewTransport(process, instance);
          if (options_.decorate_transport)
            transport = options_.decorate_transport(std::move(transport), process);
          return MakeHandler(process, store, instance, std::move(transport));
        },
        nullptr);
  }

  void AddTokenManager(const std::string& name) {
    TokenEndpoint* door = NewDoor(name);
    AddHost(
        name,
        [door](sim::SimProcess& process, kv::KvStore& store, const std::string& instance) {
          return MakeTokenManager(process, store, instance, door);
        },
        [door] { door->service = nullptr; });
  }

  template <typename Make>
  void AddHost(std::string name, Make make, std::function<void()> on_down) {
    hosts_.push_back(std::make_unique<ServiceHost>(
        store_network_, store_->endpoint(),
        ServiceHost::Options{std::move(name), std::move(make), std::move(on_down),
                             options_.decorate_store}));
  }

  void MakeUsers() {
    std::vector<const UserCalls::Endpoint*> masters;
    for (const auto& endpoint : endpoints_) masters.push_back(endpoint.get());
    calls_ = std::make_unique<UserCalls>(user_network_, user_process_, std::move(masters));
    if (throttled()) MakeThrottledUsers();
    const int schedules = throttled() ? 1 : 3 + static_cast<int>(random_.Below(6));
    for (int i = 0; i < schedules; ++i) {
      ScheduleUser::Options options;
      options.id = absl::StrCat("s", i);
      options.zones = {"UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata",
                       "Australia/Lord_Howe"};
      if (options_.cast == Cast::kClocks) options.leap = ClockStep();
      options.times = options_.cast == Cast::kTimes;
      // Some change little: what they miss in a downtime is judged by emitters.
      if (options.times && i % 2 == 0) {
        options.rest_min = absl::Seconds(8);
        options.rest_max = absl::Seconds(30);
      }
      schedule_users_.push_back(std::make_unique<ScheduleUser>(*calls_, std::move(options)));
    }
    if (throttled()) return;
    for (int i = 0; i < 3; ++i) {
      EventUser::Options options;
      options.name = absl::StrCat("e", i);
      event_users_.push_back(std::make_unique<EventUser>(*calls_, std::move(options)));
    }
  }

  void MakeThrottledUsers() {
    std::vector<const Worker::Door*> doors;
    for (const auto& door : doors_) doors.push_back(door.get());
    worker_ = std::make_unique<Worker>(user_network_, consumer_.process(), std::move(doors),
                                       WorkHabitsOf(options_));
    consumer_.set_worker(worker_.get());
    const bool batches = options_.cast == Cast::kBatches;
    ScheduleUser::Throttling throttling;
    const int policies = batches ? 2 : 1 + static_cast<int>(random_.Below(4));
    for (int i = 0; i < policies; ++i) {
      PolicyUser::Options options;
      options.id = absl::StrCat("p", i);
      options.rates = !batches;
      if (batches) options.limit_min = 20;
      policy_users_.push_back(std::make_unique<PolicyUser>(*calls_, options));
      throttling.policies.push_back(policy_users_.back()->name());
    }
    throttling.ready = [this] {
      return std::all_of(policy_users_.begin(), policy_users_.end(),
                         [](const auto& user) { return user->made(); });
    };
    throttling.batch = batches ? 5000 : 0;
    const int schedules = batches ? 4 : 2 + static_cast<int>(random_.Below(5));
    for (int i = 0; i < schedules; ++i) {
      ScheduleUser::Options options;
      options.id = absl::StrCat("t", i);
      options.zones = {"UTC", "Asia/Kolkata"};
      options.changes = !batches;
      options.throttling = throttling;
      options.target = absl::StrCat("consumer", i % 2, ".test");
      schedule_users_.push_back(std::make_unique<ScheduleUser>(*calls_, std::move(options)));
    }
  }

  // From the calm on no consumer hangs, and no limit is changed in the last part of it.
  void ScheduleCalm() {
    history_calm_ =
        world_.Now() + (options_.faults ? times_.faults_end + kAftermath : absl::Seconds(10));
    world_.After(times_.faults_end, "calm",
                 [this] { consumer_.set_habits({.fails = 20'000, .rejects = 2'000}); });
    world_.After(times_.faults_end + kAftermath + absl::Seconds(10), "calm", [this] {
      for (const auto& user : policy_users_) user->Calm();
    });
  }

  void ScheduleFaults() {
    std::vector<Host*> services;
    for (const auto& host : hosts_) services.push_back(host.get());
    FaultPlan::Options options{kFaultsBegin, times_.faults_end,
                               3 + static_cast<int>(random_.Below(12))};
    if (options_.cast == Cast::kBatches) options.kills = 40;
    if (options_.cast == Cast::kClocks) {
      options.faults = static_cast<int>(random_.Below(4));
      options.clock_step = ClockStep();
      options.clock_steps = 4;
      options.freezes = 2;
    }
    if (options_.cast == Cast::kTimes) {
      options.downtimes = 2 + static_cast<int>(random_.Below(3));
      if (OnlyDowntimes()) options.faults = 0;
    }
    plan_ = std::make_unique<FaultPlan>(
        world_, FaultPlan::Parts{*store_, std::move(services), store_network_, consumer_network_},
        options);
    plan_->Schedule();
    sim::SimNetwork::Faults user_faults;
    user_faults.loss = 20'000;
    user_faults.duplication = 20'000;
    user_network_.set_faults(user_faults);
    world_.After(times_.faults_end, "calm", [this] { user_network_.set_faults({}); });
  }

  bool Empty(kv::ColumnFamily cf) const {
    return store_->disk().families[static_cast<size_t>(cf)].empty();
  }

  // Beside grants there are counts.
  bool AnyGrant() const {
    for (const auto& [key, value] :
         store_->disk().families[static_cast<size_t>(kv::ColumnFamily::kGrants)]) {
      if (DecodeGrantKey(key).has_value()) return true;
    }
    return false;
  }

  bool Settled() const {
    for (const auto& user : schedule_users_) {
      if (!user->finished()) return false;
    }
    for (const auto& user : event_users_) {
      if (!user->finished()) return false;
    }
    for (const auto& user : policy_users_) {
      if (!user->finished()) return false;
    }
    for (kv::ColumnFamily cf : {kv::ColumnFamily::kEvents, kv::ColumnFamily::kInflight,
                                kv::ColumnFamily::kParked, kv::ColumnFamily::kWaiting}) {
      if (!Empty(cf)) return false;
    }
    if (options_.cast == Cast::kTimes && !ReadTimesLeftover(store_->disk()).empty()) return false;
    return !AnyGrant() && (worker_ == nullptr || worker_->idle());
  }

  ScenarioResult Judge() {
    ScenarioResult result;
    History& history = result.history;
    history.seed = options_.seed;
    history.fault_free = !options_.faults;
    history.only_downtimes = OnlyDowntimes() || history.fault_free;
    history.begin = world_.options().start_time;
    history.end = world_.Now();
    auto complain = [&](const std::string& what) { result.violations.push_back({"answer", what}); };
    for (const auto& user : schedule_users_) {
      for (const ScheduleLife& life : user->lives()) history.schedules.push_back(life);
      for (const std::string& complaint : user->complaints()) complain(complaint);
      if (!user->finished()) complain("a user of a schedule never came to an end");
    }
    for (const auto& user : event_users_) {
      history.one_offs.insert(history.one_offs.end(), user->events().begin(), user->events().end());
      for (const std::string& complaint : user->complaints()) complain(complaint);
      if (!user->finished()) complain("a user of events never came to an end");
    }
    for (const auto& user : policy_users_) {
      for (const std::string& complaint : user->complaints()) complain(complaint);
      if (!user->finished()) complain("a user of a policy never came to an end");
    }
    if (worker_ != nullptr) {
      history.works = worker_->works();
      for (const std::string& complaint : worker_->complaints()) complain(complaint);
      if (!worker_->idle()) complain("a token call was never answered");
    }
    history.calm = history_calm_;
    history.receipts = consumer_.receipts();
    history.done = ReadDone(store_->disk());
    history.leftover = ReadLeftover(store_->disk());
    if (options_.cast == Cast::kTimes) {
      for (std::string& row : ReadTimesLeftover(store_->disk()))
        history.leftover.push_back(std::move(row));
    }
    history.commits = std::move(commits_);
    history.clock_confirmed = store_->clock_confirmed();
    // Elsewhere the store's time is true time.
    const bool clocks = options_.cast == Cast::kClocks;
    const History due = clocks ? InStoreTime(history) : history;
    for (const auto& check : {CheckLost, CheckEarly}) {
      for (Violation& violation : check(due)) result.violations.push_back(std::move(violation));
    }
    for (Violation& violation : CheckDoubled(clocks ? InTrueTime(history) : history))
      result.violations.push_back(std::move(violation));
    for (const auto& check :
         {CheckStaleEpoch, CheckCap, CheckTokenEnd, CheckIdle, CheckSink, CheckClock}) {
      for (Violation& violation : check(history)) result.violations.push_back(std::move(violation));
    }
    if (options_.cast == Cast::kTimes) {
      for (const auto& check : {CheckTimes, CheckOverlap}) {
        for (Violation& violation : check(history))
          result.violations.push_back(std::move(violation));
      }
    }
    result.trace_hash = world_.trace_hash();
    result.events_run = world_.events_run();
    result.killed = plan_ == nullptr ? 0 : plan_->killed();
    return result;
  }

  const ScenarioOptions& options_;
  const Times times_;
  absl::Time history_calm_ = absl::InfiniteFuture();
  std::vector<Commit> commits_;
  sim::SimWorld world_;
  sim::SimRandom random_;
  sim::SimNetwork store_network_;
  sim::SimNetwork user_network_;
  sim::SimNetwork consumer_network_;
  Consumer consumer_;
  sim::SimProcess user_process_;
  std::unique_ptr<StoreHost> store_;
  std::vector<std::unique_ptr<MasterApis>> apis_;
  std::vector<std::unique_ptr<UserCalls::Endpoint>> endpoints_;
  std::vector<std::unique_ptr<TokenEndpoint>> doors_;
  std::unique_ptr<Worker> worker_;
  std::unique_ptr<UserCalls> calls_;
  std::vector<std::unique_ptr<ScheduleUser>> schedule_users_;
  std::vector<std::unique_ptr<EventUser>> event_users_;
  std::vector<std::unique_ptr<PolicyUser>> policy_users_;
  std::unique_ptr<FaultPlan> plan_;
  // Before everything that they reach is destroyed.
  std::vector<std::unique_ptr<ServiceHost>> hosts_;
};

}  // namespace

ScenarioResult RunScenario(const ScenarioOptions& options) { return Scenario(options).Run(); }

std::string Report(const ScenarioOptions& options, const ScenarioResult& result) {
  if (result.violations.empty()) return "";
  static constexpr const char* kCasts[] = {"", " --cast=throttled", " --cast=batches",
                                           " --cast=clocks", " --cast=times"};
  std::string report = absl::StrCat("seed ", options.seed, options.faults ? "" : " without faults",
                                    ": ", result.violations.size(), " violations\n");
  for (size_t i = 0; i < std::min<size_t>(result.violations.size(), 20); ++i) {
    absl::StrAppend(&report, "  ", result.violations[i].rule, ": ", result.violations[i].what,
                    "\n");
  }
  absl::StrAppend(&report, "run it again: tools/dev sim --seed=", options.seed,
                  kCasts[static_cast<int>(options.cast)], options.faults ? "" : " --nofaults",
                  " --trace\n");
  return report;
}

}  // namespace escapement::simulation
