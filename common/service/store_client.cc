#include "common/service/store_client.h"

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "common/kv/wire/grpc_kv_store.h"
#include "common/rpc/channel.h"
#include "common/rpc/host_port.h"
#include "common/tls/tls_flags.h"

ABSL_FLAG(std::string, store, "127.0.0.1:7400", "host:port of the store");

namespace escapement {

void ValidateStoreFlag(std::vector<std::string>& errors) {
  const auto address = ParseHostPort(absl::GetFlag(FLAGS_store));
  if (!address.ok()) {
    errors.push_back(absl::StrCat("--store: ", address.status().message()));
  } else if (address->port == 0) {
    errors.push_back("--store: needs a port, as in 127.0.0.1:7400");
  }
}

std::unique_ptr<kv::KvStore> NewStoreClient() {
  ChannelOptions options;
  options.tls = PeerTlsFromFlags();
  return std::make_unique<kv::GrpcKvStore>(NewChannel(absl::GetFlag(FLAGS_store), options));
}

}  // namespace escapement
