// A day of many schedules: they fire, are paused, updated, deleted and made again, while services
// are killed, started again and frozen. Now and then, and at the end, the accounts of all schedules
// are judged (judge.h).
//
// Threads: one. Everything follows from the seed.

#ifndef TESTS_ACCOUNTS_DAY_H_
#define TESTS_ACCOUNTS_DAY_H_

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/base/uid.h"
#include "common/rpc/done.h"
#include "common/sim/sim_random.h"
#include "escapement/v1/schedule_service.pb.h"
#include "services/master/api/master_apis.h"
#include "tests/accounts/judge.h"
#include "tests/accounts/world.h"

namespace escapement::accounts {

struct DayOptions {
  uint64_t seed = 1;
  uint32_t schedules = 1000;
  absl::Time start = {};
  // The last quarter of an hour has no faults and no changes.
  absl::Duration length = absl::Hours(3);
  int accounts = 2;       // before the last one
  double changes = 0.03;  // pauses, updates and deletions of a schedule in an hour
  absl::Duration fault_every = absl::Minutes(40);  // between faults of one process, on the average
  // How often all processes of a service are killed at once, on the average.
  absl::Duration outage_every = absl::Hours(4);
  std::function<void(const std::string&)> say = [](const std::string&) {};    // progress
  std::function<void(const std::string&)> trace = [](const std::string&) {};  // each fault
};

// An occurrence.
struct Place {
  uint32_t schedule = 0;
  absl::Time nominal;
  friend bool operator==(const Place&, const Place&) = default;
  friend bool operator<(const Place& a, const Place& b) {
    return std::pair(a.schedule, a.nominal) < std::pair(b.schedule, b.nominal);
  }
};

struct Account {
  int64_t schedules = 0, occurrences = 0;
  int64_t unjudged = 0;                   // schedules that changed while they were read
  std::map<std::string, int64_t> counts;  // by result; of SKIPPED by reason, too
  std::set<Place> unaccounted;
  int64_t breach_count = 0;
  std::vector<std::string> breaches;  // the first ones
};

class Day {
 public:
  explicit Day(DayOptions options);
  ~Day();

  // Lives the whole day. Returns the last account; breaches of all accounts and of the answers to
  // changes are among its own.
  Account Run();
  // After Run. Deletes rows behind the services' backs: an outcome, and rows of events of each kind
  // that wait. Returns what has become unaccounted for.
  std::set<Place> LoseRows();
  // All occurrences since `begin`.
  Account Ask(absl::Time begin);

  // Says in one line what was done.
  std::string Summary() const;
  absl::Time start() const { return options_.start; }

 private:
  struct Schedule {
    Life life;
    std::string uid;                            // empty: it is deleted
    int changing = 0;                           // calls under way
    absl::Time changed = absl::InfinitePast();  // when the last one was answered
  };
  struct Host {
    std::vector<std::pair<absl::Time, absl::Time>> away;  // dead or frozen
    std::optional<absl::Time> killed;                     // it is dead since
  };
  using HostsOfService = std::array<Host, AccountsWorld::kHosts>;

  Traits DrawTraits();
  Times DrawTimes(const Traits& traits);
  absl::Duration DrawDuration(absl::Duration low, absl::Duration high);
  bool Faulty() const { return world_->Now() < quiet_from_; }

  void CreatePolicies();
  void CreateAll();
  v1::CreateScheduleRequest CreateRequest(uint32_t number, const Times& times) const;
  void OnCreated(uint32_t number, const Times& times, absl::Time called,
                 const v1::Schedule& created);

  void ChangeLater();
  void Change(uint32_t number);
  void Create(uint32_t number);
  void Update(uint32_t number);
  void Pause(uint32_t number);
  void ResumeLater(uint32_t number, size_t pause, const std::string& uid, absl::Duration after);
  void Delete(uint32_t number);
  // Calls a method of ScheduleApi and gives its OK answer, and when the call was made, to `done`.
  template <typename Request, typename Response>
  void Send(uint32_t number, void (master::ScheduleApi::*method)(Request, Done<Response>),
            Request request, std::function<void(absl::Time called, const Response&)> done);

  void FaultLater(AccountsWorld::Service service, int i);
  void OutageLater(AccountsWorld::Service service);
  void Kill(AccountsWorld::Service service, int i, absl::Duration down);
  void Start(AccountsWorld::Service service, int i);
  void Freeze(AccountsWorld::Service service, int i, absl::Duration frozen);
  Faults FaultsSoFar() const;
  void TraceFault(const char* what, AccountsWorld::Service service, int i,
                  absl::Duration duration) const;
  Windows Away(AccountsWorld::Service service, absl::Duration longer) const;

  void TakePage(const v1::ListOccurrencesResponse& page, const AccountTimes& times,
                const Faults& faults, Account& account);
  // Judges the schedules before `end` that have not been judged.
  void JudgeUpTo(uint32_t end, const AccountTimes& times, const Faults& faults, Account& account);
  void AddBreach(std::string breach, Account& account) const;
  std::optional<uint32_t> NumberOfUid(const Uid& uid) const;
  bool IsPlain(uint32_t number, int policy, Traits::Overlap overlap) const;

  const DayOptions options_;
  absl::Time quiet_from_;
  std::vector<Schedule> schedules_;
  std::map<std::string, uint32_t> numbers_;  // by uid
  Windows down_;
  std::unique_ptr<AccountsWorld> world_;
  sim::SimRandom random_;
  std::array<HostsOfService, AccountsWorld::kServices> hosts_;
  uint64_t requests_ = 0;
  int64_t kills_ = 0, freezes_ = 0, outages_ = 0;
  int64_t created_ = 0, pauses_ = 0, resumes_ = 0, updates_ = 0, deletes_ = 0;
  std::vector<std::string> complaints_;
  // The account that is being read.
  uint32_t judged_ = 0;  // schedules before it
  std::vector<Row> rows_;
};

}  // namespace escapement::accounts

#endif  // TESTS_ACCOUNTS_DAY_H_
