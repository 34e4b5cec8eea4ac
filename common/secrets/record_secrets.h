// Secrets in records: the fields that are marked (escapement.storage.v1.sealed).
//
// The master seals them before it stores a record, and the handler opens them when it has read one.
// The associated data is the tenant and the field's full name, so a sealed value can be copied from
// one version of a schedule to the next, but not to another tenant or another kind of secret.
//
// Threads: any; a function changes only the record that it is given.

#ifndef COMMON_SECRETS_RECORD_SECRETS_H_
#define COMMON_SECRETS_RECORD_SECRETS_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/secrets/sealed_value.h"
#include "google/protobuf/message.h"

namespace escapement {

// One value of a sealed field.
struct RecordSecret {
  std::string path;   // below the record: "http.signing_secrets[1]"
  std::string field;  // the full name of the field, for the associated data
  std::string value;  // the visitor may replace it
};

// Calls `visit` for each value that is not empty. Stops at the first error and returns it.
absl::Status VisitSecrets(google::protobuf::Message& record,
                          const std::function<absl::Status(RecordSecret&)>& visit);
std::vector<RecordSecret> SecretsOf(const google::protobuf::Message& record);

std::string SecretPlace(absl::string_view tenant, const RecordSecret& secret);

// Opens all secrets of the record. Errors as from Sealer::Open; the record is then partly opened.
absl::Status OpenSecrets(const Sealer& sealer, absl::string_view tenant,
                         google::protobuf::Message& record);

// "sealed:" and 12 hex digits, what answers show in place of a sealed value. They depend on the
// secret, its place and the key, and do not help to guess the secret without the key.
std::string SecretPlaceholder(absl::string_view sealed);
// True for text that a client can only have from an answer.
bool IsSecretPlaceholder(absl::string_view text);

}  // namespace escapement

#endif  // COMMON_SECRETS_RECORD_SECRETS_H_
