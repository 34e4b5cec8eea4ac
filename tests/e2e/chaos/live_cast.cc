#include "tests/e2e/chaos/live_cast.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace escapement::chaos {
namespace {

using simulation::EventUser;
using simulation::PolicyUser;
using simulation::ScheduleUser;

constexpr simulation::ConsumerHabits kHabits = {.fails = 60'000,
                                                .asks_for_delay = 10'000,
                                                .rejects = 10'000,
                                                .rejects_runs = false,
                                                .hangs = 10'000,
                                                .dawdles = 40'000};
constexpr simulation::ConsumerHabits kCalmHabits = {
    .fails = 20'000, .rejects = 2'000, .rejects_runs = false};
// The simulated network adds nothing: the real one delays and cuts.
constexpr sim::SimNetwork::Faults kAtOnce = {.delay_min = absl::ZeroDuration(),
                                             .delay_max = absl::ZeroDuration()};
// Some calls of users are sent twice.
constexpr sim::SimNetwork::Faults kUserFaults = {.delay_min = absl::ZeroDuration(),
                                                 .delay_max = absl::ZeroDuration(),
                                                 .loss = 10'000,
                                                 .duplication = 20'000};

}  // namespace

LiveCast::LiveCast(LiveWorld& live, const Options& options)
    : live_(live),
      options_(options),
      user_network_(live.world(), "user network"),
      owner_network_(live.world(), "owner network"),
      consumer_network_(live.world(), "consumer network"),
      consumer_(consumer_network_, kHabits),
      user_process_(live.world(), "user"),
      receiver_(live, consumer_) {
  user_network_.set_faults(kUserFaults);
  owner_network_.set_faults(kAtOnce);
  consumer_network_.set_faults(kAtOnce);
}
LiveCast::~LiveCast() = default;

void LiveCast::ConnectTo(const Addresses& addresses) {
  const auto add = [&](const std::string& name, const std::string& address) -> PublicDoor& {
    door_processes_.push_back(std::make_unique<sim::SimProcess>(live_.world(), name));
    // A repeated call must be equal at every door, so all doors have the same target.
    doors_.push_back(std::make_unique<PublicDoor>(live_, address, addresses.consumers.front()));
    token_doors_.push_back(std::make_unique<simulation::Worker::Door>());
    token_doors_.back()->process = name;
    token_doors_.back()->service = &doors_.back()->tokens();
    return *doors_.back();
  };
  for (const std::string& address : addresses.masters) {
    const std::string name = absl::StrCat("master at ", address);
    PublicDoor& door = add(name, address);
    apis_.push_back(std::make_unique<simulation::MasterApis>());
    *apis_.back() = {&door.schedules(), &door.events(), &door.policies()};
    masters_.push_back(std::make_unique<simulation::UserCalls::Endpoint>());
    masters_.back()->process = name;
    masters_.back()->service = apis_.back().get();
  }
  for (const std::string& address : addresses.token_managers)
    add(absl::StrCat("token manager at ", address), address);
  MakeUsers(addresses);
}

std::vector<std::string> LiveCast::MakePolicies() {
  std::vector<std::string> names;
  for (int i = 0; i < options_.policies; ++i) {
    PolicyUser::Options options;
    options.id = absl::StrCat("p", i);
    options.limit_min = 2;
    policy_users_.push_back(std::make_unique<PolicyUser>(*calls_, options));
    names.push_back(policy_users_.back()->name());
  }
  return names;
}

void LiveCast::MakeUsers(const Addresses& addresses) {
  std::vector<const simulation::UserCalls::Endpoint*> masters;
  for (const auto& master : masters_) masters.push_back(master.get());
  calls_ =
      std::make_unique<simulation::UserCalls>(user_network_, user_process_, masters, "default");
  owner_calls_ =
      std::make_unique<simulation::UserCalls>(owner_network_, user_process_, masters, "default");
  std::vector<const simulation::Worker::Door*> doors;
  for (const auto& door : token_doors_) doors.push_back(door.get());
  worker_ = std::make_unique<simulation::Worker>(user_network_, consumer_.process(), doors,
                                                 simulation::WorkHabits());
  consumer_.set_worker(worker_.get());

  ScheduleUser::Throttling throttling;
  throttling.policies = MakePolicies();
  throttling.ready = [this] {
    return std::all_of(policy_users_.begin(), policy_users_.end(),
                       [](const auto& user) { return user->made(); });
  };
  throttling.count_max = 400;
  for (int i = 0; i < options_.schedules + options_.throttled_schedules; ++i) {
    ScheduleUser::Options options;
    options.first_call_max = absl::Seconds(4);
    options.target = addresses.consumers[i % addresses.consumers.size()];
    options.zones = {"UTC", "Europe/Berlin", "Asia/Kolkata"};
    if (i < options_.schedules) {
      options.id = absl::StrCat("s", i);
      options.count_max = 50;
      options.times = i % 2 == 1;
    } else {
      options.id = absl::StrCat("t", i - options_.schedules);
      options.throttling = throttling;
    }
    schedule_users_.push_back(std::make_unique<ScheduleUser>(*calls_, std::move(options)));
  }
  for (int i = 0; i < options_.event_users; ++i) {
    EventUser::Options options;
    options.name = absl::StrCat("e", i);
    options.calls = options_.event_calls;
    event_users_.push_back(std::make_unique<EventUser>(*calls_, std::move(options)));
    simulation::EventOwner::Options owner;
    owner.name = absl::StrCat("o", i);
    owner.sets = 36;
    owner.begin_max = options_.owners_begin;
    event_owners_.push_back(
        std::make_unique<simulation::EventOwner>(*owner_calls_, std::move(owner)));
  }
}

void LiveCast::Start() {
  for (const auto& user : policy_users_) user->Start();
  for (const auto& user : schedule_users_) user->Start();
  for (const auto& user : event_users_) user->Start();
  for (const auto& user : event_owners_) user->Start();
}

void LiveCast::Calm() {
  consumer_.set_habits(kCalmHabits);
  user_network_.set_faults(kAtOnce);
  for (const auto& user : policy_users_) user->Calm();
}

void LiveCast::Finish() {
  for (const auto& user : schedule_users_) user->Finish();
  for (const auto& user : policy_users_) user->Finish();
  worker_->Tidy();
}

bool LiveCast::finished() const {
  const auto all = [](const auto& users) {
    return std::all_of(users.begin(), users.end(),
                       [](const auto& user) { return user->finished(); });
  };
  return all(schedule_users_) && all(policy_users_) && all(event_users_) && all(event_owners_) &&
         worker_->idle();
}

uint64_t LiveCast::calls() const {
  uint64_t count = 0;
  for (const auto& user : schedule_users_) {
    for (const simulation::ScheduleLife& life : user->lives())
      count += life.changes.size() + life.triggered.size() + life.backfills.size();
  }
  for (const auto& user : event_users_) count += user->Events().size();
  for (const auto& user : event_owners_) count += user->events().size();
  return count;
}

void LiveCast::Tell(simulation::History* history,
                    std::vector<simulation::Violation>* violations) const {
  const auto hear = [&](const std::vector<std::string>& complaints) {
    for (const std::string& complaint : complaints) violations->push_back({"answer", complaint});
  };
  const auto end = [&](bool finished, const std::string& who) {
    if (!finished) violations->push_back({"answer", who + " never came to an end"});
  };
  for (const auto& user : schedule_users_) {
    for (const simulation::ScheduleLife& life : user->lives()) history->schedules.push_back(life);
    hear(user->complaints());
    end(user->finished(), "a user of a schedule");
  }
  for (const auto& user : event_users_) {
    const std::vector<simulation::OneOff> events = user->Events();
    history->one_offs.insert(history->one_offs.end(), events.begin(), events.end());
    hear(user->complaints());
    end(user->finished(), "a user of events");
  }
  for (const auto& user : event_owners_) {
    history->one_offs.insert(history->one_offs.end(), user->events().begin(), user->events().end());
    hear(user->complaints());
    end(user->finished(), "an owner of events");
  }
  for (const auto& user : policy_users_) {
    hear(user->complaints());
    end(user->finished(), "a user of a policy");
  }
  hear(worker_->complaints());
  end(worker_->idle(), "a token call");
  history->receipts = consumer_.receipts();
  history->works = worker_->works();
}

}  // namespace escapement::chaos
