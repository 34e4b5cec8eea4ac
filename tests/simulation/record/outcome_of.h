// Converts outcomes of the store's records to those of a history.

#ifndef TESTS_SIMULATION_RECORD_OUTCOME_OF_H_
#define TESTS_SIMULATION_RECORD_OUTCOME_OF_H_

#include "escapement/storage/v1/records.pb.h"
#include "tests/simulation/record/history.h"

namespace escapement::simulation {

inline Outcome OutcomeOf(storage::v1::OutcomeKind kind) {
  switch (kind) {
    case storage::v1::OUTCOME_KIND_SUCCEEDED:
      return Outcome::kSucceeded;
    case storage::v1::OUTCOME_KIND_FAILED:
      return Outcome::kFailed;
    case storage::v1::OUTCOME_KIND_EXPIRED:
      return Outcome::kExpired;
    case storage::v1::OUTCOME_KIND_CANCELLED:
      return Outcome::kCancelled;
    case storage::v1::OUTCOME_KIND_SKIPPED:
      return Outcome::kSkipped;
    default:
      return Outcome::kNone;
  }
}

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_RECORD_OUTCOME_OF_H_
