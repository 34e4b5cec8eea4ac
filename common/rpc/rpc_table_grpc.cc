#include "common/rpc/rpc_table_grpc.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "google/protobuf/descriptor.h"

namespace escapement {
namespace {

std::string WirePath(absl::string_view name) {
  const size_t dot = name.rfind('.');
  return absl::StrCat("/", name.substr(0, dot), "/", name.substr(dot + 1));
}

}  // namespace

std::string RpcTable::UnaryMethodOf(const google::protobuf::Descriptor& request) {
  std::string found;
  const google::protobuf::FileDescriptor& file = *request.file();
  for (int s = 0; s < file.service_count(); ++s) {
    for (int m = 0; m < file.service(s)->method_count(); ++m) {
      const auto* method = file.service(s)->method(m);
      if (method->input_type() != &request || method->client_streaming()) continue;
      CHECK(found.empty()) << request.full_name() << " has two methods";
      found = method->full_name();
    }
  }
  CHECK(!found.empty()) << request.full_name() << " has no unary method in its file";
  return found;
}

void RpcTable::Add(absl::string_view name, bool stream, Start start) {
  const auto* method =
      google::protobuf::DescriptorPool::generated_pool()->FindMethodByName(std::string(name));
  CHECK(method != nullptr) << "no such method: " << name;
  absl::StatusOr<MethodAccess> access = MethodAccess::Of(*method);
  CHECK(access.ok()) << access.status().ToString();
  const bool added =
      entries_.emplace(WirePath(name), Entry{*std::move(access), false, stream, std::move(start)})
          .second;
  CHECK(added) << name << " is there twice";
  const std::string& service = method->service()->full_name();
  const auto place = std::lower_bound(services_.begin(), services_.end(), service);
  if (place == services_.end() || *place != service) services_.insert(place, service);
}

void RpcTable::AddOpenStream(absl::string_view name, Start start) {
  const bool added =
      entries_.emplace(WirePath(name), Entry{{}, true, true, std::move(start)}).second;
  CHECK(added) << name << " is there twice";
}

std::vector<std::string> RpcTable::ServiceNames() const { return services_; }

const RpcTable::Entry* RpcTable::Find(absl::string_view path) const {
  const auto it = entries_.find(path);
  return it == entries_.end() ? nullptr : &it->second;
}

}  // namespace escapement
