// Where events go: Target ↔ TargetRecord, with validation.
//
// HTTP: the URI is http:// or https:// with a host, without user information, fragment, blanks or
// control characters. Headers have no control characters (CR, LF, NUL…), and none is one that HTTP,
// CloudEvents or the platform use themselves. gRPC: only dns:///, ipv4:, ipv6: and host:port, never
// unix: or another resolver. Pure.

#ifndef SERVICES_MASTER_SCHEDULES_CODEC_TARGET_CODEC_H_
#define SERVICES_MASTER_SCHEDULES_CODEC_TARGET_CODEC_H_

#include "absl/strings/string_view.h"
#include "common/status/errors.h"
#include "escapement/storage/v1/records.pb.h"
#include "escapement/v1/resources.pb.h"

namespace escapement::master {

// Adds what is wrong to `violations`, with fields below `field` ("schedule.target").
storage::v1::TargetRecord ReadTarget(const v1::Target& target, absl::string_view field,
                                     FieldViolations& violations);

void WriteTarget(const storage::v1::TargetRecord& record, v1::Target& target);

// OK, or why not.
absl::Status CheckHttpUri(absl::string_view uri);
absl::Status CheckGrpcUri(absl::string_view uri);
// The name is valid and not reserved.
absl::Status CheckHeaderName(absl::string_view name);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_SCHEDULES_CODEC_TARGET_CODEC_H_
