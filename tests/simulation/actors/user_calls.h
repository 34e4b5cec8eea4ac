// How users call masters over the simulated network. A call is repeated under the same request_id,
// at any master, until its answer is known. Some calls are made once more later, to compare the
// answers.
//
// Threads: the world's.

#ifndef TESTS_SIMULATION_ACTORS_USER_CALLS_H_
#define TESTS_SIMULATION_ACTORS_USER_CALLS_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/hash.h"
#include "common/sim/sim_network.h"
#include "common/sim/sim_process.h"
#include "common/sim/sim_rpc.h"
#include "services/master/api/master_apis.h"
#include "services/master/service/cell_masters.h"
#include "tests/simulation/record/history.h"

namespace escapement::simulation {

struct MasterApis {
  master::ScheduleApi* schedules = nullptr;
  master::EventApi* events = nullptr;
  master::PolicyApi* policies = nullptr;
  master::RunApi* runs = nullptr;
  // Only for a master over several cells: each call finds the services of the tenant's cell.
  master::CellMasters* cells = nullptr;
};

class UserCalls {
 public:
  using Endpoint = sim::SimEndpoint<MasterApis>;

  // All arguments outlive this object. `masters` is not empty. `tenant`: whose resources the calls
  // are about.
  UserCalls(sim::SimNetwork& network, sim::SimProcess& user, std::vector<const Endpoint*> masters,
            std::string tenant)
      : network_(network), user_(user), masters_(std::move(masters)), tenant_(std::move(tenant)) {}

  std::string parent() const { return "tenants/" + tenant_; }

  template <typename T>
  using Invoke = std::function<void(MasterApis&, std::function<void(absl::StatusOr<T>)>)>;

  // Calls `done` with the first final answer: OK, or an error that another try would not change.
  // The call counts as made under the latest NewRequestId(), if no other call has used that id.
  template <typename T>
  void UntilKnown(Invoke<T> invoke, std::function<void(absl::StatusOr<T>)> done) {
    Try<T>(std::move(invoke), std::move(done), std::exchange(new_request_, std::string()), 1);
  }
  // How often the call was made whose answer `done` is being given. Each time may have an effect.
  int tries() const { return tries_; }

  // From now on OK answers are noted in `answers`, and one call in `one_in` is made again later.
  // Masters forget request ids after a day, so a run with this must be shorter. `answers` outlives
  // this object.
  void Repeat(uint64_t one_in, std::vector<Answer>* answers) {
    repeats_one_in_ = one_in;
    answers_ = answers;
  }

  void After(absl::Duration delay, Closure closure) {
    sim::SimWorld& world = network_.world();
    world.At(world.Elapsed() + delay, user_.state(), world.NewLine(), "user", std::move(closure));
  }

  absl::Duration Between(absl::Duration low, absl::Duration high) {
    return user_.random().Between(low, high);
  }
  sim::SimRandom& random() { return user_.random(); }
  absl::Time Now() const { return network_.world().Now(); }
  // Shows in the trace.
  void Note(absl::string_view what) { network_.world().Note(absl::StrCat("user: ", what)); }
  std::string NewRequestId() { return new_request_ = absl::StrCat("r", ++last_request_); }

 private:
  template <typename T>
  void Try(Invoke<T> invoke, std::function<void(absl::StatusOr<T>)> done, std::string request,
           int tries) {
    const Endpoint& master = *masters_[user_.random().Below(masters_.size())];
    sim::SimCall<T, MasterApis>(
        network_, user_.state(), master, absl::Milliseconds(1500), InCell<T>(invoke),
        [this, invoke, done, request, tries](absl::StatusOr<T> answer) {
          if (answer.ok() || !Unknown(answer.status())) {
            if (answer.ok() && Answered(request, *answer)) Again<T>(invoke, request);
            tries_ = tries;
            return done(std::move(answer));
          }
          After(Between(absl::Milliseconds(50), absl::Milliseconds(400)),
                [this, invoke, done, request, tries] { Try<T>(invoke, done, request, tries + 1); });
        });
  }

  // Notes an OK answer. Returns true if the call should be made again.
  template <typename T>
  bool Answered(const std::string& request, const T& answer) {
    if (answers_ == nullptr || request.empty()) return false;
    answers_->push_back(
        {absl::StrCat(tenant_, "/", request), Now(), StableHash64(answer.SerializeAsString())});
    return user_.random().Below(repeats_one_in_) == 0;
  }

  // Makes the call once more; a missing answer breaks no rule.
  template <typename T>
  void Again(Invoke<T> invoke, std::string request) {
    After(Between(absl::ZeroDuration(), absl::Seconds(5)), [this, invoke, request] {
      const Endpoint& master = *masters_[user_.random().Below(masters_.size())];
      sim::SimCall<T, MasterApis>(network_, user_.state(), master, absl::Milliseconds(1500),
                                  InCell<T>(invoke), [this, request](absl::StatusOr<T> answer) {
                                    if (answer.ok()) Answered(request, *answer);
                                  });
    });
  }

  // The same call, of the services of the tenant's cell.
  template <typename T>
  Invoke<T> InCell(Invoke<T> invoke) const {
    return [invoke = std::move(invoke), tenant = tenant_](
               MasterApis& apis, std::function<void(absl::StatusOr<T>)> done) {
      if (apis.cells == nullptr) return invoke(apis, std::move(done));
      const absl::StatusOr<master::MasterService*> master = apis.cells->Of(tenant);
      if (!master.ok()) return done(master.status());
      MasterApis in_cell = {.schedules = &(*master)->schedules(),
                            .events = &apis.cells->events(),
                            .policies = &(*master)->policies(),
                            .runs = &(*master)->runs(),
                            .cells = apis.cells};
      invoke(in_cell, std::move(done));
    };
  }

  static bool Unknown(const absl::Status& status) {
    return absl::IsUnavailable(status) || absl::IsAborted(status) ||
           absl::IsResourceExhausted(status) || absl::IsDeadlineExceeded(status);
  }

  sim::SimNetwork& network_;
  sim::SimProcess& user_;
  const std::vector<const Endpoint*> masters_;
  const std::string tenant_;
  int tries_ = 0;
  uint64_t last_request_ = 0;
  std::string new_request_;
  uint64_t repeats_one_in_ = 1;
  std::vector<Answer>* answers_ = nullptr;
};

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_ACTORS_USER_CALLS_H_
