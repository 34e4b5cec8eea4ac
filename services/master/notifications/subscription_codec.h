// Subscriptions and their messages: public messages ↔ records, with validation. Pure.

#ifndef SERVICES_MASTER_NOTIFICATIONS_SUBSCRIPTION_CODEC_H_
#define SERVICES_MASTER_NOTIFICATIONS_SUBSCRIPTION_CODEC_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/kv/kv_store.h"
#include "common/storage/event_table.h"
#include "escapement/storage/v1/notification_records.pb.h"
#include "escapement/v1/notification_service.pb.h"
#include "services/master/base/target_secrets.h"
#include "services/master/notifications/problem_list.h"
#include "services/master/requests/resource_name.h"

namespace escapement::master {

// Reads a client's subscription: everything except name, uid, version and times. Seals the secrets
// of its target. `before`: the present record, whose secrets it may keep; null: it is new.
// INVALID_ARGUMENT with every field that is wrong.
absl::StatusOr<storage::v1::SubscriptionRecord> ReadSubscription(
    const v1::Subscription& subscription, absl::string_view tenant, const TargetSecrets& secrets,
    const storage::v1::SubscriptionRecord* before);

// Without what checks have found.
v1::Subscription ShowSubscription(const storage::v1::SubscriptionRecord& record);
// Sets what checks have found, with the first `problems_max` problems. `state`: of this very
// subscription.
void ShowChecks(const storage::v1::SubscriptionStateRecord& state, absl::string_view tenant,
                int problems_max, v1::Subscription& subscription);

// Quoted: version and creation.
std::string SubscriptionEtag(const storage::v1::SubscriptionRecord& record);

// "2026-11-30 02:00:00 UTC", as messages show it.
std::string TimeText(int64_t micros);

bool Wants(const storage::v1::SubscriptionRecord& record, v1::Subscription::Kind kind);

// The contents of a message. Without news it is a test.
v1::Notice NoticeOf(const storage::v1::SubscriptionRecord& record, const News& news,
                    absl::Time now);

// The id of the message's event. `number`: which message of the subscription it is.
std::string NoticeEventId(absl::string_view subscription_uid, uint64_t number);
// True for ids of such events.
bool IsNoticeEventId(absl::string_view event_id);

// Adds the rows of the message's event to `group`, and the condition that no event has its id. How
// it is delivered, `interned` for events that are due now, is stored by a group before
// (InternGroup).
void AddNoticeEvent(const storage::v1::SubscriptionRecord& record, absl::string_view event_id,
                    const v1::Notice& notice, const InternedDelivery& interned,
                    uint32_t queue_shards, absl::Time now, kv::Group& group);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_NOTIFICATIONS_SUBSCRIPTION_CODEC_H_
