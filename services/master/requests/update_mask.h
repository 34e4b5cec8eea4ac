// The update_mask of Update methods (https://google.aip.dev/134): which fields of a patch replace
// those of the current resource. Pure.

#ifndef SERVICES_MASTER_REQUESTS_UPDATE_MASK_H_
#define SERVICES_MASTER_REQUESTS_UPDATE_MASK_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/field_mask.pb.h"
#include "google/protobuf/message.h"

namespace escapement::master {

// The fields to replace: those of the mask or, if it is empty, all that are set in `patch`.
// INVALID_ARGUMENT (update_mask) for a path that is no field of the patch's type and not "*".
absl::StatusOr<google::protobuf::FieldMask> ReadUpdateMask(const google::protobuf::Message& patch,
                                                           const google::protobuf::FieldMask& mask);

// All fields that are set in `message`.
google::protobuf::FieldMask SetFields(const google::protobuf::Message& message);

// True if the mask has "*": the patch replaces the whole resource.
bool ReplacesAll(const google::protobuf::FieldMask& mask);
// True if the mask has exactly this path.
bool HasPath(const google::protobuf::FieldMask& mask, absl::string_view path);

// Replaces in `result`, of the patch's type, the fields that the mask names. `mask` is from
// ReadUpdateMask and does not replace all.
void ReplaceFields(const google::protobuf::Message& patch, const google::protobuf::FieldMask& mask,
                   google::protobuf::Message& result);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_REQUESTS_UPDATE_MASK_H_
