// --require_credentials and --certificate_roles, for every service.

#ifndef COMMON_AUTH_AUTH_FLAGS_H_
#define COMMON_AUTH_AUTH_FLAGS_H_

#include <string>
#include <utility>
#include <vector>

#include "escapement/v1/access.pb.h"

namespace escapement::auth {

// Appends a sentence for each impossible value.
void ValidateAuthFlags(std::vector<std::string>& errors);

// True: calls without credentials are refused.
bool CredentialsRequired();
// Subject alternative names of client certificates (common/tls/client_names.h), and the roles that
// they stand for.
std::vector<std::pair<std::string, v1::Access::Role>> CertificateRoles();

}  // namespace escapement::auth

#endif  // COMMON_AUTH_AUTH_FLAGS_H_
