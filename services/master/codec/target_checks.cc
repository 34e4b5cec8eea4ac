#include <openssl/ssl.h>

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/printable_text.h"
#include "common/secrets/record_secrets.h"
#include "common/templates/event_template.h"
#include "common/tls/tls_files.h"
#include "services/master/base/limits.h"
#include "services/master/codec/target_codec.h"

namespace escapement::master {
namespace {

constexpr std::array<absl::string_view, 18> kReservedHeaders = {"accept-encoding",
                                                                "connection",
                                                                "content-encoding",
                                                                "content-length",
                                                                "content-type",
                                                                "cookie2",
                                                                "date",
                                                                "expect",
                                                                "host",
                                                                "idempotency-key",
                                                                "keep-alive",
                                                                "te",
                                                                "trailer",
                                                                "traceparent",
                                                                "tracestate",
                                                                "transfer-encoding",
                                                                "upgrade",
                                                                "via"};
constexpr std::array<absl::string_view, 4> kReservedHeaderPrefixes = {"ce-", "escapement-",
                                                                      "proxy-", "webhook-"};

bool IsUriCharacter(char c) {
  return c > 0x20 && c < 0x7f && !absl::StrContains("\"<>\\^`{|}", std::string(1, c));
}

bool IsTokenCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
         absl::StrContains("!#$%&'*+-.^_`|~", std::string(1, c));
}

// Tabs aside, which HTTP allows in values.
bool HasControlCharacter(absl::string_view text) {
  const std::vector<absl::string_view> pieces = absl::StrSplit(text, '\t');
  return std::any_of(pieces.begin(), pieces.end(),
                     [](absl::string_view piece) { return HasControlCharacters(piece); });
}

struct ContextDeleter {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};

// The message of an error without the name in front, which the caller's field gives.
absl::string_view Without(absl::string_view name, const absl::Status& status) {
  absl::string_view message = status.message();
  absl::ConsumePrefix(&message, absl::StrCat(name, ": "));
  return message;
}

}  // namespace

void AddIfBad(const std::string& field, const absl::Status& status, FieldViolations& violations) {
  if (!status.ok()) violations.Add(field, status.message());
}

bool IsUriText(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), IsUriCharacter);
}

absl::Status CheckHostPort(absl::string_view text, bool port_needed) {
  absl::string_view host;
  absl::string_view rest;
  if (absl::StartsWith(text, "[")) {
    const size_t end = text.find(']');
    if (end == absl::string_view::npos) return absl::InvalidArgumentError("has an unclosed '['");
    host = text.substr(1, end - 1);
    rest = text.substr(end + 1);
    const bool address = std::all_of(host.begin(), host.end(), [](char c) {
      return absl::ascii_isxdigit(c) || c == ':' || c == '.';
    });
    if (!address || !absl::StrContains(host, ":"))
      return absl::InvalidArgumentError("has no IPv6 address between '[' and ']'");
  } else {
    const size_t colon = text.find(':');
    host = text.substr(0, colon);
    rest = colon == absl::string_view::npos ? absl::string_view() : text.substr(colon);
    const bool name = std::all_of(host.begin(), host.end(), [](char c) {
      return absl::ascii_isalnum(c) || c == '-' || c == '.' || c == '_';
    });
    if (!name) return absl::InvalidArgumentError("has a malformed host");
  }
  if (host.empty()) return absl::InvalidArgumentError("has no host");
  if (rest.empty())
    return port_needed ? absl::InvalidArgumentError("has no port") : absl::OkStatus();
  uint32_t port = 0;
  if (rest[0] != ':' || rest.size() > 6 || !absl::SimpleAtoi(rest.substr(1), &port) || port < 1 ||
      port > 65'535 || !absl::ascii_isdigit(rest[1])) {
    return absl::InvalidArgumentError("has a malformed port");
  }
  return absl::OkStatus();
}

absl::Status CheckHttpUri(absl::string_view uri) {
  if (uri.empty()) return absl::InvalidArgumentError("is required");
  if (uri.size() > kUriBytesMax)
    return absl::InvalidArgumentError(absl::StrCat("must have at most ", kUriBytesMax, " bytes"));
  if (!IsUriText(uri)) {
    return absl::InvalidArgumentError(
        "holds a character that must be percent-encoded (blank, control, or not ASCII)");
  }
  if (absl::StartsWithIgnoreCase(uri, "http://")) {
    uri.remove_prefix(7);
  } else if (absl::StartsWithIgnoreCase(uri, "https://")) {
    uri.remove_prefix(8);
  } else {
    return absl::InvalidArgumentError("must begin with http:// or https://");
  }
  if (absl::StrContains(uri, "#")) return absl::InvalidArgumentError("must not have a fragment");
  const absl::string_view authority = uri.substr(0, uri.find_first_of("/?"));
  if (absl::StrContains(authority, "@"))
    return absl::InvalidArgumentError("must not have user information");
  return CheckHostPort(authority, /*port_needed=*/false);
}

absl::Status CheckGrpcUri(absl::string_view uri) {
  if (uri.empty()) return absl::InvalidArgumentError("is required");
  if (uri.size() > kUriBytesMax)
    return absl::InvalidArgumentError(absl::StrCat("must have at most ", kUriBytesMax, " bytes"));
  if (!IsUriText(uri)) return absl::InvalidArgumentError("holds a blank or control character");
  if (absl::ConsumePrefix(&uri, "dns:///") || absl::ConsumePrefix(&uri, "ipv4:")) {
    return CheckHostPort(uri, /*port_needed=*/true);
  }
  if (absl::ConsumePrefix(&uri, "ipv6:") && !absl::StartsWith(uri, "["))
    return absl::InvalidArgumentError("needs [address]:port after ipv6:");
  absl::Status status = CheckHostPort(uri, /*port_needed=*/true);
  if (!status.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(status.message(),
                     "; must be dns:///host:port, ipv4:address:port, ipv6:[address]:port or "
                     "host:port"));
  }
  return status;
}

absl::Status CheckHeaderName(absl::string_view name) {
  if (name.empty() || name.size() > kHeaderNameBytesMax ||
      !std::all_of(name.begin(), name.end(), IsTokenCharacter)) {
    return absl::InvalidArgumentError("is not a header name");
  }
  const std::string lower = absl::AsciiStrToLower(name);
  const bool reserved =
      std::find(kReservedHeaders.begin(), kReservedHeaders.end(), lower) !=
          kReservedHeaders.end() ||
      std::any_of(kReservedHeaderPrefixes.begin(), kReservedHeaderPrefixes.end(),
                  [&](absl::string_view prefix) { return absl::StartsWith(lower, prefix); });
  return reserved ? absl::InvalidArgumentError("is reserved for HTTP, CloudEvents or the platform")
                  : absl::OkStatus();
}

absl::Status CheckHeaderValue(absl::string_view value) {
  if (value.size() > kHeaderValueBytesMax)
    return absl::InvalidArgumentError(
        absl::StrCat("value must have at most ", kHeaderValueBytesMax, " bytes"));
  if (HasControlCharacter(value))
    return absl::InvalidArgumentError(
        "value must not hold control characters such as CR, LF or NUL");
  return absl::OkStatus();
}

absl::Status CheckMailAddress(absl::string_view address) {
  if (address.empty()) return absl::InvalidArgumentError("is required");
  const std::vector<absl::string_view> parts = absl::StrSplit(address, '@');
  // Quoted local parts and comments are legal, and nobody's address.
  const auto good = [](absl::string_view part) {
    return !part.empty() && !HasControlCharacters(part) &&
           std::none_of(part.begin(), part.end(), [](char c) {
             return c == ' ' || absl::StrContains("()<>[]:;,\\\"", std::string(1, c));
           });
  };
  if (address.size() > kMailAddressBytesMax || parts.size() != 2 || !good(parts[0]) ||
      !good(parts[1])) {
    return absl::InvalidArgumentError(
        absl::StrCat("must be an address such as jobs@example.com, of at most ",
                     kMailAddressBytesMax, " bytes"));
  }
  return absl::OkStatus();
}

absl::Status CheckTemplate(absl::string_view text, size_t chars_max) {
  if (CharsOf(text) > chars_max)
    return absl::InvalidArgumentError(absl::StrCat("must have at most ", chars_max, " characters"));
  return EventTemplate::Parse(text).status();
}

storage::v1::TlsRecord ReadTls(const v1::TlsOptions& tls, const std::string& field,
                               FieldViolations& violations) {
  storage::v1::TlsRecord record;
  record.set_ca_certificates(tls.ca_certificates());
  record.set_client_certificate(tls.client_certificate());
  record.set_client_key(tls.client_key());
  for (const auto& [name, value] : {std::pair(".ca_certificates", &tls.ca_certificates()),
                                    std::pair(".client_certificate", &tls.client_certificate()),
                                    std::pair(".client_key", &tls.client_key())}) {
    if (value->size() > kPemBytesMax) {
      violations.Add(absl::StrCat(field, name),
                     absl::StrCat("must have at most ", kPemBytesMax, " bytes"));
      return record;
    }
  }
  const std::unique_ptr<SSL_CTX, ContextDeleter> context(SSL_CTX_new(TLS_client_method()));
  if (!tls.ca_certificates().empty()) {
    const std::string name = "ca_certificates";
    const absl::Status trusted = TrustCa({name, tls.ca_certificates()}, *context);
    if (!trusted.ok()) violations.Add(absl::StrCat(field, ".", name), Without(name, trusted));
  }
  if (tls.client_certificate().empty() != tls.client_key().empty()) {
    violations.Add(absl::StrCat(field, ".client_certificate"), "and client_key need each other");
  } else if (!tls.client_key().empty() && !IsSecretPlaceholder(tls.client_key())) {
    const std::string name = "client_certificate";
    const absl::Status used =
        UseIdentity({name, tls.client_certificate()}, {"client_key", tls.client_key()}, *context);
    if (!used.ok()) violations.Add(absl::StrCat(field, ".", name), Without(name, used));
  }
  return record;
}

v1::TlsOptions ShowTls(const storage::v1::TlsRecord& record) {
  v1::TlsOptions tls;
  tls.set_ca_certificates(record.ca_certificates());
  tls.set_client_certificate(record.client_certificate());
  if (!record.client_key().empty()) tls.set_client_key(SecretPlaceholder(record.client_key()));
  return tls;
}

size_t CharsOf(absl::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

}  // namespace escapement::master
