// From a queue row to what is to be done with it: parse, find state and definition, judge.
//
// Threads: one, the handler's executor.

#ifndef SERVICES_HANDLER_INTAKE_ROW_RESOLVER_H_
#define SERVICES_HANDLER_INTAKE_ROW_RESOLVER_H_

#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "common/records/record_cache.h"
#include "services/handler/claims/claim.h"

namespace escapement::handler {

struct ResolvedRow {
  enum class Action {
    kSend,
    kFetch,  // something is not known yet; the cache has been asked for it
    kPark,
    kSkip,    // it ends with `outcome`, for `reason`
    kDrop,    // another row stands for its events: it goes without an outcome
    kMove,    // the schedule has a policy by now (moved_to): it is to wait for a token
    kBroken,  // the row cannot be read
  };
  Action action = Action::kBroken;
  storage::v1::OutcomeKind outcome = storage::v1::OUTCOME_KIND_SKIPPED;  // of kSkip
  std::string reason = {};
  ClaimedEntry entry = {};  // of kSend complete; of kPark, kSkip and kDrop without context
  // By which it was judged; null for one-off events.
  std::shared_ptr<const CachedState> state = nullptr;
  std::string payload = {};  // of a one-off event that is not sent
  std::shared_ptr<const storage::v1::DefinitionRecord> moved_to = nullptr;
};

// Of an event of a schedule that is sent under `definition`, whose record is there.
std::shared_ptr<const DeliveryContext> ContextOfScheduled(const CachedDefinition& definition,
                                                          const ClaimedEntry& entry);

// Never null.
std::unique_ptr<ResolvedRow> ResolveRow(RecordCache& cache, absl::string_view event_key,
                                        absl::string_view value);

// As above, of a row that has been parsed.
std::unique_ptr<ResolvedRow> ResolveRow(RecordCache& cache, absl::string_view event_key,
                                        storage::v1::EventRecord event);

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_INTAKE_ROW_RESOLVER_H_
