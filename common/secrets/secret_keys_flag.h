// The flag --secret_keys_file of services that seal or open secrets.

#ifndef COMMON_SECRETS_SECRET_KEYS_FLAG_H_
#define COMMON_SECRETS_SECRET_KEYS_FLAG_H_

#include <memory>
#include <string>
#include <vector>

#include "common/secrets/sealed_value.h"

namespace escapement {

// Appends a sentence if the flag is set and its file cannot be read.
void ValidateSecretKeysFlag(std::vector<std::string>& errors);

// Null if the flag is not set. Call it after the validation.
std::shared_ptr<const Sealer> SealerFromFlag();

}  // namespace escapement

#endif  // COMMON_SECRETS_SECRET_KEYS_FLAG_H_
