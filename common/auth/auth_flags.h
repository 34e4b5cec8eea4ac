// --require_credentials, --certificate_roles and --jwt_issuers, for every service.

#ifndef COMMON_AUTH_AUTH_FLAGS_H_
#define COMMON_AUTH_AUTH_FLAGS_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/auth/issuer_config.h"
#include "escapement/v1/access.pb.h"

namespace escapement::auth {

// Appends a sentence for each impossible value. Files must be readable now, also those that
// --jwt_issuers names; URLs are not called.
void ValidateAuthFlags(std::vector<std::string>& errors);

// True: calls without credentials are refused.
bool CredentialsRequired();
// Subject alternative names of client certificates (common/tls/client_names.h), and the roles that
// they stand for.
std::vector<std::pair<std::string, v1::Access::Role>> CertificateRoles();
// The issuers of accepted tokens; empty: none. Errors as from LoadIssuerConfig.
absl::StatusOr<std::vector<IssuerConfig>> TokenIssuers();

}  // namespace escapement::auth

#endif  // COMMON_AUTH_AUTH_FLAGS_H_
