#include "tests/simulation/mutants/mutants.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace escapement::simulation {

std::vector<Mutant> AllMutants() {
  std::vector<Mutant> all;
  for (const auto& of_service :
       {EmitterMutants, HandlerMutants, TakeoverMutants, ResultMutants, TokenManagerMutants,
        MasterMutants, ClientMutants, ReplicaMutants}) {
    std::vector<Mutant> some = of_service();
    std::move(some.begin(), some.end(), std::back_inserter(all));
  }
  return all;
}

Catch Hunt(const Mutant& mutant, int seeds_max) {
  Catch caught;
  std::set<std::string> others;
  ScenarioOptions options;
  options.cast = mutant.cast;
  options.faults = mutant.faults;
  options.decorate_store = mutant.store;
  options.decorate_transport = mutant.transport;
  options.decorate_door = mutant.door;
  options.unsynced = mutant.unsynced;
  options.clock_fault = mutant.clock;
  options.lock_without_proof = mutant.lock_without_proof;
  options.replica_mistakes = mutant.replica;
  options.length = mutant.length;
  options.perturb = mutant.perturb;
  options.log_set_back = mutant.log_set_back;
  options.accounts = mutant.accounts;
  options.work = mutant.work;
  options.seed = mutant.first_seed;
  for (; caught.rule.empty() && caught.seeds < seeds_max; options.seed += mutant.seed_step) {
    ++caught.seeds;
    for (const Violation& violation : RunScenario(options).violations) {
      const bool named =
          std::find(mutant.rules.begin(), mutant.rules.end(), violation.rule) != mutant.rules.end();
      if (!named) {
        others.insert(violation.rule);
      } else if (caught.rule.empty()) {
        caught.rule = violation.rule;
        caught.what = absl::StrCat("seed ", options.seed, ": ", violation.what);
      }
    }
  }
  caught.others.assign(others.begin(), others.end());
  return caught;
}

std::string Describe(const Mutant& mutant, const Catch& caught) {
  std::string text = absl::StrCat("mutant ", mutant.name);
  if (caught.rule.empty()) {
    absl::StrAppend(&text, " NOT caught in ", caught.seeds, " seeds");
  } else {
    absl::StrAppend(&text, " caught by ", caught.rule, " after ", caught.seeds,
                    caught.seeds == 1 ? " seed" : " seeds");
  }
  if (!caught.others.empty())
    absl::StrAppend(&text, " (also broken: ", absl::StrJoin(caught.others, ", "), ")");
  return text;
}

}  // namespace escapement::simulation
