#include "absl/strings/str_cat.h"
#include "services/master/codec/target_codec.h"

namespace escapement::master {

void ReadGrpc(const v1::Target& target, const std::string& field, storage::v1::TargetRecord& record,
              FieldViolations& violations) {
  AddIfBad(absl::StrCat(field, ".uri"), CheckGrpcUri(target.grpc().uri()), violations);
  record.mutable_grpc()->set_uri(target.grpc().uri());
  if (target.grpc().has_tls()) {
    *record.mutable_grpc()->mutable_tls() =
        ReadTls(target.grpc().tls(), absl::StrCat(field, ".tls"), violations);
  }
}

void WriteGrpc(const storage::v1::TargetRecord& record, v1::Target& target) {
  target.mutable_grpc()->set_uri(record.grpc().uri());
  if (record.grpc().has_tls()) *target.mutable_grpc()->mutable_tls() = ShowTls(record.grpc().tls());
}

}  // namespace escapement::master
