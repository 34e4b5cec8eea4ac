#include "services/token_manager/waiting/waiting_row.h"

namespace escapement::token_manager {

storage::v1::EventRecord WaitingRow::Record() const {
  storage::v1::EventRecord record = source_->event;
  record.set_count(count_);
  if (taken_ > 0 || record.has_throttle()) record.mutable_throttle()->set_taken(taken_);
  return record;
}

std::string WaitingRow::Bytes() const {
  return stored_.empty() ? Record().SerializeAsString() : stored_;
}

}  // namespace escapement::token_manager
