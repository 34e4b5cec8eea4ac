// How events are delivered: the fields that schedules and one-off events share ↔ DeliveryRecord,
// with validation and defaults. Pure.

#ifndef SERVICES_MASTER_CODEC_DELIVERY_CODEC_H_
#define SERVICES_MASTER_CODEC_DELIVERY_CODEC_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "common/status/errors.h"
#include "escapement/storage/v1/records.pb.h"
#include "escapement/v1/resources.pb.h"
#include "escapement/v1/tenant_service.pb.h"
#include "services/master/base/target_secrets.h"

namespace escapement::master {

// Reads target, content_type, delivery_timeout and retry_policy. Adds each error to `violations`,
// with its field below `prefix` ("schedule"). Secrets of a schedule are not sealed yet
// (SealSecrets). `before`: the event's present target, whose secrets it may keep; null: none.
storage::v1::DeliveryRecord ReadDelivery(const v1::Schedule& schedule, absl::string_view prefix,
                                         FieldViolations& violations);
storage::v1::DeliveryRecord ReadDelivery(const v1::Event& event, absl::string_view prefix,
                                         absl::string_view tenant, const TargetSecrets& secrets,
                                         FieldViolations& violations,
                                         const storage::v1::TargetRecord* before = nullptr);

// Checks retry_policy, delivery_timeout and max_lateness, with fields below `prefix`.
void CheckDeliveryDefaults(const v1::TenantDefaults& defaults, absl::string_view prefix,
                           FieldViolations& violations);

// Reads only a target, at `field`; everything else has its default.
storage::v1::DeliveryRecord ReadDeliveryTo(const v1::Target& target, absl::string_view field,
                                           FieldViolations& violations);

void WriteDelivery(const storage::v1::DeliveryRecord& record, v1::Schedule& schedule);
void WriteDelivery(const storage::v1::DeliveryRecord& record, v1::Event& event);

uint32_t ReadPriority(const v1::Schedule& schedule, absl::string_view prefix,
                      FieldViolations& violations);
uint32_t ReadPriority(const v1::Event& event, absl::string_view prefix,
                      FieldViolations& violations);
// Reads max_lateness, in microseconds; 0: unset.
int64_t ReadMaxLateness(const v1::Event& event, absl::string_view prefix,
                        FieldViolations& violations);
void CheckPayload(absl::string_view payload, absl::string_view field, FieldViolations& violations);
// Adds a violation of `field` if a message to the target cannot hold the payload (SQS).
void CheckPayloadFits(const storage::v1::DeliveryRecord& delivery, absl::string_view payload,
                      absl::string_view field, FieldViolations& violations);
// Checks a request_id.
void CheckRequestId(absl::string_view request_id, FieldViolations& violations);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_CODEC_DELIVERY_CODEC_H_
