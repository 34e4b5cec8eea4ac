// KeyService makes, shows and revokes API keys.
//
// BootstrapKeyLoop: the first key of an installation. It reads a key from a file that the operator
// names and stores it as an admin's key for all tenants, once. If the file appears or changes
// later, the new key is stored within a second, too.
//
// The key can be revoked like any other. A revoked key stays revoked although the file is still
// there.
//
// Threads: the context's executor.

#ifndef SERVICES_MASTER_KEYS_KEY_SERVICE_H_
#define SERVICES_MASTER_KEYS_KEY_SERVICE_H_

#include <string>

#include "escapement/v1/key_service.pb.h"
#include "services/master/api/master_apis.h"
#include "services/master/base/master_context.h"

namespace escapement::master {

class BootstrapKeyLoop {
 public:
  // `context` outlives it; its executor is stopped before the loop is destroyed. Without a file the
  // loop does nothing.
  BootstrapKeyLoop(MasterContext& context, std::string file)
      : context_(context), file_(std::move(file)) {}

  void Start();

 private:
  void Step();
  void Store(const std::string& text);

  MasterContext& context_;
  const std::string file_;
  std::string seen_;  // content of the file whose key is stored, or is no key
};

// KeyService: the API keys of tenants, and those of tenants/- for all tenants.
//
// Threads: as master_apis.h.

class KeyService {
 public:
  // `context` outlives the service.
  explicit KeyService(MasterContext& context) : context_(context) {}

  void CreateKey(v1::CreateKeyRequest request, Done<v1::ApiKey> done);
  void GetKey(v1::GetKeyRequest request, Done<v1::ApiKey> done);
  void ListKeys(v1::ListKeysRequest request, Done<v1::ListKeysResponse> done);
  void RevokeKey(v1::RevokeKeyRequest request, Done<v1::ApiKey> done);

 private:
  MasterContext& context_;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_KEYS_KEY_SERVICE_H_
