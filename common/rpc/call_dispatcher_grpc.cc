#include "common/rpc/call_dispatcher_grpc.h"

#include <grpcpp/grpcpp.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/rpc/status_conversion.h"
#include "common/status/errors.h"
#include "common/tls/credentials_grpc.h"

namespace escapement {
namespace {

constexpr char kSourceKey[] = "escapement-client-source";
constexpr char kNamesKey[] = "escapement-client-name-bin";
constexpr char kDoorKey[] = "escapement-door-bin";
constexpr size_t kDoorSecretBytes = 32;

// Proves that a call comes from this process. Another one cannot know it.
const std::string& DoorSecret() {
  static const auto* const secret = [] {
    auto* bytes = new std::string(kDoorSecretBytes, '\0');
    CHECK_EQ(RAND_bytes(reinterpret_cast<unsigned char*>(bytes->data()), kDoorSecretBytes), 1);
    return bytes;
  }();
  return *secret;
}

class FailedCall final : public grpc::ServerGenericBidiReactor {
 public:
  explicit FailedCall(const absl::Status& status) { Finish(ToGrpcStatus(status)); }
  void OnDone() override { delete this; }
};

bool IsDoorSecret(absl::string_view text) {
  return text.size() == kDoorSecretBytes &&
         CRYPTO_memcmp(text.data(), DoorSecret().data(), kDoorSecretBytes) == 0;
}

absl::string_view View(grpc::string_ref text) { return {text.data(), text.size()}; }

// "ipv4:127.0.0.1:4711" and "ipv6:%5B::1%5D:4711" without the scheme.
std::string SourceOf(absl::string_view peer) {
  const size_t colon = peer.find(':');
  return std::string(colon == absl::string_view::npos ? peer : peer.substr(colon + 1));
}

CallHead HeadOf(const grpc::GenericCallbackServerContext& context) {
  CallHead head;
  const auto& metadata = context.client_metadata();
  if (const auto it = metadata.find("authorization"); it != metadata.end())
    head.authorization = metadata.count("authorization") == 1 ? View(it->second) : "?";
  if (const auto it = metadata.find(kDoorKey);
      it != metadata.end() && IsDoorSecret(View(it->second))) {
    if (const auto it = metadata.find(kSourceKey); it != metadata.end())
      head.source = std::string(View(it->second));
    const auto [begin, end] = metadata.equal_range(kNamesKey);
    for (auto it = begin; it != end; ++it) head.client_names.emplace_back(View(it->second));
    return head;
  }
  head.source = SourceOf(context.peer());
  if (const auto auth = context.auth_context(); auth != nullptr)
    head.client_names = ClientNames(*auth);
  return head;
}

}  // namespace

grpc::ServerGenericBidiReactor* CallDispatcher::CreateReactor(
    grpc::GenericCallbackServerContext* context) {
  const RpcTable::Entry* entry = table_.Find(context->method());
  MethodMetrics* const metrics = metrics_ == nullptr ? nullptr
                                 : entry == nullptr  ? &metrics_->Unknown()
                                                     : &metrics_->Of(context->method());
  const auto refuse = [metrics](const absl::Status& status) {
    if (metrics != nullptr) metrics->Refused(status.code());
    return new FailedCall(status);
  };
  if (entry == nullptr) {
    return refuse(MakeError(absl::StatusCode::kUnimplemented, "UNKNOWN_METHOD",
                            absl::StrCat("this server has no method ", context->method())));
  }
  const absl::Duration began = metrics == nullptr ? absl::ZeroDuration() : metrics->Now();
  std::shared_ptr<const Caller> caller;
  if (entry->open) {
    caller = AnonymousCaller();
  } else {
    auto admitted = gate_.Admit(entry->access, HeadOf(*context));
    if (!admitted.ok()) return refuse(admitted.status());
    caller = *std::move(admitted);
  }
  return entry->start(
      {.context = context,
       .method = &entry->access,
       .gate = &gate_,
       .caller = std::move(caller),
       .metrics = metrics,
       .began = began,
       .open_stream = metrics != nullptr && entry->stream ? metrics->StreamOpened() : nullptr});
}

void NameClient(const std::string& source, const std::vector<std::string>& client_names,
                grpc::ClientContext& context) {
  context.AddMetadata(kDoorKey, DoorSecret());
  if (!source.empty()) context.AddMetadata(kSourceKey, source);
  for (const std::string& name : client_names) context.AddMetadata(kNamesKey, name);
}

}  // namespace escapement
