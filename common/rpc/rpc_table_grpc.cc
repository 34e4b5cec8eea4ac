#include "common/rpc/rpc_table_grpc.h"

#include <grpcpp/grpcpp.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/rpc/ordered_stream_grpc.h"
#include "common/rpc/status_conversion.h"
#include "common/status/errors.h"
#include "common/tls/credentials_grpc.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/descriptor.pb.h"
#include "grpc/reflection/v1alpha/reflection.pb.h"

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

namespace {

namespace wire = grpc::reflection::v1alpha;
using google::protobuf::DescriptorPool;
using google::protobuf::FileDescriptor;

constexpr absl::string_view kMethod =
    "grpc.reflection.v1alpha.ServerReflection.ServerReflectionInfo";
constexpr size_t kUnansweredMax = 8;

// `file`, after all that it imports.
void AddFiles(const FileDescriptor& file, std::set<const FileDescriptor*>& seen,
              wire::FileDescriptorResponse& out) {
  if (!seen.insert(&file).second) return;
  for (int i = 0; i < file.dependency_count(); ++i) AddFiles(*file.dependency(i), seen, out);
  google::protobuf::FileDescriptorProto proto;
  file.CopyTo(&proto);
  out.add_file_descriptor_proto(proto.SerializeAsString());
}

class ReflectionStream final : public OrderedStream<wire::ServerReflectionResponse> {
 public:
  ReflectionStream(const RpcTable& table, AdmittedCall call)
      : OrderedStream({.unanswered_max = kUnansweredMax}), table_(table), call_(std::move(call)) {}

 protected:
  absl::Status Take(grpc::ByteBuffer& bytes, uint64_t place) override {
    wire::ServerReflectionRequest request;
    RETURN_IF_ERROR(ReadMessage(bytes, &request));
    wire::ServerReflectionResponse response;
    response.set_valid_host(request.host());
    Fill(request, response);
    *response.mutable_original_request() = std::move(request);
    Answer(place, std::move(response));
    return absl::OkStatus();
  }

 private:
  void Fill(const wire::ServerReflectionRequest& request,
            wire::ServerReflectionResponse& response) const {
    const DescriptorPool& pool = *DescriptorPool::generated_pool();
    switch (request.message_request_case()) {
      case wire::ServerReflectionRequest::kListServices:
        for (const std::string& name : table_.ServiceNames())
          response.mutable_list_services_response()->add_service()->set_name(name);
        return;
      case wire::ServerReflectionRequest::kFileByFilename:
        return FillFile(pool.FindFileByName(request.file_by_filename()), response);
      case wire::ServerReflectionRequest::kFileContainingSymbol:
        return FillFile(pool.FindFileContainingSymbol(request.file_containing_symbol()), response);
      case wire::ServerReflectionRequest::kFileContainingExtension: {
        const auto& asked = request.file_containing_extension();
        const auto* type = pool.FindMessageTypeByName(asked.containing_type());
        const auto* extension =
            type == nullptr ? nullptr : pool.FindExtensionByNumber(type, asked.extension_number());
        return FillFile(extension == nullptr ? nullptr : extension->file(), response);
      }
      case wire::ServerReflectionRequest::kAllExtensionNumbersOfType:
        return FillExtensions(request.all_extension_numbers_of_type(), response);
      case wire::ServerReflectionRequest::MESSAGE_REQUEST_NOT_SET:
        break;
    }
    response.mutable_error_response()->set_error_code(grpc::StatusCode::INVALID_ARGUMENT);
    response.mutable_error_response()->set_error_message("the request asks for nothing");
  }

  static void FillFile(const FileDescriptor* file, wire::ServerReflectionResponse& response) {
    if (file == nullptr) return FillNotFound(response);
    std::set<const FileDescriptor*> seen;
    AddFiles(*file, seen, *response.mutable_file_descriptor_response());
  }

  static void FillExtensions(const std::string& type_name,
                             wire::ServerReflectionResponse& response) {
    const DescriptorPool& pool = *DescriptorPool::generated_pool();
    const auto* type = pool.FindMessageTypeByName(type_name);
    if (type == nullptr) return FillNotFound(response);
    std::vector<const google::protobuf::FieldDescriptor*> extensions;
    pool.FindAllExtensions(type, &extensions);
    auto& numbers = *response.mutable_all_extension_numbers_response();
    numbers.set_base_type_name(type_name);
    for (const auto* extension : extensions) numbers.add_extension_number(extension->number());
  }

  static void FillNotFound(wire::ServerReflectionResponse& response) {
    response.mutable_error_response()->set_error_code(grpc::StatusCode::NOT_FOUND);
    response.mutable_error_response()->set_error_message("not found");
  }

  const RpcTable& table_;
  const AdmittedCall call_;
};

}  // namespace

void AddReflection(RpcTable& table) {
  table.AddOpenStream(kMethod, [&table](AdmittedCall call) {
    return ReflectionStream::Start(std::make_shared<ReflectionStream>(table, std::move(call)));
  });
}

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

CallHead HeadOf(const grpc::GenericCallbackServerContext& context, TlsFiles* tls) {
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
    head.client_names = ClientNames(*auth, tls);
  return head;
}

// W3C Trace Context, 3.2.2: version-trace id-parent id-flags, in lower-case hex.
bool IsTraceParent(absl::string_view text) {
  constexpr absl::string_view kForm = "xx-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx-xxxxxxxxxxxxxxxx-xx";
  if (text.size() != kForm.size()) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool hex = absl::ascii_isdigit(text[i]) || (text[i] >= 'a' && text[i] <= 'f');
    if (kForm[i] == 'x' ? !hex : text[i] != '-') return false;
  }
  const auto all_zero = [text](size_t begin, size_t size) {
    return text.substr(begin, size).find_first_not_of('0') == absl::string_view::npos;
  };
  return text.substr(0, 2) != "ff" && !all_zero(3, 32) && !all_zero(36, 16);
}

std::shared_ptr<const Caller> WithTraceParent(std::shared_ptr<const Caller> caller,
                                              const grpc::GenericCallbackServerContext& context) {
  const auto [begin, end] = context.client_metadata().equal_range("traceparent");
  if (begin == end || std::next(begin) != end || !IsTraceParent(View(begin->second))) return caller;
  auto traced = std::make_shared<Caller>(*caller);
  traced->trace_parent = std::string(View(begin->second));
  return traced;
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
    auto admitted = gate_.Admit(entry->access, HeadOf(*context, tls_));
    if (!admitted.ok()) return refuse(admitted.status());
    caller = WithTraceParent(*std::move(admitted), *context);
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
