// KeyApi: what the master promises about keys. The contract of each method is that of its RPC in
// escapement/v1/key_service.proto; errors carry the details of common/status/errors.h.
//
// Threads: methods may be called from any thread and never block; see common/rpc/done.h for the
// answers.

#ifndef SERVICES_MASTER_API_KEY_API_H_
#define SERVICES_MASTER_API_KEY_API_H_

#include "escapement/v1/key_service.pb.h"
#include "services/master/api/done.h"

namespace escapement::master {

class KeyApi {
 public:
  virtual ~KeyApi() = default;

  virtual void CreateKey(v1::CreateKeyRequest request, Done<v1::ApiKey> done) = 0;
  virtual void GetKey(v1::GetKeyRequest request, Done<v1::ApiKey> done) = 0;
  virtual void ListKeys(v1::ListKeysRequest request, Done<v1::ListKeysResponse> done) = 0;
  virtual void RevokeKey(v1::RevokeKeyRequest request, Done<v1::ApiKey> done) = 0;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_API_KEY_API_H_
