// How one-off events are delivered, stored once for all that are delivered alike and are due in the
// same period of 28 days. It is a definition of version 0; its key in `definitions` begins with the
// number of the period. So old periods can be found and deleted
// (services/master/events/delivery_sweep_loop.h). Its create_time is the begin of the period.
//
// Definitions of version 0 without a create_time are of an earlier form, whose keys begin with no
// period. They stay.
//
// Pure.

#ifndef COMMON_STORAGE_INTERNED_DELIVERY_H_
#define COMMON_STORAGE_INTERNED_DELIVERY_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/uid.h"
#include "common/kv/kv_store.h"
#include "escapement/storage/v1/records.pb.h"

namespace escapement {

// The number of a period of due times; the first one begins at the Unix epoch.
using DeliveryPeriod = uint16_t;
DeliveryPeriod DeliveryPeriodOf(absl::Time due);

// The same delivery in the same period always has the same hash and bytes.
struct InternedDelivery {
  Uid hash;                // EventRecord.definition_hash: the period, and a hash of the delivery
  std::string definition;  // the serialized DefinitionRecord
};
// `due`: of the event that uses it, or of another one of the same period.
InternedDelivery Intern(const storage::v1::DeliveryRecord& delivery, absl::Time due);
DeliveryPeriod DeliveryPeriodOf(const Uid& hash);
// EventRecord.definition_hash; nullopt: it is no one-off event.
std::optional<Uid> DeliveryHashOf(const storage::v1::EventRecord& event);

// The group that stores the definition. If it is already stored, the group does not apply, which is
// as good. Put it before the groups of the events.
kv::Group InternGroup(const InternedDelivery& interned);
std::string InternKey(const Uid& hash);  // a key of `definitions`

// The first key of `definitions` that a delivery of this period can have. Definitions of schedules,
// whose keys begin with random bytes, are between those of deliveries.
std::string DeliveryPeriodBegin(DeliveryPeriod period);
// True if the row of `definitions` is a delivery of a period.
bool IsDeliveryOfPeriod(absl::string_view key, absl::string_view value);

}  // namespace escapement

#endif  // COMMON_STORAGE_INTERNED_DELIVERY_H_
