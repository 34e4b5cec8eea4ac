#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/printable_text.h"
#include "common/secrets/record_secrets.h"
#include "services/master/base/limits.h"
#include "services/master/codec/target_codec.h"

namespace escapement::master {
namespace {

absl::Status CheckSmtpUri(absl::string_view uri) {
  if (uri.empty()) return absl::InvalidArgumentError("is required");
  if (uri.size() > kUriBytesMax)
    return absl::InvalidArgumentError(absl::StrCat("must have at most ", kUriBytesMax, " bytes"));
  if (!absl::ConsumePrefix(&uri, "smtp://") && !absl::ConsumePrefix(&uri, "smtps://"))
    return absl::InvalidArgumentError("must begin with smtp:// or smtps://");
  absl::ConsumeSuffix(&uri, "/");
  return CheckHostPort(uri, /*port_needed=*/false);
}

void ReadLogin(const v1::EmailTarget& email, const std::string& field,
               storage::v1::EmailTargetRecord& record, FieldViolations& violations) {
  const bool named = !email.username().empty();
  if (named != !email.password().empty())
    violations.Add(absl::StrCat(field, ".password"), "and username need each other");
  for (const auto& [name, value] :
       {std::pair(".username", &email.username()), std::pair(".password", &email.password())}) {
    if (value->size() > kPasswordBytesMax || HasControlCharacters(*value))
      violations.Add(absl::StrCat(field, name), "is too long or has control characters");
  }
  if (email.plaintext() && named)
    violations.Add(absl::StrCat(field, ".plaintext"), "would send the password in clear");
  if (email.plaintext() && absl::StartsWith(email.smtp_uri(), "smtps:"))
    violations.Add(absl::StrCat(field, ".plaintext"), "contradicts smtps://");
  record.set_username(email.username());
  record.set_password(email.password());
  record.set_plaintext(email.plaintext());
}

}  // namespace

void ReadEmail(const v1::Target& target, const std::string& field,
               storage::v1::TargetRecord& target_record, FieldViolations& violations) {
  const v1::EmailTarget& email = target.email();
  storage::v1::EmailTargetRecord& record = *target_record.mutable_email();
  AddIfBad(absl::StrCat(field, ".smtp_uri"), CheckSmtpUri(email.smtp_uri()), violations);
  record.set_smtp_uri(std::string(absl::StripSuffix(email.smtp_uri(), "/")));
  ReadLogin(email, field, record, violations);
  AddIfBad(absl::StrCat(field, ".from"), CheckMailAddress(email.from()), violations);
  record.set_from(email.from());
  if (email.to().empty() || email.to_size() > kMailReceiversMax) {
    violations.Add(absl::StrCat(field, ".to"),
                   absl::StrCat("must have 1 to ", kMailReceiversMax, " addresses"));
  } else {
    for (int i = 0; i < email.to_size(); ++i)
      AddIfBad(absl::StrCat(field, ".to[", i, "]"), CheckMailAddress(email.to(i)), violations);
    *record.mutable_to() = email.to();
  }
  record.set_subject(email.subject().empty() ? "{{source}}" : email.subject());
  record.set_text(email.text().empty() ? "{{payload}}" : email.text());
  if (HasControlCharacters(record.subject()))
    violations.Add(absl::StrCat(field, ".subject"), "must not hold control characters");
  AddIfBad(absl::StrCat(field, ".subject"), CheckTemplate(record.subject(), kMailSubjectCharsMax),
           violations);
  AddIfBad(absl::StrCat(field, ".text"), CheckTemplate(record.text(), kMailTextCharsMax),
           violations);
  if (email.has_tls())
    *record.mutable_tls() = ReadTls(email.tls(), absl::StrCat(field, ".tls"), violations);
}

void WriteEmail(const storage::v1::TargetRecord& target_record, v1::Target& target) {
  const storage::v1::EmailTargetRecord& record = target_record.email();
  v1::EmailTarget* email = target.mutable_email();
  email->set_smtp_uri(record.smtp_uri());
  email->set_username(record.username());
  if (!record.password().empty()) email->set_password(SecretPlaceholder(record.password()));
  email->set_from(record.from());
  *email->mutable_to() = record.to();
  email->set_subject(record.subject());
  email->set_text(record.text());
  if (record.has_tls()) *email->mutable_tls() = ShowTls(record.tls());
  email->set_plaintext(record.plaintext());
}

}  // namespace escapement::master
