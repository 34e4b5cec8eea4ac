#include "tests/simulation/cast.h"

#include <algorithm>
#include <iterator>

namespace escapement::simulation {
namespace {

constexpr absl::Duration kFaultsBegin = absl::Seconds(4);
// In casts that last as wished the faults end this long before the users do.
constexpr absl::Duration kWholeCalm = absl::Seconds(60);

constexpr absl::string_view kNames[] = {"plain", "throttled", "batches",    "clocks", "times",
                                        "whole", "mixed",     "replicated", "cells"};

void PlanTimes(const CastOptions& options, CastPlan* plan) {
  plan->faults_end = absl::Seconds(50);
  switch (options.cast) {
    case Cast::kPlain:
      plan->users_end = absl::Seconds(65);
      break;
    case Cast::kThrottled:
      plan->users_end = absl::Seconds(95);
      break;
    case Cast::kBatches:
      plan->faults_end = absl::Seconds(90);
      plan->users_end = absl::Seconds(240);
      break;
    case Cast::kTimes:
      plan->users_end = absl::Seconds(70);
      break;
    case Cast::kClocks:
      plan->users_end = absl::Seconds(110);  // leaves time to catch up with a day
      break;
    case Cast::kWhole:
    case Cast::kMixed:
    case Cast::kReplicated:
    case Cast::kCells:
      plan->users_end = std::max(options.length, 2 * kWholeCalm);
      plan->faults_end = plan->users_end - kWholeCalm;
      break;
  }
}

void PlanUsers(const CastOptions& options, CastPlan* plan) {
  plan->schedules = plan->tokens ? CastPlan::Number{1, 1} : CastPlan::Number{3, 8};
  if (plan->tokens) {
    plan->throttled_schedules = {2, 6};
    plan->policies = {1, 4};
  }
  plan->event_users = plan->tokens ? 1 : 3;
  plan->event_calls = 12;
  plan->event_owners = options.cast == Cast::kPlain && options.seed % 8 == 7 ? 2 : 0;
  if (plan->batches) {
    plan->throttled_schedules = {4, 4};
    plan->policies = {2, 2};
    plan->event_users = 0;
  }
  if (LastsAsWished(options.cast)) {
    // A long life at an easy pace: what is rare in a minute happens within an hour.
    plan->schedules = {2, 4};
    plan->throttled_schedules = {1, 3};
    plan->throttled_count_max = 320;
    plan->count_max = 12;
    plan->policies = {1, 3};
    plan->event_users = 1;
    plan->event_calls = static_cast<int>(plan->users_end / absl::Seconds(8));
    plan->rest_max = absl::Seconds(25);
  }
  if (plan->mixed) plan->throttled_count_max = 80;  // such a run may launch once a second
}

// Early enough that three handlers can be lost before the faults end.
absl::Duration PoisonWithin(const CastOptions& options) {
  if (options.cast == Cast::kClocks || options.seed % 5 != 1) return absl::ZeroDuration();
  return LastsAsWished(options.cast) ? options.length / 2 : absl::Seconds(10);
}

ConsumerHabits ConsumerOf(const CastOptions& options) {
  if (!options.faults) return {.fails = 50'000, .rejects = 10'000};
  if (options.cast == Cast::kBatches)
    return {.fails = 20'000, .rejects = 1'000, .hangs = 1'000, .dawdles = 5'000};
  if (options.cast == Cast::kTimes)
    return {.fails = 40'000, .rejects = 10'000, .hangs = 10'000, .dawdles = 200'000};
  return {.fails = 60'000,
          .asks_for_delay = 20'000,
          .rejects = 10'000,
          .hangs = 20'000,
          .dawdles = 40'000,
          .unsent = 20'000,
          .poison_within = PoisonWithin(options)};
}

void PlanFaults(const CastOptions& options, CastPlan* plan) {
  plan->faults = {3, 14};
  plan->fault_plan.begin = kFaultsBegin;
  plan->fault_plan.end = plan->faults_end;
  switch (options.cast) {
    case Cast::kBatches:
      plan->fault_plan.kills = 40;
      break;
    case Cast::kClocks:
      plan->faults = {0, 3};
      plan->fault_plan.clock_step = plan->clock_step;
      plan->fault_plan.clock_steps = 4;
      plan->fault_plan.freezes = 2;
      break;
    case Cast::kTimes:
      plan->downtimes = {2, 4};
      break;
    case Cast::kWhole:
    case Cast::kMixed:
    case Cast::kReplicated:
    case Cast::kCells: {
      const auto minutes = static_cast<int>(plan->faults_end / absl::Minutes(1));
      plan->faults = {4 * minutes, 14 * minutes};
      plan->fault_plan.freezes = std::max(1, minutes / 5);
      plan->downtimes = {std::max(1, minutes / 5), std::max(2, minutes / 3)};
      plan->fault_plan.cut_offs = std::max(1, minutes / 3);
      if (plan->replicated) plan->replica_faults = {minutes, 5 * minutes};
      break;
    }
    default:
      break;
  }
}

}  // namespace

std::optional<Cast> CastNamed(absl::string_view name) {
  const auto* found = std::find(std::begin(kNames), std::end(kNames), name);
  if (found == std::end(kNames)) return std::nullopt;
  return static_cast<Cast>(found - std::begin(kNames));
}

bool LastsAsWished(Cast cast) {
  return cast == Cast::kWhole || cast == Cast::kMixed || cast == Cast::kReplicated ||
         cast == Cast::kCells;
}

absl::string_view NameOf(Cast cast) { return kNames[static_cast<size_t>(cast)]; }

CastPlan PlanOf(const CastOptions& options) {
  CastPlan plan;
  plan.replicated = options.cast == Cast::kReplicated;
  plan.cells = options.cast == Cast::kCells;
  plan.own_machines = plan.replicated && options.seed % 4 == 3;
  const bool everything = LastsAsWished(options.cast);
  plan.tokens = options.cast == Cast::kThrottled || options.cast == Cast::kBatches || everything;
  plan.calendar = options.cast == Cast::kTimes || everything;
  plan.cancels = everything;
  plan.mixed =
      options.cast == Cast::kMixed || ((plan.replicated || plan.cells) && options.seed % 2 == 0);
  plan.clock_leaps = options.cast == Cast::kClocks;
  plan.batches = options.cast == Cast::kBatches;
  plan.only_downtimes = options.cast == Cast::kTimes && options.seed % 3 == 0;
  plan.clock_step = options.seed % 2 == 0 ? absl::Hours(1) : absl::Hours(24);
  PlanTimes(options, &plan);
  PlanUsers(options, &plan);
  plan.consumer = ConsumerOf(options);
  plan.hanging = (options.cast == Cast::kPlain || everything) && options.seed % 4 == 2;
  if (plan.batches) plan.work.work_max = absl::Milliseconds(400);
  PlanFaults(options, &plan);
  return plan;
}

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

}  // namespace escapement::simulation
