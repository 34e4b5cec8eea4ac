#include "common/process/store_client.h"

#include <algorithm>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/rpc/channel.h"
#include "common/rpc/host_port.h"

ABSL_FLAG(std::string, store, "127.0.0.1:7400",
          "host:port of the store. If it is replicated: the addresses of all its processes, "
          "separated by commas, or one name that has them all");

namespace escapement {

void ValidateStoreFlag(std::vector<std::string>& errors) {
  const auto addresses = ParseStoreAddresses(absl::GetFlag(FLAGS_store));
  if (!addresses.ok()) errors.push_back(absl::StrCat("--store: ", addresses.status().message()));
}

std::unique_ptr<kv::LeaderSeekingKvStore> NewStoreClient(
    Runtime& runtime, std::shared_ptr<grpc::ChannelCredentials> credentials) {
  return NewStoreClient(runtime, std::move(credentials),
                        ParseStoreAddresses(absl::GetFlag(FLAGS_store)).value());
}

std::unique_ptr<kv::LeaderSeekingKvStore> NewStoreClient(
    Runtime& runtime, std::shared_ptr<grpc::ChannelCredentials> credentials,
    std::vector<std::string> addresses) {
  kv::LeaderSeekingKvStore::Options options;
  options.addresses = std::move(addresses);
  options.connect = [credentials = std::move(credentials)](const kv::StoreAddress& address) {
    ChannelOptions channel;
    channel.credentials = credentials;
    channel.authority = address.authority;
    // Stores name addresses, too: the scheme makes sure that none is taken for another kind of
    // target.
    return NewChannel(absl::StrCat("dns:///", address.target), channel);
  };
  options.on_leader = [](const kv::StoreAddress& leader) {
    Log(LogLevel::kInfo, "store.client", "another store leads", {{"address", leader.target}});
  };
  return std::make_unique<kv::LeaderSeekingKvStore>(runtime, std::move(options));
}

absl::StatusOr<std::vector<std::string>> ParseStoreAddresses(absl::string_view text) {
  std::vector<std::string> addresses;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    ASSIGN_OR_RETURN(const auto place, ParseHostPort(absl::StripAsciiWhitespace(part)));
    if (place.port == 0)
      return absl::InvalidArgumentError(
          absl::StrCat(place.host, " needs a port, as in 127.0.0.1:7400"));
    std::string address = place.ToString();
    if (std::find(addresses.begin(), addresses.end(), address) != addresses.end())
      return absl::InvalidArgumentError(absl::StrCat(address, " occurs twice"));
    addresses.push_back(std::move(address));
  }
  if (addresses.size() > kStoreAddressesMax)
    return absl::InvalidArgumentError(
        absl::StrCat("more than ", kStoreAddressesMax, " addresses of one store"));
  return addresses;
}

}  // namespace escapement
