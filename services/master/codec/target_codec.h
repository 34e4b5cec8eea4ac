// Where events go: Target ↔ TargetRecord, with validation. Pure.

#ifndef SERVICES_MASTER_CODEC_TARGET_CODEC_H_
#define SERVICES_MASTER_CODEC_TARGET_CODEC_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/status/errors.h"
#include "escapement/storage/v1/records.pb.h"
#include "escapement/v1/resources.pb.h"

namespace escapement::master {

// Adds what is wrong to `violations`, with fields below `field` ("schedule.target"). The secrets of
// the record are not sealed yet: TargetSecrets::Seal must follow before it is stored or shown.
storage::v1::TargetRecord ReadTarget(const v1::Target& target, absl::string_view field,
                                     FieldViolations& violations);

void WriteTarget(const storage::v1::TargetRecord& record, v1::Target& target);

// How each kind of target is validated, stored and shown: one pair of functions for each, which
// target_codec.cc has in a table.
//
// Read… adds violations with fields below `field` ("schedule.target.http"). Secrets are stored as
// they were given, in clear or as placeholders; TargetSecrets seals them afterwards. Write… shows
// placeholders for sealed secrets. Pure.

using ReadTargetKind = void(const v1::Target& target, const std::string& field,
                            storage::v1::TargetRecord& record, FieldViolations& violations);
using WriteTargetKind = void(const storage::v1::TargetRecord& record, v1::Target& target);

ReadTargetKind ReadHttp, ReadGrpc, ReadSqs, ReadKafka, ReadSlack, ReadEmail, ReadPing;
WriteTargetKind WriteHttp, WriteGrpc, WriteSqs, WriteKafka, WriteSlack, WriteEmail, WritePing;

// Rules for the parts of targets. Each function answers OK, or INVALID_ARGUMENT with what is wrong,
// without the name of the field. Pure.

// http:// or https:// with a host, without user information, fragment, blanks or control
// characters.
absl::Status CheckHttpUri(absl::string_view uri);
// dns:///, ipv4:, ipv6: or host:port; never unix: or another resolver.
absl::Status CheckGrpcUri(absl::string_view uri);
// host:port or [IPv6]:port; the port may be missing unless `port_needed`.
absl::Status CheckHostPort(absl::string_view text, bool port_needed);
// The name is valid and not reserved for HTTP, CloudEvents or the platform.
absl::Status CheckHeaderName(absl::string_view name);
// No control character but tabs, and not too long.
absl::Status CheckHeaderValue(absl::string_view value);
// An e-mail address: local part and domain, nothing around them.
absl::Status CheckMailAddress(absl::string_view address);
// At most `chars_max` characters, and places that EventTemplate knows.
absl::Status CheckTemplate(absl::string_view text, size_t chars_max);

// Code points of valid UTF-8.
size_t CharsOf(absl::string_view text);
// True for characters that a URI may have.
bool IsUriText(absl::string_view text);

// Reads certificates, and adds what is wrong with fields below `field`.
storage::v1::TlsRecord ReadTls(const v1::TlsOptions& tls, const std::string& field,
                               FieldViolations& violations);
v1::TlsOptions ShowTls(const storage::v1::TlsRecord& record);

// Adds a violation of `field` if `status` is an error.
void AddIfBad(const std::string& field, const absl::Status& status, FieldViolations& violations);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_CODEC_TARGET_CODEC_H_
