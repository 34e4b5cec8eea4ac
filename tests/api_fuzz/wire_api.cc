#include "tests/api_fuzz/wire_api.h"

#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/empty.pb.h>
#include <google/protobuf/unknown_field_set.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/rpc/channel.h"
#include "google/api/annotations.pb.h"

namespace escapement::api_fuzz {
namespace {

constexpr char kReflection[] = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";
// Fields of ServerReflectionRequest and ServerReflectionResponse.
constexpr int kFileContainingSymbol = 4;
constexpr int kListServices = 7;
constexpr int kFileDescriptorResponse = 4;
constexpr int kListServicesResponse = 6;

std::string Request(int field, const std::string& text) {
  google::protobuf::Empty message;
  message.GetReflection()->MutableUnknownFields(&message)->AddLengthDelimited(field, text);
  return message.SerializeAsString();
}

// The values of a field of bytes, strings or messages.
std::vector<std::string> FieldOf(const std::string& bytes, int number) {
  google::protobuf::Empty message;
  std::vector<std::string> values;
  if (!message.ParseFromString(bytes)) return values;
  const auto& fields = message.GetReflection()->GetUnknownFields(message);
  for (int i = 0; i < fields.field_count(); ++i) {
    const auto& field = fields.field(i);
    if (field.number() == number && field.type() == field.TYPE_LENGTH_DELIMITED)
      values.push_back(field.length_delimited());
  }
  return values;
}

// "/v1/{name=tenants/*}:pause" has the field "name" of the form "tenants/*".
void ReadHttpRule(Method& method) {
  const auto& rule = method.descriptor->options().GetExtension(google::api::http);
  for (const std::string& path : {rule.get(), rule.post(), rule.patch(), rule.delete_()}) {
    const size_t open = path.find('{');
    const size_t close = path.find('}');
    const size_t equals = path.find('=');
    if (open == path.npos || close == path.npos || equals == path.npos) continue;
    method.name_field = path.substr(open + 1, equals - open - 1);
    method.pattern = path.substr(equals + 1, close - equals - 1);
  }
}

}  // namespace

bool Matches(absl::string_view name, absl::string_view pattern) {
  const std::vector<absl::string_view> parts = absl::StrSplit(name, '/');
  const std::vector<absl::string_view> forms = absl::StrSplit(pattern, '/');
  if (parts.size() != forms.size()) return false;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (forms[i] == "*" ? parts[i].empty() : parts[i] != forms[i]) return false;
  }
  return true;
}

absl::StatusOr<std::unique_ptr<WireApi>> WireApi::Connect(const std::string& address,
                                                          const std::string& package) {
  std::unique_ptr<WireApi> api(new WireApi);
  api->channel_ = NewChannel(address);
  const auto listed = fixtures::RawCall(api->channel_, kReflection, {Request(kListServices, "*")});
  std::vector<std::string> services;
  for (const std::string& message : listed.messages) {
    for (const std::string& answer : FieldOf(message, kListServicesResponse)) {
      for (const std::string& service : FieldOf(answer, 1)) {
        for (const std::string& name : FieldOf(service, 1)) {
          if (absl::StartsWith(name, absl::StrCat(package, "."))) services.push_back(name);
        }
      }
    }
  }
  for (const std::string& service : services) {
    const auto files =
        fixtures::RawCall(api->channel_, kReflection, {Request(kFileContainingSymbol, service)});
    for (const std::string& message : files.messages) {
      for (const std::string& answer : FieldOf(message, kFileDescriptorResponse)) {
        for (const std::string& bytes : FieldOf(answer, 1)) {
          google::protobuf::FileDescriptorProto file;
          google::protobuf::FileDescriptorProto known;
          if (file.ParseFromString(bytes) && !api->database_.FindFileByName(file.name(), &known))
            api->database_.Add(file);
        }
      }
    }
  }
  for (const std::string& name : services) {
    const auto* service = api->pool_.FindServiceByName(name);
    if (service == nullptr) return absl::InternalError(absl::StrCat("no descriptor of ", name));
    for (int i = 0; i < service->method_count(); ++i) {
      Method method;
      method.descriptor = service->method(i);
      method.path = absl::StrCat("/", name, "/", service->method(i)->name());
      ReadHttpRule(method);
      api->methods_.push_back(std::move(method));
    }
  }
  if (api->methods_.empty()) return absl::NotFoundError(absl::StrCat("no methods in ", package));
  return api;
}

const Method* WireApi::GetterOf(absl::string_view name) const {
  for (const Method& method : methods_) {
    if (absl::StartsWith(method.name(), "Get") && method.name_field == "name" &&
        method.descriptor->output_type()->FindFieldByName("name") != nullptr &&
        Matches(name, method.pattern))
      return &method;
  }
  return nullptr;
}

std::unique_ptr<google::protobuf::Message> WireApi::New(const google::protobuf::Descriptor* type) {
  return std::unique_ptr<google::protobuf::Message>(factory_.GetPrototype(type)->New());
}

fixtures::RawAnswer WireApi::Call(const Method& method, const std::vector<std::string>& messages,
                                  fixtures::RawCallOptions options) {
  fixtures::RawAnswer answer = fixtures::RawCall(channel_, method.path, messages, options);
  if (spoil_) spoil_(method, answer);
  return answer;
}

}  // namespace escapement::api_fuzz
