// Targets that are one HTTP request for each event: http, ping and slack.

#include <map>
#include <set>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/records/row_judge.h"
#include "common/secrets/record_secrets.h"
#include "common/signing/webhook_signer.h"
#include "services/master/base/limits.h"
#include "services/master/codec/target_codec.h"

namespace escapement::master {
namespace {

// Credentials that must not be stored or shown in clear.
bool CarriesCredentials(absl::string_view lower_name) {
  return lower_name == "authorization" || lower_name == "cookie";
}

class HeaderReader {
 public:
  explicit HeaderReader(FieldViolations& violations) : violations_(violations) {}

  // Adds violations of one entry of the map `field`.
  void Read(const std::string& field, const std::string& name, const std::string& value,
            bool secret) {
    const std::string entry =
        absl::StrCat(field, "[", absl::CHexEscape(absl::string_view(name).substr(0, 40)), "]");
    const std::string lower = absl::AsciiStrToLower(name);
    AddIfBad(entry, CheckHeaderName(name), violations_);
    if (!seen_.insert(lower).second) violations_.Add(entry, "is given twice (case is ignored)");
    if (!secret && CarriesCredentials(lower))
      violations_.Add(entry, "carries credentials: it belongs in secret_headers");
    AddIfBad(entry, CheckHeaderValue(value), violations_);
  }

 private:
  FieldViolations& violations_;
  std::set<std::string> seen_;
};

void ReadHeaders(const v1::HttpTarget& http, const std::string& field,
                 storage::v1::HttpTargetRecord& record, FieldViolations& violations) {
  if (http.headers().size() + http.secret_headers().size() > kHeadersMax) {
    violations.Add(absl::StrCat(field, ".headers"),
                   absl::StrCat("and secret_headers must hold at most ", kHeadersMax, " headers"));
    return;
  }
  HeaderReader reader(violations);
  const std::map<std::string, std::string> headers(http.headers().begin(), http.headers().end());
  for (const auto& [name, value] : headers) {
    reader.Read(absl::StrCat(field, ".headers"), name, value, /*secret=*/false);
    (*record.mutable_headers())[name] = value;
  }
  const std::map<std::string, std::string> secret(http.secret_headers().begin(),
                                                  http.secret_headers().end());
  for (const auto& [name, value] : secret) {
    const std::string entry = absl::StrCat(field, ".secret_headers");
    reader.Read(entry, name, value, /*secret=*/true);
    if (value.empty()) violations.Add(entry, "must have values");
    storage::v1::SecretHeaderRecord& header = *record.add_secret_headers();
    header.set_name(name);
    header.set_value(value);
  }
}

void ReadSigningSecrets(const v1::HttpTarget& http, const std::string& field,
                        storage::v1::HttpTargetRecord& record, FieldViolations& violations) {
  if (http.signing_secrets_size() > kSigningSecretsMax)
    return violations.Add(field, absl::StrCat("must hold at most ", kSigningSecretsMax));
  for (int i = 0; i < http.signing_secrets_size(); ++i) {
    const std::string& secret = http.signing_secrets(i);
    if (!IsSecretPlaceholder(secret)) {
      AddIfBad(absl::StrCat(field, "[", i, "]"), WebhookSigner::Check(secret), violations);
    }
    record.add_signing_secrets(secret);
  }
}

}  // namespace

void ReadHttp(const v1::Target& target, const std::string& field,
              storage::v1::TargetRecord& target_record, FieldViolations& violations) {
  const v1::HttpTarget& http = target.http();
  storage::v1::HttpTargetRecord* record = target_record.mutable_http();
  AddIfBad(absl::StrCat(field, ".uri"), CheckHttpUri(http.uri()), violations);
  const std::string method = http.method().empty() ? "POST" : http.method();
  if (method != "POST" && method != "PUT" && method != "PATCH") {
    violations.Add(absl::StrCat(field, ".method"), "must be POST, PUT or PATCH");
  }
  record->set_uri(http.uri());
  record->set_method(method);
  ReadHeaders(http, field, *record, violations);
  ReadSigningSecrets(http, absl::StrCat(field, ".signing_secrets"), *record, violations);
  if (http.has_tls())
    *record->mutable_tls() = ReadTls(http.tls(), absl::StrCat(field, ".tls"), violations);
}

void WriteHttp(const storage::v1::TargetRecord& target_record, v1::Target& target) {
  const storage::v1::HttpTargetRecord& record = target_record.http();
  v1::HttpTarget* http = target.mutable_http();
  http->set_uri(record.uri());
  http->set_method(record.method());
  for (const auto& [name, value] : record.headers()) (*http->mutable_headers())[name] = value;
  for (const std::string& sealed : record.signing_secrets())
    http->add_signing_secrets(SecretPlaceholder(sealed));
  for (const storage::v1::SecretHeaderRecord& header : record.secret_headers())
    (*http->mutable_secret_headers())[header.name()] = SecretPlaceholder(header.value());
  if (record.has_tls()) *http->mutable_tls() = ShowTls(record.tls());
}

void ReadPing(const v1::Target& target, const std::string& field, storage::v1::TargetRecord& record,
              FieldViolations& violations) {
  if (target.ping().uri() != kHeartbeatUri)
    AddIfBad(absl::StrCat(field, ".uri"), CheckHttpUri(target.ping().uri()), violations);
  record.mutable_ping()->set_uri(target.ping().uri());
}

void WritePing(const storage::v1::TargetRecord& record, v1::Target& target) {
  target.mutable_ping()->set_uri(record.ping().uri());
}

void ReadSlack(const v1::Target& target, const std::string& field,
               storage::v1::TargetRecord& record, FieldViolations& violations) {
  const v1::SlackTarget& slack = target.slack();
  if (!IsSecretPlaceholder(slack.webhook_url()))
    AddIfBad(absl::StrCat(field, ".webhook_url"), CheckHttpUri(slack.webhook_url()), violations);
  const std::string text = slack.text().empty() ? "{{payload}}" : slack.text();
  AddIfBad(absl::StrCat(field, ".text"), CheckTemplate(text, kSlackTextCharsMax), violations);
  record.mutable_slack()->set_webhook_url(slack.webhook_url());
  record.mutable_slack()->set_text(text);
}

void WriteSlack(const storage::v1::TargetRecord& record, v1::Target& target) {
  target.mutable_slack()->set_webhook_url(SecretPlaceholder(record.slack().webhook_url()));
  target.mutable_slack()->set_text(record.slack().text());
}

}  // namespace escapement::master
