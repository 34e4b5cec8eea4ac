#include "common/secrets/secret_keys_flag.h"

#include <utility>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "common/secrets/key_ring.h"

ABSL_FLAG(std::string, secret_keys_file, "",
          "file with the keys that encrypt the secrets of targets, made by `tools/dev secret_key`; "
          "without it targets can have no secrets. Master and handler need the same file");

namespace escapement {

void ValidateSecretKeysFlag(std::vector<std::string>& errors) {
  const std::string path = absl::GetFlag(FLAGS_secret_keys_file);
  if (path.empty()) return;
  if (const auto keys = KeyRing::Load(path); !keys.ok())
    errors.push_back(absl::StrCat("--secret_keys_file: ", keys.status().message()));
}

std::shared_ptr<const Sealer> SealerFromFlag() {
  const std::string path = absl::GetFlag(FLAGS_secret_keys_file);
  if (path.empty()) return nullptr;
  auto keys = KeyRing::Load(path);
  if (!keys.ok()) return nullptr;
  return std::make_shared<const Sealer>(*std::move(keys));
}

}  // namespace escapement
