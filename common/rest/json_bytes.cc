#include "common/rest/json_bytes.h"

#include <google/protobuf/type.pb.h>
#include <google/protobuf/util/json_util.h>
#include <google/protobuf/util/type_resolver.h>
#include <google/protobuf/util/type_resolver_util.h>

#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"

namespace escapement::rest {
namespace {

namespace util = google::protobuf::util;

constexpr char kTypePrefix[] = "type.googleapis.com";

// Keeps the types of the linked descriptors, which do not change.
class KnownTypes final : public util::TypeResolver {
 public:
  util::Status ResolveMessageType(const std::string& url, google::protobuf::Type* type) override {
    absl::MutexLock lock(&mutex_);
    return Resolve(url, &util::TypeResolver::ResolveMessageType, types_, type);
  }
  util::Status ResolveEnumType(const std::string& url, google::protobuf::Enum* type) override {
    absl::MutexLock lock(&mutex_);
    return Resolve(url, &util::TypeResolver::ResolveEnumType, enums_, type);
  }

 private:
  template <typename Type>
  using Known = absl::flat_hash_map<std::string, std::unique_ptr<const Type>>;

  template <typename Type>
  util::Status Resolve(const std::string& url,
                       util::Status (util::TypeResolver::*ask)(const std::string&, Type*),
                       Known<Type>& known, Type* type) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto found = known.find(url);
    if (found != known.end()) {
      *type = *found->second;
      return util::Status();
    }
    const util::Status resolved = (descriptors_.get()->*ask)(url, type);
    // A URL of a client that names no type is not kept.
    if (resolved.ok()) known.emplace(url, std::make_unique<const Type>(*type));
    return resolved;
  }

  absl::Mutex mutex_;
  const std::unique_ptr<util::TypeResolver> descriptors_{util::NewTypeResolverForDescriptorPool(
      kTypePrefix, google::protobuf::DescriptorPool::generated_pool())};
  Known<google::protobuf::Type> types_ ABSL_GUARDED_BY(mutex_);
  Known<google::protobuf::Enum> enums_ ABSL_GUARDED_BY(mutex_);
};

KnownTypes* Types() {
  static auto* const types = new KnownTypes;
  return types;
}

std::string UrlOf(const google::protobuf::Descriptor& type) {
  return absl::StrCat(kTypePrefix, "/", type.full_name());
}

absl::string_view TextOf(const util::Status& status) {
  return {status.message().data(), status.message().size()};
}

}  // namespace

absl::StatusOr<std::string> JsonToBytes(const google::protobuf::Descriptor& type,
                                        absl::string_view json) {
  std::string bytes;
  bytes.reserve(json.size());
  const auto status = util::JsonToBinaryString(
      Types(), UrlOf(type), google::protobuf::StringPiece(json.data(), json.size()), &bytes);
  if (!status.ok()) return absl::InvalidArgumentError(TextOf(status));
  return bytes;
}

absl::StatusOr<std::string> BytesToJson(const google::protobuf::Descriptor& type,
                                        const std::string& bytes) {
  std::string json;
  json.reserve(2 * bytes.size());
  const auto status = util::BinaryToJsonString(Types(), UrlOf(type), bytes, &json);
  if (!status.ok())
    return absl::InternalError(absl::StrCat("an answer that is not JSON: ", TextOf(status)));
  return json;
}

}  // namespace escapement::rest
