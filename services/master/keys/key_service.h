// KeyService: the API keys of tenants, and those of tenants/- for all tenants.
//
// Threads: as KeyApi.

#ifndef SERVICES_MASTER_KEYS_KEY_SERVICE_H_
#define SERVICES_MASTER_KEYS_KEY_SERVICE_H_

#include "services/master/api/key_api.h"
#include "services/master/base/master_context.h"

namespace escapement::master {

class KeyService final : public KeyApi {
 public:
  // `context` outlives the service.
  explicit KeyService(MasterContext& context) : context_(context) {}

  void CreateKey(v1::CreateKeyRequest request, Done<v1::ApiKey> done) override;
  void GetKey(v1::GetKeyRequest request, Done<v1::ApiKey> done) override;
  void ListKeys(v1::ListKeysRequest request, Done<v1::ListKeysResponse> done) override;
  void RevokeKey(v1::RevokeKeyRequest request, Done<v1::ApiKey> done) override;

 private:
  MasterContext& context_;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_KEYS_KEY_SERVICE_H_
