#include "common/records/target_key.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/stable_hash.h"
#include "common/records/heartbeat.h"

namespace escapement {
namespace {

using storage::v1::TargetRecord;

// scheme://host:port of a URI; "" if it has no scheme.
absl::string_view OriginOf(absl::string_view uri) {
  const size_t scheme = uri.find("://");
  if (scheme == absl::string_view::npos) return {};
  return uri.substr(0, uri.find_first_of("/?#", scheme + 3));
}

std::string GrpcKey(const storage::v1::GrpcTargetRecord& grpc) {
  if (!grpc.has_tls()) return absl::StrCat("grpc:", grpc.uri());
  const uint64_t certificates = StableHash64(
      absl::StrCat(grpc.tls().ca_certificates(), "\n", grpc.tls().client_certificate()));
  return absl::StrCat("grpc:", grpc.uri(), "#tls-", absl::Hex(certificates, absl::kZeroPad16));
}

std::string SqsKey(const storage::v1::SqsTargetRecord& sqs) {
  if (OriginOf(sqs.queue_url()) == sqs.endpoint()) return absl::StrCat("sqs:", sqs.queue_url());
  return absl::StrCat("sqs:", sqs.endpoint(), "#", sqs.queue_url());
}

}  // namespace

std::string TargetKeyOf(const TargetRecord& target) {
  switch (target.kind_case()) {
    case TargetRecord::kGrpc:
      return GrpcKey(target.grpc());
    case TargetRecord::kSqs:
      return SqsKey(target.sqs());
    case TargetRecord::kKafka:
      return absl::StrCat("kafka:", target.kafka().brokers(), "/", target.kafka().topic());
    case TargetRecord::kSlack:
      return absl::StrCat("slack:", OriginOf(target.slack().webhook_url()));
    case TargetRecord::kEmail:
      return absl::StrCat("email:", target.email().smtp_uri());
    case TargetRecord::kPing:
      if (target.ping().uri() == kHeartbeatUri) return absl::StrCat("ping:", kHeartbeatUri);
      return absl::StrCat("ping:", OriginOf(target.ping().uri()));
    case TargetRecord::kHttp:
    case TargetRecord::KIND_NOT_SET:
      return absl::StrCat("http:", OriginOf(target.http().uri()));
  }
  return "";
}

}  // namespace escapement
