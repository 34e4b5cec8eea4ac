// Outcomes and attempts as shown to users. Pure.

#ifndef SERVICES_MASTER_CODEC_OUTCOME_CODEC_H_
#define SERVICES_MASTER_CODEC_OUTCOME_CODEC_H_

#include <cstdint>

#include "escapement/storage/v1/records.pb.h"
#include "escapement/v1/resources.pb.h"

namespace escapement::master {

v1::Outcome ShowOutcome(storage::v1::OutcomeKind outcome);
v1::Attempt ShowAttempt(const storage::v1::AttemptRecord& record);

// Set status, attempts, recent_attempts and redrive_count; of ended events also reason, output,
// dispatch_time and complete_time. `position`: which event of the range it is, from 0.
void ShowAttempts(const storage::v1::EventRecord& row, v1::EventState state, v1::Event& event);
void ShowAttempts(const storage::v1::DoneRecord& done, uint64_t position, v1::Event& event);

// The status of a run by its counts and its state.
v1::Event::Status StatusOfRun(const v1::Run& run);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_CODEC_OUTCOME_CODEC_H_
